// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/host_threads.hpp>
#include <blink/core/duration.hpp>

#include <atomic>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The place at which one rank sleeps, in memory that ranks share. All bytes are 0 at first.
///
/// sleepers: of all ranks, the number of those that sleep
struct doorbell {
  std::atomic<std::uint32_t> rings;  // changes when the rank must wake
  std::atomic<std::uint32_t> is_asleep;

  /// Announces that the rank is about to sleep, and returns a ticket. The rank checks once more
  /// whether it must sleep, and then calls `sleep` with the ticket. Events in between wake it.
  [[nodiscard]] std::uint32_t prepare_sleep(std::atomic<std::uint32_t>& sleepers) {
    std::uint32_t const ticket = rings.load();
    is_asleep.store(1);
    sleepers.fetch_add(1);
    return ticket;
  }
  void sleep(std::uint32_t ticket, nanoseconds longest) { sleep_on(rings, ticket, longest); }
  void end_sleep(std::atomic<std::uint32_t>& sleepers) {
    is_asleep.store(0);
    sleepers.fetch_sub(1);
  }

  /// Wakes the rank after an event for it.
  ///
  /// The read of the sleepers may overtake the store of the event. Then the rank sleeps until the
  /// end of its sleep, which is short. A fence that excludes this costs every message more than
  /// such sleeps cost.
  void ring(std::atomic<std::uint32_t> const& sleepers) {
    if (sleepers.load(std::memory_order_relaxed) == 0) return;
    if (is_asleep.exchange(0) == 0) return;
    rings.fetch_add(1);
    wake(rings);
  }
};

}}}  // namespace blink::BLINK_ABI::detail
