// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/tree_walk.hpp>

#include <sched.h>

#include <cstdint>
#include <ctime>

namespace blink { inline namespace BLINK_ABI {

/// The clock of a kernel's blocks, in nanoseconds. All blocks of a device share it; clocks of
/// different devices are unrelated. If threads of the host stand in for a device, it is the clock
/// of the host.
///
/// Accuracy: a GPU updates it about every microsecond, some GPUs more often; it does not change
///           between two ticks.
struct block_clock {
  [[nodiscard]] BLINK_HOST_DEVICE static std::uint64_t now() {
#if BLINK_DEVICE_PASS
    std::uint64_t time = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
#else
    std::timespec time{};
    std::timespec_get(&time, TIME_UTC);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U +
           static_cast<std::uint64_t>(time.tv_nsec);
#endif
  }
};

/// The wait policy of a block's threads: they spin until the deadline, or until a block gives up.
/// On a host, where threads stand in for those of a block and may outnumber the cores, they also
/// yield.
struct block_wait {
  counter const* abort = nullptr;
  std::uint64_t deadline_nanoseconds = 0;  ///< the longest time without progress
  std::uint64_t idle_since = 0;            ///< 0: not idle

  BLINK_HOST_DEVICE status on_progress() {
    idle_since = 0;
    return status::ok;
  }
  BLINK_HOST_DEVICE status on_idle() {
    if (has_reached(*abort, 1)) return status::aborted;
    std::uint64_t const time = now();
    if (idle_since == 0) idle_since = time;
#if !BLINK_DEVICE_PASS
    sched_yield();
#endif
    return time - idle_since > deadline_nanoseconds ? status::timed_out : status::ok;
  }
  [[nodiscard]] BLINK_HOST_DEVICE std::uint64_t now() const { return block_clock::now(); }
};
static_assert(wait_policy<block_wait>);

}}  // namespace blink::BLINK_ABI
