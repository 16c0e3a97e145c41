// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/detail/host_threads.hpp>
#include <blink/core/duration.hpp>
#include <blink/running/call/communicator_options.hpp>
#include <blink/running/connections/connection_tables.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/detail/host_clock.hpp>
#include <blink/running/walk/stall.hpp>
#include <blink/running/walk/tree_walk.hpp>
#include <blink/transports/host/barrier_mismatch.hpp>
#include <blink/transports/host/shared_state.hpp>
#include <blink/transports/host/transport_parts.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Returns the wait options of `ranks` ranks over a transport of this type. They sleep until it is
/// time to look at each other. Over shaped links data arrives by time alone, which wakes no rank.
template <class Transport>
[[nodiscard]] wait_options waits_over(wait_options options, int ranks = 1) {
  options.sleep = nanoseconds(static_cast<std::int64_t>(time_between_looks(options, ranks)));
  if constexpr (Transport::is_shaped) {
    nanoseconds const most(20'000);
    if (options.sleep > most) options.sleep = most;
  }
  return options;
}

/// State of a rank's wait, to find its cause later.
struct wait_record {
  std::vector<std::uint64_t> heartbeats;  ///< by rank: heartbeats half a deadline ago
  bool has_listened = false;              ///< true if `heartbeats` were read in this wait
  std::uint64_t nanoseconds = 0;          ///< the time that the rank has waited
  int next = 0;                           ///< counted from this rank: the peer to look at next
};

/// The context of a host thread's waits: one rank's present call.
struct wait_context {
  shared_state* state = nullptr;
  wait_record* memory = nullptr;  ///< private to the rank
  std::uint64_t call = 0;
  int rank = 0;
  collective kind = collective::broadcast;
  task_list tasks{};
  int const* missing = nullptr;  ///< the rank whose entry it waits for without a task; -1: none
  host_rank* own = nullptr;      ///< for the long part of a wait
};

/// Wait policy of a host thread: spin, then yield, then sleep until an event, the deadline, or a
/// peer's failure or death.
class host_wait {
 public:
  /// options: as `waits_over` returns them
  host_wait(wait_options const& options, wait_context const& place)
      : options_(options), place_(place) {}
  host_wait(host_wait const&) = delete;
  host_wait& operator=(host_wait const&) = delete;
  ~host_wait() {
    if (is_down_) place_.state->end_sleep(place_.rank);
  }

  [[nodiscard]] status on_progress() {
    if (idle_ > options_.spins) resume();
    idle_ = 0;
    return status::ok;  // a call that can end does end, even if a later call has failed
  }

  [[nodiscard]] status on_idle() {
    if (place_.state->is_aborted(place_.rank)) return status::aborted;
    ++idle_;
    if (idle_ <= options_.spins) {
      pause();
      return status::ok;
    }
    return place_.own->wait_long(*this);
  }

  /// Yields, then sleeps.
  template <class = when_used>
  [[nodiscard]] status wait_long() {
    std::uint64_t const time = now();
    if (idle_ == options_.spins + 1) idle_since_ = looked_ = time;
    int const long_idle = idle_ - options_.spins;
    if (long_idle <= options_.yields && time - idle_since_ < longest_yielding) {
      detail::yield_core();
      return status::ok;
    }
    if (long_idle > 1) --idle_;  // the count stays, and does not return to that of the wait's begin
    return sleep(time);
  }

  /// See `tested_wait_policy`.
  template <class = when_used>
  [[nodiscard]] status on_idle_tests(std::uint64_t nanoseconds) {
    say_that_it_waits();
    return look(nanoseconds);
  }
  /// Ends the wait: what the rank published and read during it no longer holds.
  void resume() {
    if (is_down_) place_.state->end_sleep(place_.rank);
    is_down_ = false;
    place_.memory->has_listened = false;
    place_.state->set_working(place_.rank);
  }

  [[nodiscard]] static std::uint64_t now() { return detail::host_nanoseconds(); }

  /// Hints to the core that the rank spins.
  static void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
  }

 private:
  [[nodiscard]] std::uint64_t deadline() const {
    return static_cast<std::uint64_t>(options_.deadline.count());
  }

  // On a busy machine a single yield may last as long as the time slice of another program.
  static constexpr std::uint64_t longest_yielding = 1'000'000;  // nanoseconds

  // Every other call only announces the sleep, so that the rank looks at its tasks once more before
  // it.
  template <class = when_used>
  [[nodiscard]] status sleep(std::uint64_t time) {
    auto& state = *place_.state;
    if (is_down_) {
      state.sleep(place_.rank, ticket_, options_.sleep);
      state.end_sleep(place_.rank);
      is_down_ = false;
      return status::ok;
    }
    // Not after each sleep: it takes as long as there are ranks, and events end most sleeps early.
    if (time - looked_ >= static_cast<std::uint64_t>(options_.sleep.count())) {
      looked_ = time;
      if (status const result = look(time - idle_since_); result != status::ok) return result;
    }
    say_that_it_waits();
    ticket_ = state.prepare_sleep(place_.rank);
    is_down_ = true;
    return status::ok;
  }

  template <class = when_used>
  void say_that_it_waits() {
    auto where = find_stall(place_.kind, place_.tasks.first, place_.tasks.count);
    if (where.peer < 0 && place_.missing != nullptr) where.peer = *place_.missing;
    place_.state->set_waiting(place_.rank, where);
  }
  // True if the call cannot end because of this peer.
  [[nodiscard]] bool is_hopeless(int peer) const {
    auto const& state = *place_.state;
    return state.loss_before_end(peer, place_.call) != shared_state::loss::none ||
           mismatch_of(state, place_.rank, peer).is_there();
  }
  // Checks whether the wait can still succeed, after `waited` nanoseconds: looks at the peer that
  // it waits for and at some others, next time at the following ones. If all ranks looked at all,
  // 1,024 threads would look all the time.
  template <class = when_used>
  [[nodiscard]] status look(std::uint64_t waited) {
    auto& state = *place_.state;
    auto& memory = *place_.memory;
    memory.nanoseconds = waited;
    if (memory.nanoseconds > deadline()) return status::timed_out;
    if (int const peer = state.waiting(place_.rank).where.peer; peer >= 0 && is_hopeless(peer)) {
      return status::timed_out;
    }
    constexpr int most = 8;  // each takes a microsecond, because the system is asked
    for (int k = 0; k < most && k < state.rank_count(); ++k) {
      memory.next = (memory.next + 1) % state.rank_count();
      if (is_hopeless((place_.rank + memory.next) % state.rank_count())) return status::timed_out;
    }
    if (!memory.has_listened && memory.nanoseconds > deadline() / 2) {  // see `describe_stall`
      for (int peer = 0; peer < state.rank_count(); ++peer) {
        memory.heartbeats[static_cast<std::size_t>(peer)] = state.heartbeats(peer);
      }
      memory.has_listened = true;
    }
    return status::ok;
  }

  wait_options options_;
  wait_context place_;
  int idle_ = 0;
  bool is_down_ = false;
  std::uint32_t ticket_ = 0;
  std::uint64_t idle_since_ = 0;
  std::uint64_t looked_ = 0;  ///< when the wait was last checked
};
BLINK_MODELS(tested_wait_policy<host_wait>);
BLINK_MODELS(!wait_policy<int>);

}}  // namespace blink::BLINK_ABI
