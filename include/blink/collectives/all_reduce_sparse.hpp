// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/block_mask.hpp>
#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/reducers/arithmetic.hpp>
#include <blink/reducers/bitwise.hpp>
#include <blink/reducers/order.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/running/call/detail/any_call.hpp>
#include <blink/running/call/detail/call_steps.hpp>
#include <blink/running/call/detail/call_types.hpp>
#include <blink/running/call/detail/check_buffers.hpp>
#include <blink/running/call/detail/collective_call.hpp>
#include <blink/running/call/element_buffer.hpp>
#include <blink/running/call/schedule_source.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/schedule/chunking.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

namespace blink { inline namespace BLINK_ABI {

/// The result of a sparse all-reduce.
struct sparse_report {
  std::size_t elements = 0;  ///< elements that were reduced
  bool was_dense = false;    ///< true if the whole buffer was reduced
};

/// Share of the buffer from which on a sparse all-reduce reduces the whole buffer, because packing
/// costs two copies.
inline constexpr double default_pays_below = 0.25;

namespace detail {

template <class T>
[[nodiscard]] T zero_of() {
  return std::bit_cast<T>(std::array<std::byte, sizeof(T)>{});
}

/// True if zeros of all ranks reduce to zero, so that blocks that are zero on all ranks can be left
/// out.
template <class T, class Reducer>
[[nodiscard]] bool keeps_zero(Reducer const& reduce, int rank_count) {
  if constexpr (!may_move_elements<Reducer, T>) {
    return false;
  } else {
    using accumulator = accumulator_t<Reducer, T>;
    auto const one = static_cast<accumulator>(lift(reduce, zero_of<T>(), element_place{}));
    accumulator total = one;
    for (int rank = 1; rank < rank_count; ++rank) {
      total = static_cast<accumulator>(reduce(total, one));
    }
    T const result = static_cast<T>(finish(reduce, total, rank_count, element_place{}));
    T const zero = zero_of<T>();
    return std::memcmp(&result, &zero, sizeof(T)) == 0;
  }
}

/// A sparse all-reduce. It is not movable; the data, the mask and the report outlive it.
template <chunking Chunks, communicator Comm, class T, class Reducer>
class sparse_call final : public staged_call {
 public:
  sparse_call(Comm& comm, prepared_schedule& prepared, T* data, block_mask& mask,
              Reducer const& reduce, double pays_below, sparse_report* reported)
      : me_(comm),
        plan_(prepared),
        data_(data),
        mask_(mask),
        count_(mask.count()),
        block_elements_(mask.block_elements()),
        reduce_(reduce),
        pays_below_(pays_below),
        reported_(reported) {
    static_assert(!has_unit<Reducer>, "blink: all_reduce_sparse takes no reducer of longer items");
    expects(comm.group().size() == 1,
            "all_reduce_sparse: the communicator's group has several threads, expected one");
    prepared.expect_carries(collective::all_reduce);
    if (mask.count() > 0 && data == nullptr) {
      throw precondition_error("all_reduce_sparse on rank " + std::to_string(comm.rank()) +
                               ": the data is null, expected elements");
    }
    expect_aligned(collective::all_reduce, comm.rank(), "data", data, alignof(T));
    expect_reachable(comm, data, mask.count() * sizeof(T), "all_reduce_sparse", "the data");
    expect_runs(prepared, sizes_of<Reducer, T>(), operands_needed<Reducer>, comm.rank_count(),
                "communicator_options");
  }

 private:
  [[nodiscard]] any_call* next(std::size_t ended) override {
    if (ended == 0) return &agree();
    any_call* const more = ended == 1 ? reduce() : nullptr;
    if (ended == 2 && !report_.was_dense) unpack();
    if (more == nullptr && reported_ != nullptr) *reported_ = report_;
    return more;
  }

