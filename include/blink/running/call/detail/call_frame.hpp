// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/running/call/detail/call_description.hpp>
#include <blink/running/call/detail/idle_tests.hpp>
#include <blink/running/call/detail/observed_call.hpp>
#include <blink/running/call/session.hpp>
#include <blink/running/connections/detail/write_search.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/connections/wire_tables.hpp>
#include <blink/running/walk/lane.hpp>
#include <blink/running/walk/status.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// One rank's call, as far as it does not depend on types of elements and reducers. It stays where it is.
template <class Me>
struct call_frame {
  Me& me;
  prepared_schedule& plan;
  collective kind;
  call_size size;
  call_types const& types;
  std::uint64_t common_state;  ///< of the reducer (`common_state_of`)
  void const* callers_input;
  void* output;

  lane_list lanes = plan.tables().lanes(me.rank(), kind);
  void const* input = callers_input;  ///< or a copy of it
  write_search::choice writing{};
  bool keeps_own = false;    ///< see `call_buffers`
  std::uint64_t moving = 0;  ///< nanoseconds that moving chunks took, if that is timed
  observed_call observed{};  ///< by the leader
  idle_tests idle{};
  bool needs_copy = false;
  bool is_walking = false;  ///< is there anything to move, or to wait for?
  bool is_resting = false;
  bool shows = false;  ///< have all ranks seen all inputs?

  [[nodiscard]] bool leads() const { return me.group().thread_rank() == 0; }

  /// Lanes that this call needs: none where all ranks have seen all inputs.
  [[nodiscard]] std::size_t lane_count() const { return shows ? 0 : lanes.count; }

  template <class T>
  [[nodiscard]] call_buffers<T> buffers() {
    return {static_cast<T const*>(input), static_cast<T*>(output), writing.way, keeps_own,
            writing.is_timed ? &moving : nullptr};
  }
};

/// Does `work`; what a reducer throws in it ends the call of all, and goes on to the caller once no peer touches its
/// buffers any more.
template <class Me, class Work>
auto guarded(call_frame<Me>& call, void (*give_up)(call_frame<Me>&), Work const& work) {
  try {
    return work();
  } catch (...) {
    give_up(call);
    throw;
  }
}

template <class Me>
class call_patience;

/// What all calls of a session do, whatever their types: through this table it is compiled where its ranks are made
/// (`steps_of_calls`), and not in each unit that calls something, which compiles what touches elements.
///
/// In this order: `check`; `begin`; while it is tested, `go_on`, and `rest` where nothing more moves or
/// `meet_now` where all has; to its end, `go_on` if it rests, and `meet`; then `end`, unless `give_up` has come.
template <class Me>
struct call_steps {
  using frame = call_frame<Me>;

  /// Throws: precondition_error for what this rank can know to be wrong.
  void (*check)(frame&);
  /// Enters the call. Throws: collective_error if it has failed.
  void (*begin)(frame&);
  /// The caller is back. Throws: collective_error if it has failed meanwhile.
  void (*go_on)(frame&, bool waits);
  /// Until the caller is back. Throws: collective_error if that is in vain.
  void (*rest)(frame&, bool has_moved);
  /// Is everyone known to call the same? If not it rests.
  bool (*meet_now)(frame&, bool has_moved);
  /// The same, waiting for it after a walk that ended with `walked`; fails the call where that is in vain.
  status (*meet)(frame&, call_patience<Me>&, status walked);
  /// Throws: collective_error, why the call of all has failed, unless `result` is `ok`.
  void (*end)(frame&, status result);
  /// Fails the call of all and ends it, because of the exception that is being handled.
  void (*give_up)(frame&);
  /// For the account of what a rank waits for.
  void (*stands)(frame&);
  /// Throws: precondition_error unless nothing else runs that this rank has started, or is inside.
  void (*expect_free)(Me&, collective);
  /// Throws: collective_error, why the call of all ranks has failed.
  void (*throw_failure)(Me&, collective);
};

/// A session whose constructors name the steps of its calls, so that they are compiled there.
template <class S>
concept steps_carrying_session = session<S> && requires(S const& me) {
  { me.steps() } -> std::same_as<call_steps<S> const&>;
};

/// How the leader of a group waits in a call, with the account of what it waits for.
template <class Me>
class call_patience {
 public:
  explicit call_patience(call_frame<Me>& frame, call_steps<Me> const& steps)
      : frame_(frame), steps_(steps), wait_(frame.me.waits()) {}

  [[nodiscard]] status after_progress() {
    if (frame_.observed.is_on()) frame_.observed.goes_on();
    return wait_.after_progress();
  }
  [[nodiscard]] status after_none() {
    if (frame_.observed.is_on()) steps_.stands(frame_);
    return wait_.after_none();
  }
  [[nodiscard]] std::uint64_t now() { return wait_.now(); }

 private:
  call_frame<Me>& frame_;
  call_steps<Me> const& steps_;
  waits_of<Me> wait_;
};

}}}  // namespace blink::BLINK_ABI::detail
