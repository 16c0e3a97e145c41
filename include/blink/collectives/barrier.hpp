// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collective.hpp>
#include <blink/collectives/chunking.hpp>
#include <blink/collectives/detail/run_collective.hpp>
#include <blink/collectives/schedule.hpp>
#include <blink/collectives/session.hpp>
#include <blink/config.hpp>
#include <blink/transports/prepared_schedule.hpp>

#include <cstddef>

namespace blink::inline BLINK_ABI {

/// Returns when all ranks have come: signals go up the schedule's trees and down again.
///
/// Throws: precondition_error if `plan` does not carry it; collective_error, on every rank, if a
///         rank does not come before the deadline, or calls something else.
template <session Me>
void barrier(Me& me, prepared_schedule& plan) {
  detail::run_collective<scheduled_chunks>(me, plan, collective::barrier,
                                           static_cast<char const*>(nullptr),
                                           static_cast<char*>(nullptr), 0, detail::no_reducer{});
}

/// The same along a schedule that is looked up, or prepared, first.
template <session Me>
void barrier(Me& me, schedule const& plan) {
  barrier(me, me.prepare(plan));
}

}  // namespace blink::inline BLINK_ABI
