// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collective.hpp>
#include <blink/collectives/chunking.hpp>
#include <blink/collectives/detail/run_collective.hpp>
#include <blink/collectives/reducer.hpp>
#include <blink/collectives/schedule.hpp>
#include <blink/collectives/session.hpp>
#include <blink/config.hpp>
#include <blink/transports/prepared_schedule.hpp>

#include <cstddef>

namespace blink::inline BLINK_ABI {

/// Copies `count` elements of the root of the trees to every rank.
///
/// input:  at the root the elements (count); not touched elsewhere, may be null there
/// output: the elements (count); at the root may be `input`, and must not overlap it otherwise
/// Moves:  each tree's part over each of its edges once, away from the root.
/// Throws: precondition_error if `plan` does not carry it; collective_error, on every rank, if a
///         rank does not come or does not go on before the deadline, or calls something else.
template <chunking Chunks = scheduled_chunks, session Me, class T>
void broadcast(Me& me, prepared_schedule& plan, T const* input, T* output, std::size_t count) {
  detail::run_collective<Chunks>(me, plan, collective::broadcast, input, output, count,
                                 detail::no_reducer{});
}

/// The same along a schedule that is looked up, or prepared, first.
template <chunking Chunks = scheduled_chunks, session Me, class T>
void broadcast(Me& me, schedule const& plan, T const* input, T* output, std::size_t count) {
  broadcast<Chunks>(me, me.prepare(plan), input, output, count);
}

}  // namespace blink::inline BLINK_ABI