  // Two more words of each rank hold the length of its buffer and of its blocks. If ranks differ,
  // every rank learns which ones.
  [[nodiscard]] any_call& agree() {
    expects(mask_.count() == count_ && mask_.block_elements() == block_elements_,
            "all_reduce_sparse: the mask is of another buffer, or has other blocks, than when the "
            "call was made, expected the same mask");
    auto const& words = mask_.words();
    std::size_t const sizes = 2 * static_cast<std::size_t>(me_.rank_count());
    bits_ = memory<std::uint64_t>(words.size() + sizes);
    auto* const behind = std::copy(words.begin(), words.end(), bits_);
    std::fill_n(behind, sizes, std::uint64_t{0});
    auto* const own = behind + 2 * me_.rank();
    own[0] = count_;
    own[1] = block_elements_;
    return agreeing_.emplace(me_, plan_, collective::all_reduce, bits_, bits_,
                             call_size{words.size() + sizes}, bit_or{});
  }

  // sizes: of all ranks
  void expect_equal(std::uint64_t const* sizes) const {
    for (int rank = 1; rank < me_.rank_count(); ++rank) {
      auto const* const other = sizes + 2 * rank;
      if (other[0] == sizes[0] && other[1] == sizes[1]) continue;
      auto const text = [](std::uint64_t const* of) {
        return std::to_string(of[0]) + " elements in blocks of " + std::to_string(of[1]);
      };
      throw precondition_error("all_reduce_sparse: rank " + std::to_string(rank) + " has " +
                               text(other) + ", rank 0 has " + text(sizes));
    }
  }

  // Returns null if nothing is left to do.
  [[nodiscard]] any_call* reduce() {
    auto& words = mask_.words();
    std::copy_n(bits_, words.size(), words.begin());
    expect_equal(bits_ + words.size());
    report_ = {mask_.elements(), false};
    bool const is_kept = keeps_zero<T>(reduce_, me_.rank_count());
    if (report_.elements == 0 && is_kept) return nullptr;
    bool const pays =
        static_cast<double>(report_.elements) < pays_below_ * static_cast<double>(mask_.count());
    if (!pays || !is_kept) {
      report_ = {mask_.count(), true};
      return &reducing(data_, mask_.count());
    }
    packed_ = memory<T>(report_.elements);
    T* next = packed_;
    mask_.for_each([&](std::size_t at) {
      std::memcpy(static_cast<void*>(next), data_ + mask_.begin(at), mask_.length(at) * sizeof(T));
      next += mask_.length(at);
    });
    return &reducing(packed_, report_.elements);
  }

  void unpack() const {
    T const* next = packed_;
    mask_.for_each([&](std::size_t at) {
      std::memcpy(static_cast<void*>(data_ + mask_.begin(at)), next, mask_.length(at) * sizeof(T));
      next += mask_.length(at);
    });
  }

  [[nodiscard]] any_call& reducing(T* data, std::size_t count) {
    return reducing_.emplace(me_, plan_, collective::all_reduce, data, data, call_size{count},
                             reduce_);
  }
  template <class Element>
  [[nodiscard]] Element* memory(std::size_t count) {
    return reinterpret_cast<Element*>(
        plan_.packed_at(me_.rank()).at_least(count * sizeof(Element)));
  }

