// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/status.hpp>
#include <blink/running/walk/tree_walk.hpp>
#include <blink/transports/cuda/kernels/block_clock.hpp>

#include <sched.h>

#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// Waits of a block's threads: spin until the deadline, or until somebody gives up. On a host, where
/// threads stand for those of a block and may be more than cores, they yield as well.
struct block_patience {
  counter const* abort = nullptr;
  std::uint64_t deadline_nanoseconds = 0;  ///< without any progress
  std::uint64_t idle_since = 0;            ///< 0: not idle

  BLINK_HOST_DEVICE status after_progress() {
    idle_since = 0;
    return status::ok;
  }
  BLINK_HOST_DEVICE status after_none() {
    if (observe(*abort) != 0) return status::aborted;
    std::uint64_t const time = now();
    if (idle_since == 0) idle_since = time;
#if !BLINK_DEVICE_PASS
    sched_yield();
#endif
    return time - idle_since > deadline_nanoseconds ? status::timed_out : status::ok;
  }
  [[nodiscard]] BLINK_HOST_DEVICE std::uint64_t now() const { return block_clock::now(); }
};
static_assert(patience<block_patience>);

}}  // namespace blink::BLINK_ABI
