// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/detail/host_threads.hpp>
#include <blink/core/duration.hpp>
#include <blink/running/call/world_options.hpp>
#include <blink/running/connections/wire_tables.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/detail/host_clock.hpp>
#include <blink/running/walk/stall.hpp>
#include <blink/running/walk/tree_walk.hpp>
#include <blink/transports/host/barrier_mismatch.hpp>
#include <blink/transports/host/world_state.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// How to wait for what comes over links of this type: over shaped ones it comes with time, which wakes
/// nobody.
template <class Link>
[[nodiscard]] patience_options waits_over(patience_options options) {
  if constexpr (Link::is_shaped) {
    nanoseconds const most(20'000);
    if (options.sleep > most) options.sleep = most;
  }
  return options;
}

/// What a rank remembers while it waits, for telling who is the cause.
struct waiting_memory {
  std::vector<std::uint64_t> beats;  ///< by rank: what it heard half a deadline ago
  bool has_listened = false;         ///< are there any?
  std::uint64_t nanoseconds = 0;     ///< for how long it has waited
};

class host_patience;

/// What a host thread waits in: one rank's present call.
struct waiting_place {
  world_state* world = nullptr;
  waiting_memory* memory = nullptr;  ///< private to the rank
  std::uint64_t call = 0;
  int rank = 0;
  collective kind = collective::broadcast;
  lane_list lanes{};
  /// `host_patience::wait_long`, from where it is compiled: where ranks are made, and not in each unit that calls.
  status (*wait_long)(host_patience&) = nullptr;
};

/// Waits of a host thread: spin, then yield, then sleep until something happens, until the deadline
/// or until another rank fails or is found dead.
class host_patience {
 public:
  host_patience(patience_options const& options, waiting_place const& place)
      : options_(options), place_(place) {}
  host_patience(host_patience const&) = delete;
  host_patience& operator=(host_patience const&) = delete;
  ~host_patience() {
    if (is_down_) place_.world->get_up(place_.rank);
  }

  [[nodiscard]] status after_progress() {
    if (idle_ > options_.spins) go_on();
    idle_ = 0;
    return status::ok;  // what can end does, also when a later call has failed
  }

  [[nodiscard]] status after_none() {
    if (place_.world->is_aborted(place_.rank)) return status::aborted;
    ++idle_;
    if (idle_ <= options_.spins) {
      pause();
      return status::ok;
    }
    return place_.wait_long(*this);
  }

  /// Yields, then sleeps.
  template <class = when_used>
  [[nodiscard]] static status wait_long(host_patience& me) {
    std::uint64_t const time = now();
    if (me.idle_ == me.options_.spins + 1) me.idle_since_ = time;
    int const long_idle = me.idle_ - me.options_.spins;
    if (long_idle <= me.options_.yields && time - me.idle_since_ < longest_yielding) {
      detail::yield_core();
      return status::ok;
    }
    if (long_idle > 1) --me.idle_;  // stays here, and not where the waiting began
    return me.sleep(time);
  }

  /// See `tested_patience`.
  template <class = when_used>
  [[nodiscard]] status after_idle_tests(std::uint64_t nanoseconds) {
    say_that_it_waits();
    return look(nanoseconds);
  }
  /// What the rank has said and heard while it waited no longer holds.
  void go_on() {
    if (is_down_) place_.world->get_up(place_.rank);
    is_down_ = false;
    place_.memory->has_listened = false;
    place_.world->set_working(place_.rank);
  }

  [[nodiscard]] static std::uint64_t now() { return detail::host_nanoseconds(); }

  /// A hint to the core that this is a spin.
  static void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
  }

 private:
  [[nodiscard]] std::uint64_t deadline() const {
    return static_cast<std::uint64_t>(options_.deadline.count());
  }

  // On a busy machine a single yield may last as long as the turn of another program.
  static constexpr std::uint64_t longest_yielding = 1'000'000;  // nanoseconds

  // Every other time it only says that it will sleep, and looks at its lanes again.
  template <class = when_used>
  [[nodiscard]] status sleep(std::uint64_t time) {
    auto& world = *place_.world;
    if (!is_down_) {
      say_that_it_waits();
      ticket_ = world.lie_down(place_.rank);
      is_down_ = true;
      return status::ok;
    }
    world.nap(place_.rank, ticket_, nanoseconds(static_cast<std::int64_t>(longest_nap(options_))));
    world.get_up(place_.rank);
    is_down_ = false;
    return look(time - idle_since_);
  }

  template <class = when_used>
  void say_that_it_waits() {
    place_.world->set_waiting(place_.rank,
                              find_stall(place_.kind, place_.lanes.first, place_.lanes.count));
  }
  // Is this in vain, after so many nanoseconds?
  template <class = when_used>
  [[nodiscard]] status look(std::uint64_t waited) {
    auto& world = *place_.world;
    auto& memory = *place_.memory;
    memory.nanoseconds = waited;
    if (memory.nanoseconds > deadline() || world.is_hopeless(place_.call) ||
        find_mismatch(world, place_.rank).is_there()) {
      return status::timed_out;
    }
    if (!memory.has_listened && memory.nanoseconds > deadline() / 2) {  // see `describe_stall`
      for (int peer = 0; peer < world.rank_count(); ++peer) {
        memory.beats[static_cast<std::size_t>(peer)] = world.beats(peer);
      }
      memory.has_listened = true;
    }
    return status::ok;
  }

  patience_options options_;
  waiting_place place_;
  int idle_ = 0;
  bool is_down_ = false;
  std::uint32_t ticket_ = 0;
  std::uint64_t idle_since_ = 0;
};
BLINK_MODELS(tested_patience<host_patience>);
BLINK_MODELS(!patience<int>);

}}  // namespace blink::BLINK_ABI
