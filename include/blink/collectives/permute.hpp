// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/running/call/detail/collective_call.hpp>
#include <blink/running/call/schedule_source.hpp>
#include <blink/schedule/chunking.hpp>

#include <cstddef>
#include <utility>

namespace blink { inline namespace BLINK_ABI {

/// Sends each rank's `count` elements to the rank to which the schedule's tree of this rank leads.
///
/// trees:  a prepared schedule, a schedule, or algorithms by size; see `schedule_source`
/// input:  this rank's elements (count); not read if the rank sends nothing, and may be null then
/// output: the elements that arrive at this rank (count); may be `input`, and must not overlap it
///         otherwise. Not written if nothing arrives, and may be null then.
/// Moves:  each buffer over the trees from its rank.
/// Needs:  in place, memory for a copy of the input.
/// Throws: precondition_error if the schedule does not carry a permutation, or for buffers that are
///         null or overlap; collective_error, on every rank, if a rank does not enter the call,
///         makes no progress until the deadline, or calls something else.
template <chunking Chunks = scheduled_chunks, communicator Comm, schedule_source Source, class T>
void permute(Comm& comm, Source&& trees, T const* input, T* output, std::size_t count) {
  detail::run_collective<Chunks>(comm, std::forward<Source>(trees), collective::permute, input,
                                 output, count, detail::no_reducer{});
}

/// Sends each rank's `count` elements to the next rank. The last rank sends nothing and the first
/// one receives nothing.
///
/// trees, input, output: as for `permute`
/// Needs:  in place, memory for a copy of the input.
/// Throws: precondition_error if the schedule does not carry this collective, or for buffers that
///         are null or overlap; collective_error, on every rank, if a rank does not enter the call,
///         makes no progress until the deadline, or calls something else.
template <chunking Chunks = scheduled_chunks, communicator Comm, schedule_source Source, class T>
void send_to_next(Comm& comm, Source&& trees, T const* input, T* output, std::size_t count) {
  detail::run_collective<Chunks>(comm, std::forward<Source>(trees), collective::send_to_next, input,
                                 output, count, detail::no_reducer{});
}

}}  // namespace blink::BLINK_ABI
