// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collective.hpp>
#include <blink/collectives/chunking.hpp>
#include <blink/collectives/detail/check_buffers.hpp>
#include <blink/collectives/detail/collective_call.hpp>
#include <blink/collectives/detail/may_move_elements.hpp>
#include <blink/collectives/detail/run_collective.hpp>
#include <blink/collectives/reducer.hpp>
#include <blink/collectives/session.hpp>
#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/transports/prepared_schedule.hpp>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

namespace blink::inline BLINK_ABI {

/// One of several buffers that are collected, reduced or spread together.
template <class T>
struct buffer_part {
  T const* input = nullptr;
  T* output = nullptr;
  std::size_t count = 0;  ///< as of a call with this buffer alone
};

/// The same collective of several buffers, as if they were one: small ones are copied together and
/// cross in one call, so that they cost its start once. Larger ones are called one by one.
///
/// kind:       any but a barrier
/// parts:      the same counts on all ranks; each as with the function of that name
/// pack_below: bytes of a part's input and output together from which on it is called alone; the
///             same on all ranks
/// Needs:      memory for the parts that are packed.
/// Order:      as of one call with the packed parts one behind the other. Reducers that look at the
///             place of an element, or ask for `order_promise::shape`, are not packed.
/// Throws:     as the function of that name; for a part that this rank has wrong, before anything
///             moves.
template <chunking Chunks = scheduled_chunks, session Me, class T,
          class Reducer = detail::no_reducer>
void grouped(Me& me, prepared_schedule& plan, collective kind,
             std::vector<buffer_part<T>> const& parts, Reducer const& reduce = {},
             std::size_t pack_below = std::size_t{1} << 17) {
  expects(me.group().size() == 1, "grouped: the session's group must be a lone thread");
  expects(kind != collective::barrier, "grouped: a barrier has no buffers");
  plan.expect_carries(kind);
  auto const ranks = static_cast<std::size_t>(me.rank_count());
  std::size_t const in_blocks = has_input_blocks(kind) ? ranks : 1;
  std::size_t const out_blocks = has_output_blocks(kind) ? ranks : 1;
  auto const use = detail::use_of(plan.tables().lanes(me.rank(), kind));
  std::vector<buffer_part<T> const*> packed, alone;
  std::size_t together = 0;
  for (auto const& part : parts) {
    (void)detail::check_buffers(kind, use, me.rank(), me.rank_count(), part.input, part.output,
                                part.count, sizeof(T));
    bool const is_small = part.count * (in_blocks + out_blocks) * sizeof(T) < pack_below;
    bool const is_packed = is_small && detail::may_move_elements<Reducer, T>;
    (is_packed ? packed : alone).push_back(&part);
    if (is_packed) together += part.count;
  }
  if (packed.size() == 1) alone.insert(alone.begin(), packed.front());
  if (packed.size() > 1) {
    auto* const in = reinterpret_cast<T*>(
        plan.packed_at(me.rank()).at_least(together * (in_blocks + out_blocks) * sizeof(T)));
    T* const out = in + together * in_blocks;
    std::size_t before = 0;
    for (auto const* part : packed) {
      for (std::size_t block = 0; use.reads && part->count > 0 && block < in_blocks; ++block) {
        std::memcpy(static_cast<void*>(in + block * together + before),
                    part->input + block * part->count, part->count * sizeof(T));
      }
      before += part->count;
    }
    detail::run_collective<Chunks>(me, plan, kind, static_cast<T const*>(in), out, together,
                                   reduce);
    before = 0;
    for (auto const* part : packed) {
      for (std::size_t block = 0; use.writes && part->count > 0 && block < out_blocks; ++block) {
        std::memcpy(static_cast<void*>(part->output + block * part->count),
                    out + block * together + before, part->count * sizeof(T));
      }
      before += part->count;
    }
  }
  for (auto const* part : alone) {
    detail::run_collective<Chunks>(me, plan, kind, part->input, part->output, part->count, reduce);
  }
}

/// The same along a schedule that is looked up, or prepared, first.
template <chunking Chunks = scheduled_chunks, session Me, class T,
          class Reducer = detail::no_reducer>
void grouped(Me& me, schedule const& plan, collective kind,
             std::vector<buffer_part<T>> const& parts, Reducer const& reduce = {},
             std::size_t pack_below = std::size_t{1} << 17) {
  grouped<Chunks>(me, me.prepare(plan), kind, parts, reduce, pack_below);
}

}  // namespace blink::inline BLINK_ABI
