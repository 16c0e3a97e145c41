// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/detail/memory_range.hpp>
#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/detail/hash.hpp>
#include <blink/core/error.hpp>
#include <blink/reducers/order.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/running/call/detail/any_call.hpp>
#include <blink/running/call/detail/call_types.hpp>
#include <blink/running/call/detail/check_buffers.hpp>
#include <blink/running/call/detail/collective_call.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/schedule/chunking.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// One of several buffers of a grouped call, with its input and output.
template <class T>
struct buffer_part {
  T const* input = nullptr;
  T* output = nullptr;
  std::size_t count = 0;  ///< elements, as for a call with this buffer alone
};

/// Bytes of a part's input and output together from which on `grouped` gives it its own call.
inline constexpr std::size_t default_pack_below = std::size_t{1} << 17;

namespace detail {

/// A call of one collective on several buffers. It is not movable.
template <chunking Chunks, communicator Comm, class T, class Reducer>
class grouped_call final : public staged_call {
 public:
  grouped_call(Comm& comm, prepared_schedule& prepared, collective kind,
               std::vector<buffer_part<T>> const& parts, Reducer const& reduce,
               std::size_t pack_below)
      : me_(comm),
        plan_(prepared),
        kind_(kind),
        reduce_(reduce),
        use_(use_of(prepared.tables().tasks(comm.rank(), kind))) {
    static_assert(!has_unit<Reducer>, "blink: grouped takes no reducer of longer items");
    expects(comm.group().size() == 1,
            "grouped: the communicator's group has several threads, expected one");
    expects(moves_data(kind), "grouped: a barrier has no buffers, expected another collective");
    prepared.expect_carries(kind);
    buffer_part<T> const* largest = nullptr;
    std::vector<memory_range> ranges;
    for (auto const& part : parts) {
      auto const overlap = check_buffers(kind, use_, comm.rank(), comm.rank_count(), part.input,
                                         part.output, part.count, sizeof(T), alignof(T));
      add_ranges(ranges, part, overlap == buffer_overlap::in_place);
      auto const expect_part = [&](void const* buffer, std::size_t blocks, char const* which) {
        expect_reachable(comm, buffer, part.count * blocks * sizeof(T), "grouped", which);
      };
      if (use_.reads) expect_part(part.input, in_blocks(), "the input of a part");
      if (use_.writes) expect_part(part.output, out_blocks(), "the output of a part");
      if (largest == nullptr || part.count > largest->count) largest = &part;
      std::size_t const bytes = part.count * (in_blocks() + out_blocks()) * sizeof(T);
      (bytes < pack_below && may_move_elements<Reducer, T> ? packed_ : alone_).push_back(part);
    }
    if (overlap_where_written(std::move(ranges))) {
      throw precondition_error(
          "grouped " + std::string(to_text(kind)) + " on rank " + std::to_string(comm.rank()) +
          ": the output of a part overlaps another part, expected separate parts");
    }
    if (largest != nullptr) {  // checks the schedule and the reducer
      one_call(comm, prepared, kind, largest->input, largest->output, call_size{largest->count},
               reduce);
    }
    if (packed_.size() == 1) alone_.push_back(packed_.front());
    if (packed_.size() <= 1) packed_.clear();
    together_ = size_of_all(packed_);
  }

 private:
  using one_call = collective_call<Chunks, Comm, T, Reducer>;

  // In place, one of the two buffers is a part of the other.
  void add_ranges(std::vector<memory_range>& all, buffer_part<T> const& part,
                  bool is_in_place) const {
    if (part.count == 0) return;
    std::size_t const in_bytes = part.count * in_blocks() * sizeof(T);
    std::size_t const out_bytes = part.count * out_blocks() * sizeof(T);
    if (is_in_place) {
      if (in_bytes > out_bytes) {
        all.emplace_back(part.input, in_bytes, true);
      } else {
        all.emplace_back(part.output, out_bytes, true);
      }
      return;
    }
    if (use_.reads) all.emplace_back(part.input, in_bytes, false);
    if (use_.writes) all.emplace_back(part.output, out_bytes, true);
  }

  [[nodiscard]] any_call* next(std::size_t ended) override {
    bool const packs = !packed_.empty();
    if (packs && ended == 0) return &pack();
    if (packs && ended == 1) unpack();
    std::size_t const number = ended - (packs ? 1 : 0);
    if (number == alone_.size()) return nullptr;
    auto const& part = alone_[number];
    return &call(part.input, part.output, {part.count});
  }

