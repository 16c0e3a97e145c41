// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/thread_group.hpp>
#include <blink/transports/cuda/kernels/block_wait.hpp>

#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// What the blocks of a call look at while they wait, and what they set when they give up.
struct call_watch {
  counter* abort = nullptr;          ///< of the device: other than 0: give up
  counter* const* aborts = nullptr;  ///< of all devices that this one reaches
  counter* failed = nullptr;  ///< of the process, on the host: other than 0: a call has failed
  std::uint64_t deadline_nanoseconds = 0;  ///< without any progress
  std::uint32_t abort_count = 0;           ///< of `aborts`

  /// May the call begin? After a failure nothing moves: ranks no longer agree about what was said.
  ///
  /// Pre: called by all threads of a block's group; all get the same.
  template <thread_group Group>
  [[nodiscard]] BLINK_HOST_DEVICE bool lets_begin(Group const group) const {
    bool const leads = group.thread_rank() == 0;
    if (group.from_leader(leads && observe(*abort) == 0)) return true;
    if (leads) publish(*failed, 1);  // it may have been another process's
    return false;
  }
  [[nodiscard]] BLINK_HOST_DEVICE block_wait wait_policy() const {
    return {abort, deadline_nanoseconds, 0};
  }
  /// Ends the call on all devices that this one reaches. By one thread.
  BLINK_HOST_DEVICE void give_up() const {
    for (std::uint32_t k = 0; k < abort_count; ++k) publish(*aborts[k], 1);
    publish(*failed, 1);
  }
};

}}  // namespace blink::BLINK_ABI
