// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/running/call/detail/collective_call.hpp>
#include <blink/running/call/detail/steps_of_calls.hpp>
#include <blink/running/call/schedule_source.hpp>
#include <blink/running/call/session.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/schedule/chunking.hpp>

#include <concepts>
#include <utility>

namespace blink { inline namespace BLINK_ABI {

/// Returns when all ranks have come: signals go up the schedule's trees and down again, or all see
/// each other enter where small inputs are shown (`world_options::shown_bytes`).
///
/// plan:   a prepared schedule, a schedule, or methods by size; see `schedule_source`
/// Throws: precondition_error if `plan` does not carry it; collective_error, on every rank, if a
///         rank does not come before the deadline, or calls something else.
template <session Me, schedule_source Plan>
void barrier(Me& me, Plan&& plan) {
  detail::run_collective<scheduled_chunks>(me, std::forward<Plan>(plan), collective::barrier,
                                           static_cast<char const*>(nullptr),
                                           static_cast<char*>(nullptr), 0, detail::no_reducer{});
}

namespace detail {

/// A session whose ranks share a number that they can raise together. Others keep a prepared schedule for barriers,
/// `barrier_plan()`.
template <class S>
concept counting_session = session<S> && requires(S& me) {
  { me.wait_for_all() } -> std::same_as<status>;
};

}  // namespace detail

/// Returns when all ranks have come, without a schedule: with one shared number where ranks have
/// one, else along the schedule that their sessions keep for it (`barrier_plan`).
///
/// Throws: as above.
template <session Me>
void barrier(Me& me) {
  if constexpr (detail::counting_session<Me>) {
    bool const leads = me.group().thread_rank() == 0;
    if (leads) detail::steps_of(me).expect_free(me, collective::barrier);
    bool const is_ok = me.group().from_leader(!leads || me.wait_for_all() == status::ok);
    if (!is_ok) detail::steps_of(me).throw_failure(me, collective::barrier);
  } else {
    barrier(me, me.barrier_plan());
  }
}

}}  // namespace blink::BLINK_ABI
