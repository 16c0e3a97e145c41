// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/running/call/detail/call_steps.hpp>
#include <blink/running/call/detail/collective_call.hpp>
#include <blink/running/call/schedule_source.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/schedule/chunking.hpp>

#include <concepts>
#include <utility>

namespace blink { inline namespace BLINK_ABI {

/// Returns when all ranks have entered.
///
/// Signals go up the schedule's trees and down again. With an eager payload
/// (`communicator_options::eager_payload`) each rank only checks that all ranks entered.
///
/// trees:  a prepared schedule, a schedule, or algorithms by size; see `schedule_source`
/// Throws: precondition_error if the schedule does not carry a barrier; collective_error, on every
///         rank, if a rank does not enter before the deadline or calls something else.
template <communicator Comm, schedule_source Source>
void barrier(Comm& comm, Source&& trees) {
  detail::run_collective<scheduled_chunks>(comm, std::forward<Source>(trees), collective::barrier,
                                           static_cast<char const*>(nullptr),
                                           static_cast<char*>(nullptr), 0, detail::no_reducer{});
}

namespace detail {

/// A communicator whose ranks share a counter that all ranks increase. Other communicators keep a
/// prepared schedule for barriers, `barrier_schedule()`.
template <class S>
concept counting_communicator = communicator<S> && requires(S& comm) {
  { comm.wait_for_all() } -> std::same_as<status>;
};

}  // namespace detail

/// Returns when all ranks have entered, without a schedule of the caller's.
///
/// Ranks with a shared counter use it. Others use the schedule that their communicator keeps for
/// barriers (`barrier_schedule`).
///
/// Throws: as above.
template <communicator Comm>
void barrier(Comm& comm) {
  if constexpr (detail::counting_communicator<Comm>) {
    bool const leads = comm.group().thread_rank() == 0;
    if (leads) detail::steps_of(comm).expect_free(collective::barrier);
    bool const is_ok = comm.group().from_leader(!leads || comm.wait_for_all() == status::ok);
    if (!is_ok) detail::steps_of(comm).throw_failure(collective::barrier);
  } else {
    barrier(comm, comm.barrier_schedule());
  }
}

}}  // namespace blink::BLINK_ABI