  Comm& me_;
  prepared_schedule& plan_;
  T* data_;
  block_mask& mask_;
  std::size_t count_, block_elements_;
  Reducer reduce_;
  double pays_below_;
  sparse_report report_;
  sparse_report* reported_;  // null: the caller wants no report
  std::uint64_t* bits_ = nullptr;
  T* packed_ = nullptr;
  std::optional<call_of<collective_call<scheduled_chunks, Comm, std::uint64_t, bit_or>>> agreeing_;
  std::optional<call_of<collective_call<Chunks, Comm, T, Reducer>>> reducing_;
};

}  // namespace detail

/// Reduces in place a buffer that is zero except for some blocks.
///
/// The ranks agree on the blocks that any rank has. Only those are sent. The result is that of
/// `all_reduce`.
///
/// trees:      a prepared schedule or a schedule
/// data:       this rank's contribution on entry, the result on return (count of `mask`)
/// mask:       on entry this rank's blocks that may be nonzero, all other blocks being zero; on
///             return the blocks of the result. The lengths of the buffer and of its blocks are
///             equal on all ranks.
/// pays_below: share of the buffer from which on all of it is reduced, because packing costs two
///             copies
/// Moves:      the mask, a bit for each block, as an all-reduce; then the packed blocks as another.
/// Time:       proportional to the blocks that any rank has, besides the mask; proportional to the
///             buffer if the blocks are too many, if the reducer turns zeros into something else,
///             or if it reads places.
/// Needs:      memory for the packed blocks.
/// Order:      as for `all_reduce`. An element may belong to another tree than in the whole buffer.
///             So rounded sums can differ in the last bits, unless the trees keep the order of the
///             ranks, as stars do.
/// Source:     agreement on the blocks as in J. Fei et al., "Efficient sparse collective
///             communication and its application to accelerate distributed deep learning", SIGCOMM
///             2021.
/// Throws:     as `all_reduce`; precondition_error on all ranks if the lengths of their buffers or
///             blocks differ.
template <chunking Chunks = scheduled_chunks, communicator Comm, single_schedule Source, class T,
          class Reducer>
sparse_report all_reduce_sparse(Comm& comm, Source&& trees, T* data, block_mask& mask,
                                Reducer const& reduce, double pays_below = default_pays_below) {
  sparse_report report;
  auto& prepared = detail::prepared_from(comm, std::forward<Source>(trees));
  detail::sparse_call<Chunks, Comm, T, Reducer> call(comm, prepared, data, mask, reduce, pays_below,
                                                     &report);
  detail::run_to_end(comm, collective::all_reduce, call);
  return report;
}

/// The same, with the mask made by one pass over the data.
///
/// block_elements: length of a block; the mask has a bit for each block
template <chunking Chunks = scheduled_chunks, communicator Comm, single_schedule Source, class T,
          class Reducer>
sparse_report all_reduce_sparse(Comm& comm, Source&& trees, T* data, std::size_t count,
                                std::size_t block_elements, Reducer const& reduce,
                                double pays_below = default_pays_below) {
  if (count > 0 && data == nullptr) {
    throw precondition_error("all_reduce_sparse on rank " + std::to_string(comm.rank()) +
                             ": the data is null, expected elements");
  }
  detail::expect_aligned(collective::all_reduce, comm.rank(), "data", data, alignof(T));
  auto mask = block_mask::of(static_cast<T const*>(data), count, block_elements);
  return all_reduce_sparse<Chunks>(comm, std::forward<Source>(trees), data, mask, reduce,
                                   pays_below);
}

/// Both forms along the schedule that the communicator's tuning selects for the whole buffer.
template <communicator Comm, class T, detail::maybe_reducer Reducer = sum>
sparse_report all_reduce_sparse(Comm& comm, T* data, block_mask& mask, Reducer const& reduce = {}) {
  auto const chosen = detail::tuned_source<Comm>{comm}.choose(
      collective::all_reduce, mask.count() * sizeof(T), detail::operands_needed<Reducer>);
  return all_reduce_sparse(comm, *chosen.prepared, data, mask, reduce);
}
template <communicator Comm, class T, detail::maybe_reducer Reducer = sum>
sparse_report all_reduce_sparse(Comm& comm, T* data, std::size_t count, std::size_t block_elements,
                                Reducer const& reduce = {}) {
  auto const chosen = detail::tuned_source<Comm>{comm}.choose(
      collective::all_reduce, count * sizeof(T), detail::operands_needed<Reducer>);
  return all_reduce_sparse(comm, *chosen.prepared, data, count, block_elements, reduce);
}

}}  // namespace blink::BLINK_ABI
