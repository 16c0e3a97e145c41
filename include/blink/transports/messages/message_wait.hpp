// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/call/communicator_options.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/tree_walk.hpp>
#include <blink/transports/host/host_wait.hpp>
#include <blink/transports/messages/control_messages.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

namespace blink { inline namespace BLINK_ABI {

/// Wait policy of a rank that waits for messages: spin, then yield, then sleep. A sleep takes an
/// eighth of the time waited so far, because messages neither wake a sleeping rank nor advance
/// meanwhile. A wait ends at the deadline, when a note reports a failure, or when a neighbour has
/// left.
template <message_channel Channel>
class message_wait {
 public:
  message_wait(wait_options const& options, control_messages<Channel>& messages)
      : options_(options), messages_(&messages) {}

  [[nodiscard]] status on_progress() {
    if (idle_ > options_.spins) messages_->set_waiting(0);
    idle_ = 0;
    return messages_->is_aborted() ? status::aborted : status::ok;
  }
  [[nodiscard]] status on_idle() {
    if (messages_->is_aborted()) return status::aborted;
    ++idle_;
    if (idle_ <= options_.spins) {
      if (messages_->all_share_memory()) host_wait::pause();  // else a test of the library pauses
      return status::ok;
    }
    std::uint64_t const time = now();
    if (idle_ == options_.spins + 1) {
      idle_since_ = time;
      messages_->set_waiting(time);
    }
    std::chrono::nanoseconds const waited(time - idle_since_);
    if (is_over(time - idle_since_)) return status::timed_out;
    if (idle_ - options_.spins <= options_.yields || waited < shortest_yielding) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(waited / 8, options_.sleep));
      messages_->look();  // cheap beside the sleep, and answers peers soon
    }
    if (idle_ - options_.spins > std::max(options_.yields, 1)) --idle_;  // the count stays
    return status::ok;
  }
  /// See `tested_wait_policy`.
  [[nodiscard]] status on_idle_tests(std::uint64_t nanoseconds) {
    messages_->look();
    messages_->set_waiting(now() - nanoseconds);
    return is_over(nanoseconds) ? status::timed_out : status::ok;
  }
  void resume() { messages_->set_waiting(0); }
  [[nodiscard]] static std::uint64_t now() { return host_wait::now(); }

 private:
  // Asks the peers early enough that the cause is known at the deadline.
  [[nodiscard]] bool is_over(std::uint64_t nanoseconds) {
    auto const deadline = static_cast<std::uint64_t>(options_.deadline.count());
    if (nanoseconds > deadline - deadline / 4) messages_->ask();
    return nanoseconds > deadline || messages_->is_deserted();
  }

  // Copies of large messages take this long, and a rank may yield a thousand times meanwhile.
  static constexpr std::chrono::milliseconds shortest_yielding{1};

  wait_options options_;
  control_messages<Channel>* messages_;
  int idle_ = 0;
  std::uint64_t idle_since_ = 0;
};

}}  // namespace blink::BLINK_ABI
