// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/thread_group.hpp>
#include <blink/transports/cuda/kernels/block_wait.hpp>

#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// The flags that the blocks of a call read while they wait and set when they give up, with the
/// deadline.
struct call_watch {
  counter* abort = nullptr;          ///< of the device; not 0: give up
  counter* const* aborts = nullptr;  ///< of all devices that this one reaches
  counter* failed = nullptr;         ///< of the process, on the host; not 0: a call has failed
  std::uint64_t deadline_nanoseconds = 0;  ///< the longest time without progress
  std::uint32_t abort_count = 0;           ///< number of `aborts`

  /// True if the call may begin. After a failure nothing moves, because ranks no longer agree about
  /// the messages that were sent.
  ///
  /// Pre: all threads of a block's group call it; all get the same result.
  template <thread_group Group>
  [[nodiscard]] BLINK_HOST_DEVICE bool lets_begin(Group const group) const {
    bool const leads = group.thread_rank() == 0;
    if (group.from_leader(leads && observe(*abort) == 0)) return true;
    if (leads) publish(*failed, 1);  // the failed call may be another process's
    return false;
  }
  /// The wait policy of the blocks of this call.
  [[nodiscard]] BLINK_HOST_DEVICE block_wait wait_policy() const {
    return {abort, deadline_nanoseconds, 0};
  }
  /// Ends the call on all devices that this one reaches. Called by one thread.
  BLINK_HOST_DEVICE void give_up() const {
    for (std::uint32_t k = 0; k < abort_count; ++k) publish(*aborts[k], 1);
    publish(*failed, 1);
  }
};

}}  // namespace blink::BLINK_ABI
