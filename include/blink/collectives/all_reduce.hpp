// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/running/call/detail/collective_call.hpp>
#include <blink/running/call/schedule_source.hpp>
#include <blink/schedule/chunking.hpp>

#include <cstddef>
#include <utility>

namespace blink { inline namespace BLINK_ABI {

/// Reduces `count` elements of all ranks element by element; every rank ends with the result.
///
/// trees:  a prepared schedule, a schedule, or algorithms by size; see `schedule_source`
/// input:  this rank's contribution (count)
/// output: the result (count); may be `input`, and must not overlap it otherwise
/// Moves:  each tree's part over each of its edges once in each direction.
/// Time:   (chunks + height up + height down - 1) chunk transfers for each tree, all at once.
/// Order:  along each tree children by rising rank, the own element at its place among them, so
///         equal schedules and inputs give equal bits. The part of a tree: see `split.hpp`.
/// Throws: precondition_error if `schedule` does not carry it; collective_error, on every rank, if a
///         rank does not come or does not go on before the deadline, or calls something else.
template <chunking Chunks = scheduled_chunks, communicator Comm, schedule_source Source, class T,
          class Reducer>
void all_reduce(Comm& comm, Source&& trees, T const* input, T* output, std::size_t count,
                Reducer const& reducer) {
  detail::run_collective<Chunks>(comm, std::forward<Source>(trees), collective::all_reduce, input,
                                 output, count, reducer);
}

}}  // namespace blink::BLINK_ABI
