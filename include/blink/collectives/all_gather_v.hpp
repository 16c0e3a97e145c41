// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collective.hpp>
#include <blink/collectives/block.hpp>
#include <blink/collectives/chunking.hpp>
#include <blink/collectives/detail/collective_call.hpp>
#include <blink/collectives/detail/fingerprint.hpp>
#include <blink/collectives/schedule.hpp>
#include <blink/collectives/session.hpp>
#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/transports/prepared_schedule.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace blink::inline BLINK_ABI {

namespace detail {

/// All-gather and reduce-scatter with blocks of any sizes, equal on all ranks.
///
/// whole, own: the buffer with all blocks and the one with this rank's block
template <chunking Chunks, session Me, class T, class Reducer>
void run_unequal_blocks(Me& me, prepared_schedule& plan, collective kind, T const* input, T* output,
                        std::vector<block> const& blocks, Reducer const& reduce) {
  bool const gathers = kind == collective::all_gather;
  auto const name = std::string(to_text(kind)) + " on rank " + std::to_string(me.rank());
  check_blocks(name, blocks, me.rank_count(), sizeof(T), true);
  plan.expect_carries(kind);
  auto const& own = blocks[static_cast<std::size_t>(me.rank())];
  std::size_t const end = end_of(blocks);
  expect_buffer(name, "input", input, gathers ? own.count : end);
  expect_buffer(name, "output", output, gathers ? end : own.count);
  bool const is_in_place = gathers ? input == output + own.begin : output == input + own.begin;
  if (own.count > 0 && !is_in_place) {
    expect_apart(name, input, (gathers ? own.count : end) * sizeof(T), output,
                 (gathers ? end : own.count) * sizeof(T));
  }
  call_size size;
  std::vector<block_range> ranges;
  fingerprint all;
  for (auto const& one : blocks) {
    ranges.push_back({gathers ? 0 : one.begin, gathers ? one.begin : 0, one.count});
    all.add(std::uint64_t{one.begin});
    all.add(std::uint64_t{one.count});
    size.count += one.count;
  }
  size.blocks = ranges.data();
  size.fingerprint = all.value();
  collective_call<Chunks, Me, T, Reducer> call(me, plan, kind, input, output, size, reduce);
  call.begin();
  call.complete();
}

}  // namespace detail

/// Collects a block of each rank, of any size; every rank ends with all of them.
///
/// input:  this rank's block
/// blocks: by rank, where its block lies in the output; the same on all ranks, none over another
/// output: all blocks; `input` may be this rank's block in it, and must not overlap it otherwise
/// Moves:  each block over the edges of the trees rooted at its rank, away from the root.
/// Throws: precondition_error if `plan` does not carry an all-gather, or for blocks or buffers that
///         are wrong; collective_error, on every rank, if a rank does not come or does not go on
///         before the deadline, or calls something else, such as other blocks.
template <chunking Chunks = scheduled_chunks, session Me, class T>
void all_gather_v(Me& me, prepared_schedule& plan, T const* input, T* output,
                  std::vector<block> const& blocks) {
  detail::run_unequal_blocks<Chunks>(me, plan, collective::all_gather, input, output, blocks,
                                     detail::no_reducer{});
}

/// The same along a schedule that is looked up, or prepared, first.
template <chunking Chunks = scheduled_chunks, session Me, class T>
void all_gather_v(Me& me, schedule const& plan, T const* input, T* output,
                  std::vector<block> const& blocks) {
  all_gather_v<Chunks>(me, me.prepare(plan), input, output, blocks);
}

/// Reduces blocks of any sizes, one for each rank; each rank ends with its own block.
///
/// input:  this rank's contribution to all blocks
/// blocks: by rank, where its block lies in the input; the same on all ranks, none over another
/// output: the result of this rank's block; may be that block of `input`, and must not overlap it
///         otherwise
/// Order:  as with `reduce_scatter`.
/// Throws: as `all_gather_v`.
template <chunking Chunks = scheduled_chunks, session Me, class T, class Reducer>
void reduce_scatter_v(Me& me, prepared_schedule& plan, T const* input, T* output,
                      std::vector<block> const& blocks, Reducer const& reduce) {
  detail::run_unequal_blocks<Chunks>(me, plan, collective::reduce_scatter, input, output, blocks,
                                     reduce);
}

/// The same along a schedule that is looked up, or prepared, first.
template <chunking Chunks = scheduled_chunks, session Me, class T, class Reducer>
void reduce_scatter_v(Me& me, schedule const& plan, T const* input, T* output,
                      std::vector<block> const& blocks, Reducer const& reduce) {
  reduce_scatter_v<Chunks>(me, me.prepare(plan), input, output, blocks, reduce);
}

}  // namespace blink::inline BLINK_ABI
