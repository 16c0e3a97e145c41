// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/call/communicator_options.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/tree_walk.hpp>
#include <blink/transports/host/host_wait.hpp>
#include <blink/transports/mpi/notices.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

namespace blink { inline namespace BLINK_ABI {

/// Waits of a rank of an MPI communicator: spin, then yield, then sleep for an eighth of the time waited so
/// far, as no message wakes a rank up, nor moves while it sleeps; until the deadline, until a note says
/// that the call has failed, or until
/// a neighbour has left for good.
class mpi_wait {
 public:
  mpi_wait(wait_options const& options, mpi_notices& notices)
      : options_(options), notices_(&notices) {}

  [[nodiscard]] status on_progress() {
    if (idle_ > options_.spins) notices_->set_waiting(0);
    idle_ = 0;
    return notices_->is_aborted() ? status::aborted : status::ok;
  }
  [[nodiscard]] status on_idle() {
    if (notices_->is_aborted()) return status::aborted;
    ++idle_;
    if (idle_ <= options_.spins) return status::ok;  // asking the library is a pause itself
    std::uint64_t const time = now();
    if (idle_ == options_.spins + 1) {
      idle_since_ = time;
      notices_->set_waiting(time);
    }
    std::chrono::nanoseconds const waited(time - idle_since_);
    if (is_over(time - idle_since_)) return status::timed_out;
    if (idle_ - options_.spins <= options_.yields || waited < shortest_yielding) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(waited / 8, options_.sleep));
      notices_->look();  // costs nothing beside the nap, and who asks is answered soon
    }
    if (idle_ - options_.spins > std::max(options_.yields, 1)) --idle_;  // stays here
    return status::ok;
  }
  /// See `tested_wait_policy`.
  [[nodiscard]] status on_idle_tests(std::uint64_t nanoseconds) {
    notices_->look();
    notices_->set_waiting(now() - nanoseconds);
    return is_over(nanoseconds) ? status::timed_out : status::ok;
  }
  void resume() { notices_->set_waiting(0); }
  [[nodiscard]] static std::uint64_t now() { return host_wait::now(); }

 private:
  // Asks the others in time: who is the cause shall be known at the deadline.
  [[nodiscard]] bool is_over(std::uint64_t nanoseconds) {
    auto const deadline = static_cast<std::uint64_t>(options_.deadline.count());
    if (nanoseconds > deadline - deadline / 4) notices_->ask();
    return nanoseconds > deadline || notices_->is_deserted();
  }

  // Copies of large messages take so long, and a thousand yields may be over before.
  static constexpr std::chrono::milliseconds shortest_yielding{1};

  wait_options options_;
  mpi_notices* notices_;
  int idle_ = 0;
  std::uint64_t idle_since_ = 0;
};
static_assert(tested_wait_policy<mpi_wait>);

}}  // namespace blink::BLINK_ABI
