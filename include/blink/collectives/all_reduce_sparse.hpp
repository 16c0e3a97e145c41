// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collective.hpp>
#include <blink/collectives/all_reduce.hpp>
#include <blink/collectives/block_mask.hpp>
#include <blink/collectives/chunking.hpp>
#include <blink/collectives/detail/may_move_elements.hpp>
#include <blink/collectives/reducer.hpp>
#include <blink/collectives/session.hpp>
#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/reducers/bitwise.hpp>
#include <blink/transports/prepared_schedule.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace blink::inline BLINK_ABI {

namespace detail {

template <class T>
[[nodiscard]] T zero_of() {
  return std::bit_cast<T>(std::array<std::byte, sizeof(T)>{});
}

/// Do zeros of all ranks come to zero, so that blocks that all have zero need no call?
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

}  // namespace detail

/// What a sparse all-reduce did.
struct sparse_report {
  std::size_t elements = 0;  ///< that were reduced: those of blocks that some rank has
  bool was_dense = false;    ///< the whole buffer was
};

/// Reduces a buffer that is zero but for some blocks, in place: the ranks agree which blocks any of
/// them has, and only those are sent. The result is that of `all_reduce`.
///
/// data: this rank's contribution on entry, the result on return (count of `mask`)
/// mask: on entry the blocks of this rank that may hold something, the others being zero; on return
///       those of the result. Length of the buffer and of its blocks are equal on all ranks.
/// pays_below: share of the buffer from which on it is reduced as a whole; packing costs two copies
/// Moves:  the mask, a bit for each block, as an all-reduce; then the blocks, packed, as another.
/// Time:   proportional to the blocks that any rank has, beside the mask. The whole buffer where they
///         are too many, or where the reducer makes something of zeros or looks at places.
/// Needs:  memory for the packed blocks.
/// Order:  as of `all_reduce`; an element may belong to another tree than in the whole buffer, so sums that
///         are rounded can differ from it in the last bits, unless trees keep the order of the ranks
///         as stars do.
/// Source: agreeing on the blocks first as in J. Fei et al., "Efficient sparse collective
///         communication and its application to accelerate distributed deep learning", SIGCOMM 2021.
/// Throws: as `all_reduce`; other lengths on other ranks are told by all.
template <chunking Chunks = scheduled_chunks, session Me, class T, class Reducer>
sparse_report all_reduce_sparse(Me& me, prepared_schedule& plan, T* data, block_mask& mask,
                                Reducer const& reduce, double pays_below = 0.25) {
  expects(me.group().size() == 1, "all_reduce_sparse: the session's group must be a lone thread");
  if (mask.count() > 0 && data == nullptr) {
    throw precondition_error("all_reduce_sparse on rank " + std::to_string(me.rank()) +
                             ": the data is null");
  }
  auto& words = mask.words();
  // Two words say what the mask is of: where they differ, the difference is found on all ranks.
  std::uint64_t const length = mask.count();
  std::uint64_t const block = mask.block_elements();
  words.insert(words.end(), {length, ~length, block, ~block});
  std::size_t const mask_bytes = words.size() * sizeof(std::uint64_t);
  auto* const bits =
      reinterpret_cast<std::uint64_t*>(plan.packed_at(me.rank()).at_least(mask_bytes));
  std::memcpy(bits, words.data(), mask_bytes);
  all_reduce(me, plan, static_cast<std::uint64_t const*>(bits), bits, words.size(), bit_or{});
  std::memcpy(words.data(), bits, mask_bytes);
  bool const is_same = (words[words.size() - 4] & words[words.size() - 3]) == 0 &&
                       (words[words.size() - 2] & words[words.size() - 1]) == 0;
  words.resize(words.size() - 4);
  if (!is_same) {
    throw precondition_error(
        "all_reduce_sparse: ranks have other lengths of the buffer or of its blocks; rank " +
        std::to_string(me.rank()) + " has " + std::to_string(length) + " and " +
        std::to_string(block));
  }

  sparse_report report{mask.elements(), false};
  if (report.elements == 0 && detail::keeps_zero<T>(reduce, me.rank_count())) return report;
  bool const pays =
      static_cast<double>(report.elements) < pays_below * static_cast<double>(mask.count());
  if (!pays || !detail::keeps_zero<T>(reduce, me.rank_count())) {
    report = {mask.count(), true};
    all_reduce<Chunks>(me, plan, static_cast<T const*>(data), data, mask.count(), reduce);
    return report;
  }
  auto* const packed =
      reinterpret_cast<T*>(plan.packed_at(me.rank()).at_least(report.elements * sizeof(T)));
  T* next = packed;
  mask.for_each([&](std::size_t at) {
    std::memcpy(static_cast<void*>(next), data + mask.begin(at), mask.length(at) * sizeof(T));
    next += mask.length(at);
  });
  all_reduce<Chunks>(me, plan, static_cast<T const*>(packed), packed, report.elements, reduce);
  next = packed;
  mask.for_each([&](std::size_t at) {
    std::memcpy(static_cast<void*>(data + mask.begin(at)), next, mask.length(at) * sizeof(T));
    next += mask.length(at);
  });
  return report;
}

/// The same, looking for the blocks first: one pass over the data.
///
/// block_elements: length of a block; the mask has a bit for each
template <chunking Chunks = scheduled_chunks, session Me, class T, class Reducer>
sparse_report all_reduce_sparse(Me& me, prepared_schedule& plan, T* data, std::size_t count,
                                std::size_t block_elements, Reducer const& reduce,
                                double pays_below = 0.25) {
  if (count > 0 && data == nullptr) {
    throw precondition_error("all_reduce_sparse on rank " + std::to_string(me.rank()) +
                             ": the data is null");
  }
  auto mask = block_mask::of(static_cast<T const*>(data), count, block_elements);
  return all_reduce_sparse<Chunks>(me, plan, data, mask, reduce, pays_below);
}

}  // namespace blink::inline BLINK_ABI
