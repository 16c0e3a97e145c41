// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/status.hpp>
#include <blink/collectives/tree_walk.hpp>
#include <blink/config.hpp>
#include <blink/transports/world_options.hpp>
#include <blink/transports/world_state.hpp>

#include <chrono>
#include <cstdint>
#include <thread>

namespace blink::inline BLINK_ABI {

/// Waits of a host thread: spin, then yield, then sleep for short whiles, until the deadline or
/// until another rank fails.
class host_patience {
 public:
  host_patience(patience_options const& options, world_state const& world)
      : options_(&options), world_(&world) {}

  [[nodiscard]] status after_progress() {
    idle_ = 0;
    return world_->is_aborted() ? status::aborted : status::ok;
  }

  [[nodiscard]] status after_none() {
    if (world_->is_aborted()) return status::aborted;
    ++idle_;
    if (idle_ <= options_->spins) {
      pause();
      return status::ok;
    }
    if (idle_ == options_->spins + 1) idle_since_ = now();
    if (now() - idle_since_ > static_cast<std::uint64_t>(options_->deadline.count())) {
      return status::timed_out;
    }
    if (idle_ - options_->spins <= options_->yields) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(options_->sleep);
      --idle_;  // stays here
    }
    return status::ok;
  }

  /// Nanoseconds of a clock that does not jump.
  [[nodiscard]] static std::uint64_t now() {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                          std::chrono::steady_clock::now().time_since_epoch())
                                          .count());
  }

  /// A hint to the core that this is a spin.
  static void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
  }

 private:
  patience_options const* options_;
  world_state const* world_;
  int idle_ = 0;
  std::uint64_t idle_since_ = 0;
};
static_assert(patience<host_patience>);
static_assert(!patience<int>);

}  // namespace blink::inline BLINK_ABI
