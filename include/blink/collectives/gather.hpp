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

/// Collects a block of `count` elements of each rank at one of them, the end of the schedule's flows.
///
/// trees:  a prepared schedule, a schedule, or algorithms by size; see `schedule_source`
/// input:  this rank's block (count)
/// output: at the root all blocks in the order of the ranks (ranks * count); `input` may be this
///         rank's block in it, and must not overlap it otherwise. Not touched elsewhere; may be null
///         there.
/// Moves:  each block over the trees from its rank.
/// Throws: precondition_error if `schedule` does not carry it, or for buffers that are null or overlap;
///         collective_error, on every rank, if a rank does not come or does not go on before the
///         deadline, or calls something else.
template <chunking Chunks = scheduled_chunks, communicator Comm, schedule_source Source, class T>
void gather(Comm& comm, Source&& trees, T const* input, T* output, std::size_t count) {
  detail::run_collective<Chunks>(comm, std::forward<Source>(trees), collective::gather, input,
                                 output, count, detail::no_reducer{});
}

}}  // namespace blink::BLINK_ABI