  [[nodiscard]] any_call& pack() {
    auto* const in = reinterpret_cast<T*>(
        plan_.packed_at(me_.rank())
            .at_least(together_.count * (in_blocks() + out_blocks()) * sizeof(T)));
    T* const out = in + together_.count * in_blocks();
    packed_output_ = out;
    std::size_t before = 0;
    for (auto const& part : packed_) {
      for (std::size_t block = 0; use_.reads && part.count > 0 && block < in_blocks(); ++block) {
        std::memcpy(static_cast<void*>(in + block * together_.count + before),
                    part.input + block * part.count, part.count * sizeof(T));
      }
      before += part.count;
    }
    return call(in, out, together_);
  }
  void unpack() const {
    std::size_t before = 0;
    for (auto const& part : packed_) {
      for (std::size_t block = 0; use_.writes && part.count > 0 && block < out_blocks(); ++block) {
        std::memcpy(static_cast<void*>(part.output + block * part.count),
                    packed_output_ + block * together_.count + before, part.count * sizeof(T));
      }
      before += part.count;
    }
  }

  // The total size of all parts. The hash covers each part's count, because ranks must agree on the
  // order of the parts.
  [[nodiscard]] static call_size size_of_all(std::vector<buffer_part<T>> const& parts) {
    call_size result;
    hash counts;
    for (auto const& part : parts) {
      result.count += part.count;
      counts.add(std::uint64_t{part.count});
    }
    result.hash = counts.value();
    return result;
  }
  [[nodiscard]] any_call& call(T const* input, T* output, call_size const& size) {
    return present_.emplace(me_, plan_, kind_, input, output, size, reduce_);
  }
  [[nodiscard]] std::size_t in_blocks() const {
    return has_input_blocks(kind_) ? static_cast<std::size_t>(me_.rank_count()) : 1;
  }
  [[nodiscard]] std::size_t out_blocks() const {
    return has_output_blocks(kind_) ? static_cast<std::size_t>(me_.rank_count()) : 1;
  }

  Comm& me_;
  prepared_schedule& plan_;
  collective kind_;
  Reducer reduce_;
  buffer_use use_;
  std::vector<buffer_part<T>> packed_, alone_;
  call_size together_;  // of the packed parts
  T const* packed_output_ = nullptr;
  std::optional<call_of<one_call>> present_;
};

}  // namespace detail

/// Calls one collective on several buffers, as if they were one buffer.
///
/// Small buffers are packed and sent in one call, so that they pay its start-up once. Each larger
/// buffer gets its own call.
///
/// kind:       any collective but a barrier
/// parts:      the same counts on all ranks; each part as for the collective's own function; no
///             output overlaps another part
/// pack_below: bytes of a part's input and output together from which on it gets its own call; the
///             same on all ranks
/// Needs:      memory for the packed parts.
/// Order:      as for one call on the packed parts, one behind the other. Parts are not packed if
///             the reducer reads places of elements, or asks for `order_promise::shape`.
/// Throws:     as the collective's own function; for a wrong part of this rank, before anything
///             moves.
template <chunking Chunks = scheduled_chunks, communicator Comm, class T,
          class Reducer = detail::no_reducer>
void grouped(Comm& comm, prepared_schedule& prepared, collective kind,
             std::vector<buffer_part<T>> const& parts, Reducer const& reduce = {},
             std::size_t pack_below = default_pack_below) {
  detail::grouped_call<Chunks, Comm, T, Reducer> call(comm, prepared, kind, parts, reduce,
                                                      pack_below);
  detail::run_to_end(comm, kind, call);
}

/// The same along a schedule that is prepared first, unless the communicator already has it.
template <chunking Chunks = scheduled_chunks, communicator Comm, class T,
          class Reducer = detail::no_reducer>
void grouped(Comm& comm, schedule const& source, collective kind,
             std::vector<buffer_part<T>> const& parts, Reducer const& reduce = {},
             std::size_t pack_below = default_pack_below) {
  grouped<Chunks>(comm, comm.prepare(source), kind, parts, reduce, pack_below);
}

}}  // namespace blink::BLINK_ABI
