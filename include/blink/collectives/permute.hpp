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

/// Hands each rank's `count` elements to the rank that the schedule's flows lead to.
///
/// trees:  a prepared schedule, a schedule, or algorithms by size; see `schedule_source`
/// input:  this rank's elements (count); not touched where nothing is sent, may be null there
/// output: the elements of the rank that sends here (count); may be `input`, and must not overlap it
///         otherwise. Not touched where nothing arrives; may be null there.
/// Moves:  each buffer over the trees from its rank.
/// Needs:  in place, a copy of the input.
/// Throws: precondition_error if `schedule` does not carry it, or for buffers that are null or overlap;
///         collective_error, on every rank, if a rank does not come or does not go on before the
///         deadline, or calls something else.
template <chunking Chunks = scheduled_chunks, communicator Comm, schedule_source Source, class T>
void permute(Comm& comm, Source&& trees, T const* input, T* output, std::size_t count) {
  detail::run_collective<Chunks>(comm, std::forward<Source>(trees), collective::permute, input,
                                 output, count, detail::no_reducer{});
}

/// Hands each rank's `count` elements to the next rank; the last sends nothing and the first gets
/// nothing. Buffers as with `permute`.
///
/// Throws: precondition_error if `schedule` does not carry it, or for buffers that are null or overlap;
///         collective_error, on every rank, if a rank does not come or does not go on before the
///         deadline, or calls something else.
template <chunking Chunks = scheduled_chunks, communicator Comm, schedule_source Source, class T>
void send_to_next(Comm& comm, Source&& trees, T const* input, T* output, std::size_t count) {
  detail::run_collective<Chunks>(comm, std::forward<Source>(trees), collective::send_to_next, input,
                                 output, count, detail::no_reducer{});
}

}}  // namespace blink::BLINK_ABI
