// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/running/call/schedule_source.hpp>
#include <blink/running/walk/counter.hpp>

#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI { namespace detail {

struct call_frame;

/// A wait policy whose type only the calling unit knows.
class any_wait {
 public:
  [[nodiscard]] virtual status on_progress() = 0;
  [[nodiscard]] virtual status on_idle() = 0;
  [[nodiscard]] virtual std::uint64_t now() = 0;

 protected:
  ~any_wait() = default;
};

/// The part of a communicator's calls that does not depend on types. Communicators derive from it
/// by `communicator_base`.
///
/// The functions are virtual so that they are compiled where ranks are made. Each calling unit
/// compiles only the code that touches elements.
///
/// Order: `check`, then `begin`. While the caller tests: `resume`, then `suspend` if nothing more
///        moves, or `match_now` if all has moved. To wait for the end: `resume` if suspended, then
///        `match`. Then `end`, unless `give_up` was called.
class call_steps {
 public:
  /// Throws: precondition_error for mistakes that this rank can find alone.
  virtual void check_call(call_frame& call) = 0;
  /// Enters the call. Throws: collective_error if it has failed.
  virtual void begin_call(call_frame& call) = 0;
  /// Resumes the call if it is suspended. Throws: collective_error if it has failed meanwhile.
  ///
  /// waits: true if the caller now waits for the end; idle tests so far then no longer count
  virtual void resume_call(call_frame& call, bool waits) = 0;
  /// Suspends the call until the caller's next test or wait.
  ///
  /// has_moved: true if the last test moved data
  /// Throws:    collective_error if the call cannot end.
  virtual void suspend_call(call_frame& call, bool has_moved) = 0;
  /// True if all ranks are known to call the same. Otherwise suspends the call.
  virtual bool match_call_now(call_frame& call, bool has_moved) = 0;
  /// Waits until all ranks are known to call the same. Fails the call if the wait cannot succeed.
  ///
  /// walked: the status with which the walk ended; returned unless it is `ok`
  virtual status match_call(call_frame& call, any_wait& wait, status walked) = 0;
  /// Throws: collective_error with the cause of the failure, unless `result` is `ok`.
  virtual void end_call(call_frame& call, status result) = 0;
  /// Fails the call on all ranks and ends it, because of the exception that is being handled.
  virtual void give_up_call(call_frame& call) = 0;
  /// Records a stall for the observer.
  virtual void record_stall(call_frame& call) = 0;
  /// Throws: precondition_error if this rank is inside a call, or has started calls that have not
  ///         ended.
  virtual void expect_free(collective kind) = 0;
  /// Throws: collective_error with the cause of the failure.
  virtual void throw_failure(collective kind) = 0;
  /// The schedule that the communicator's tuning selects for a call; see `tuning_store::choose`.
  virtual chosen_schedule choose_tuned(collective kind, std::size_t bytes, int root,
                                       operand_order needed) = 0;

 protected:
  call_steps() = default;
  call_steps(call_steps const&) = default;
  call_steps& operator=(call_steps const&) = default;
  virtual ~call_steps() = default;
};

/// Returns the part of a communicator's calls that is compiled elsewhere. Callers use this base,
/// because a call through the communicator's own type would compile the function again.
template <communicator Comm>
[[nodiscard]] call_steps& steps_of(Comm& comm) {
  return comm;
}

/// The source of schedules for calls that name none: the communicator's tuning selects them.
template <communicator Comm>
struct tuned_source {
  Comm& comm;
  int root = 0;

  /// needed: the order in which the reducer needs its operands
  [[nodiscard]] chosen_schedule choose(collective kind, std::size_t bytes,
                                       operand_order needed = operand_order::any) const {
    return steps_of(comm).choose_tuned(kind, bytes, root, needed);
  }
};

}}}  // namespace blink::BLINK_ABI::detail
