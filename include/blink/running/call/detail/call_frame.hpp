// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/call/call_event.hpp>
#include <blink/running/call/detail/call_description.hpp>
#include <blink/running/call/session.hpp>
#include <blink/running/call/world_options.hpp>
#include <blink/running/connections/detail/write_search.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/connections/wire_tables.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/detail/host_clock.hpp>
#include <blink/running/walk/lane.hpp>
#include <blink/running/walk/tree_walk.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// For calls that go on now and then: gives up at once where it would have to wait.
struct no_patience {
  [[nodiscard]] status after_progress() const { return status::ok; }
  [[nodiscard]] status after_none() const { return status::timed_out; }
  [[nodiscard]] std::uint64_t now() const { return host_nanoseconds(); }
};
static_assert(patience<no_patience>);

/// Why a rank can do nothing.
enum class stall_cause : std::uint8_t { peers, receive, send };

/// Keeps the account of one call for the observer, if there is one.
class observed_call {
 public:
  observed_call() {}
  /// `make` returns what is known of the call at its beginning.
  template <class Make>
  void begin(Make const& make) {
    observer_ = present_observer.load(std::memory_order_acquire);
    if (observer_ == nullptr) return;
    event_ = make();
    event_.begin = no_patience().now();
    idle_since_ = 0;
  }
  [[nodiscard]] bool is_on() const { return observer_ != nullptr; }

  void stands(stall_cause cause) {
    if (idle_since_ != 0) return;
    idle_since_ = no_patience().now();
    cause_ = cause;
  }
  void goes_on() {
    if (idle_since_ == 0) return;
    std::uint64_t const time = no_patience().now() - idle_since_;
    idle_since_ = 0;
    (cause_ == stall_cause::peers     ? event_.waited_for_peers
     : cause_ == stall_cause::receive ? event_.waited_to_receive
                                      : event_.waited_to_send) += time;
  }

  /// Without trees: from everyone to everyone, or from or to the root alone.
  ///
  /// is_root: does this rank send to all, or receive from all? For collectives that have a root
  void count_shown(bool is_root) {
    if (!is_on()) return;
    event_.is_shown = true;
    if (event_.kind == collective::barrier) return;
    auto const once = std::uint64_t{event_.count} * event_.element_bytes;
    auto const often = once * static_cast<std::uint64_t>(event_.rank_count - 1);
    auto const bytes = [&](bool root_has_all, bool others_have_one) {
      if (root_has_all) return is_root ? often : 0;
      return others_have_one && is_root ? 0 : others_have_one ? once : often;
    };
    bool const from_root = is_from_root(event_.kind);
    bool const to_root = is_to_root(event_.kind);
    event_.sent_bytes = bytes(from_root, to_root);
    event_.received_bytes = bytes(to_root, from_root);
  }

  void end(bool is_ok, lane const* lanes, std::size_t lane_count, element_sizes const& sizes) {
    if (!is_on()) return;
    goes_on();
    event_.is_ok = is_ok;
    event_.end = no_patience().now();
    for (std::size_t k = 0; is_ok && k < lane_count; ++k) {
      lane const& here = lanes[k];
      auto const bytes = [&](wire_end const& end) {
        return std::uint64_t{here.count} * (end.is_partial ? sizes.wire : sizes.value);
      };
      for (std::uint32_t i = 0; i < here.in_count; ++i) event_.received_bytes += bytes(here.in[i]);
      for (std::uint32_t i = 0; i < here.out_count; ++i) event_.sent_bytes += bytes(here.out[i]);
    }
    observer_->ended(event_);
    observer_ = nullptr;
  }

 private:
  call_observer* observer_ = nullptr;
  union {
    call_event event_;  // if there is an observer
  };
  std::uint64_t idle_since_ = 0;  // 0: not idle
  stall_cause cause_ = stall_cause::peers;
};

/// For how long a call has been tested again and again while nothing of it moved.
///
/// The time from one such test to the next counts, but each time at most a sixteenth of the deadline: who
/// computes for longer between two tests has not waited. So a call that does not move is given up after so
/// many tests or more, however far they are apart, and never at the first one after a long computation.
class idle_tests {
 public:
  void after_progress() { *this = {}; }
  /// Nothing moved; `time` is in nanoseconds. Returns whether it is time to look why, which costs more
  /// than a test and is done as often as by ranks that wait.
  [[nodiscard]] bool after_none(std::uint64_t time, patience_options const& limits) {
    if (last_ == 0) last_ = looked_ = time;
    std::uint64_t const most = static_cast<std::uint64_t>(limits.deadline.count()) / 16 + 1;
    waited_ += time - last_ < most ? time - last_ : most;
    last_ = time;
    if (time - looked_ < longest_nap(limits)) return false;
    looked_ = time;
    has_looked_ = true;
    return true;
  }
  [[nodiscard]] std::uint64_t waited() const { return waited_; }  ///< nanoseconds
  [[nodiscard]] bool has_looked() const { return has_looked_; }

 private:
  std::uint64_t last_ = 0;  // 0: none since something moved
  std::uint64_t looked_ = 0;
  std::uint64_t waited_ = 0;
  bool has_looked_ = false;
};

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
