// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/call/call_description.hpp>
#include <blink/transports/host/call_clock.hpp>
#include <blink/transports/host/host_processes.hpp>

#include <algorithm>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The communicators of this process that span other processes, and the number of calls of each.
/// Thread-safe on the host.
class call_counts {
 public:
  /// A communicator of this process and its calls. `ordinal` counts the communicators in the order
  /// of `join`.
  struct entry {
    host_processes const* processes;
    std::vector<int> devices;
    std::uint64_t communicator;
    std::uint64_t calls;
    std::uint32_t ordinal;
  };
  using place = std::list<entry>::iterator;

  /// Adds a communicator on these devices, without calls.
  [[nodiscard]] place join(host_processes const& processes, std::vector<int> devices) {
    std::lock_guard const lock(mutex_);
    return all_.insert(all_.end(),
                       {&processes, std::move(devices), processes.number(), 0, ++last_ordinal_});
  }
  /// Removes a communicator.
  void leave(place own) {
    std::lock_guard const lock(mutex_);
    all_.erase(own);
  }
  /// Resets the count of a communicator, and reads its present number again.
  void restart(place own) {
    std::lock_guard const lock(mutex_);
    own->communicator = own->processes->number();
    own->calls = 0;
  }
  /// Counts a call. Returns the number of calls of each communicator that has a device in common
  /// with it. Failed communicators are left out, because the number of calls that a process made
  /// before it noticed is arbitrary.
  [[nodiscard]] call_clock count(place own) {
    std::lock_guard const lock(mutex_);
    call_clock result;
    result.own = ++own->calls;
    for (auto const& each : all_) {
      if (&each == &*own || each.processes->has_failed() || !share_device(each, *own)) continue;
      result.add({each.communicator, each.calls, each.ordinal});
    }
    return result;
  }

  /// Returns the text of a process that has called another communicator before this one, although
  /// this process calls them in the other order; empty if none has yet. The conflict is found
  /// without that process's call, for which a rank may be waiting.
  ///
  /// clock: what `count` returned for the last call
  [[nodiscard]] std::string find_overtaken(place own, call_clock const& clock) {
    std::lock_guard const lock(mutex_);
    for (auto const& each : all_) {
      auto const* const here = clock.find(each.communicator);
      if (here == nullptr) continue;
      auto const& processes = *each.processes;
      auto const first = processes.calls(processes.process());
      for (int peer = 0; peer < processes.count(); ++peer) {
        for (auto call = first; peer != processes.process() && call < processes.calls(peer);
             ++call) {
          auto const& theirs = processes.clock_of(peer, call);
          auto const* const there = theirs.find(own->communicator);
          if (theirs.own != here->calls + 1 || there == nullptr) continue;
          if (there->calls < own->calls) return call_clock::overtaken(*here, processes.name(peer));
        }
      }
    }
    return "";
  }

 private:
  [[nodiscard]] static bool share_device(entry const& a, entry const& b) {
    return std::any_of(a.devices.begin(), a.devices.end(), [&](int device) {
      return std::find(b.devices.begin(), b.devices.end(), device) != b.devices.end();
    });
  }

  std::mutex mutex_;
  std::list<entry> all_;
  std::uint32_t last_ordinal_ = 0;
};

/// Compares the calls of a communicator with those of its other processes. Calls must be the same.
/// Their order must also be the same among the calls of all communicators that share a device, in
/// both processes. Calls that ran in different orders on the devices of two processes would wait
/// for each other until the deadline.
///
/// The later process finds the conflict, at its call. If each process waits for the others at its
/// call, none is later; then the deadline ends the calls, and the error reports it. Captured calls
/// are not compared, because they run only when a graph is launched. Cycles of more than two
/// communicators are not found if no two processes disagree about the order of two of them. The
/// deadline ends those.
class call_order_check {
 public:
  /// processes: null if all devices are of this process, so that there is nothing to compare
  /// compares:  false: calls are only counted; the same in all processes
  call_order_check(call_counts& counts, host_processes* processes, std::vector<int> const& devices,
                   bool compares = true)
      : counts_(counts), processes_(processes) {
    if (processes_ != nullptr && compares) own_ = counts_.join(*processes_, devices);
  }
  call_order_check(call_order_check const&) = delete;
  call_order_check& operator=(call_order_check const&) = delete;
  ~call_order_check() {
    if (own_) counts_.leave(*own_);
  }

  /// Counts and compares a call. Returns the difference, or an empty text if none is known. Waits
  /// for a process that is far behind.
  [[nodiscard]] std::string enter(call_description const& call, bool is_captured) {
    if (!own_) {
      if (processes_ != nullptr) processes_->count_call();
      return "";
    }
    last_ = is_captured ? call_clock{} : counts_.count(*own_);
    return processes_->enter(call, last_);
  }
  /// Runs `host_processes::match` after the call. Returns the difference; empty if there is none,
  /// or if a process has reported a failure.
  ///
  /// Throws: collective_error if a process has died, has left, or does not arrive before the
  ///         deadline.
  [[nodiscard]] std::string match() {
    if (!own_) return "";
    return processes_->match([&] { return counts_.find_overtaken(*own_, last_); });
  }
  /// Resets the counts.
  ///
  /// Pre: `host_processes::clear_failure` has returned.
  void restart() {
    if (own_) counts_.restart(*own_);
  }

 private:
  call_counts& counts_;
  host_processes* processes_;
  std::optional<call_counts::place> own_;  // empty if calls are not compared
  call_clock last_;
};

}}  // namespace blink::BLINK_ABI
