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

/// The communicators of a process that other processes take part in, and how many calls of each it has made. Any
/// threads of the host.
class call_counts {
 public:
  struct entry {
    host_processes const* processes;
    std::vector<int> devices;
    std::uint64_t communicator;
    std::uint64_t calls;
    std::uint32_t ordinal;
  };
  using place = std::list<entry>::iterator;

  [[nodiscard]] place join(host_processes const& processes, std::vector<int> devices) {
    std::lock_guard const lock(mutex_);
    return all_.insert(all_.end(),
                       {&processes, std::move(devices), processes.number(), 0, ++last_ordinal_});
  }
  void leave(place own) {
    std::lock_guard const lock(mutex_);
    all_.erase(own);
  }
  void restart(place own) {
    std::lock_guard const lock(mutex_);
    own->communicator = own->processes->number();
    own->calls = 0;
  }
  /// Counts a call, and returns how many have been made of those that have a device in common with it. Those that have
  /// failed are left out: how far each process came before it knew is an accident.
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

  /// Who has made a call of another communicator before it has made this one, though they come in the other order here;
  /// empty: nobody yet. Found without his call, for which somebody may wait.
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

/// Compares the calls of a communicator with those of its other processes: are they the same, and in the same order
/// among the calls of all communicators that have a device in common with it, in both processes? Calls that have run
/// one after the other on the devices of one process and in another order on those of another would wait for each
/// other until the deadline.
///
/// Found by whoever comes later, at its call. Where each waits for the others at its call nobody is later: the
/// deadline ends that, and the error says it. Not compared: calls that are captured, as they run when a graph is
/// launched; and, of more than two communicators, circles in which no two processes disagree about the order of
/// two of them. The deadline ends those.
class call_order_check {
 public:
  /// processes: null: all devices are of this process, and there is nothing to compare
  /// compares:  else calls are only counted; the same in all processes
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

  /// Returns what differs; empty: nothing that is known. Waits for a process that is far behind.
  [[nodiscard]] std::string enter(call_description const& call, bool is_captured) {
    if (!own_) {
      if (processes_ != nullptr) processes_->count_call();
      return "";
    }
    last_ = is_captured ? call_clock{} : counts_.count(*own_);
    return processes_->enter(call, last_);
  }
  /// `host_processes::meet` after it. Returns what differs; empty: nothing, or somebody has reported of a failure.
  ///
  /// Throws: collective_error if a process has died, has left, or does not come before the deadline.
  [[nodiscard]] std::string match() {
    if (!own_) return "";
    return processes_->match([&] { return counts_.find_overtaken(*own_, last_); });
  }
  /// Begins anew, after `host_processes::clear_failure` has.
  void restart() {
    if (own_) counts_.restart(*own_);
  }

 private:
  call_counts& counts_;
  host_processes* processes_;
  std::optional<call_counts::place> own_;  // if calls are compared
  call_clock last_;
};

}}  // namespace blink::BLINK_ABI
