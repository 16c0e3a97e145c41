// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/transport.hpp>
#include <blink/config.hpp>
#include <blink/transports/patience.hpp>
#include <blink/transports/slots.hpp>
#include <blink/transports/world.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace blink::inline BLINK_ABI {

/// Threads joined by wires that are as slow as the physical links they stand for, so that a machine
/// can be tried on another one.
///
/// The sender stamps each message with the time of its arrival and goes on; the receiver waits for
/// that time. A message occupies every link of its route for bytes / rate, one after the other with
/// all other messages over that link, whichever tree they belong to; it arrives when the last of
/// its links is done, and the latency later. Edges without a route take no time.
class shaped_link : public slot_link {
 public:
  static constexpr bool is_shaped = true;
  using slot_link::slot_link;

  void post(std::uint32_t wire, std::uint64_t message, std::size_t bytes) const {
    auto& at = wire_at(wire);
    auto const now = host_patience::now();
    auto& plan = *parts().plan;
    std::uint64_t arrival = now;
    for (std::uint32_t hop = 0; hop < at.route_length; ++hop) {
      double const rate =
          plan.source().link_bytes_per_second[static_cast<std::size_t>(at.route[hop])];
      auto const nanoseconds = static_cast<std::uint64_t>(static_cast<double>(bytes) / rate * 1e9);
      arrival = std::max(arrival, occupy(plan.link_free_at(at.route[hop]), now, nanoseconds));
    }
    at.due[message % at.window] = arrival + plan.latency_nanoseconds();
    slot_link::post(wire, message, bytes);
  }
  [[nodiscard]] bool has_arrived(std::uint32_t wire, std::uint64_t message) const {
    auto const& at = wire_at(wire);
    return slot_link::has_arrived(wire, message) &&
           host_patience::now() >= at.due[message % at.window];
  }

 private:
  // Returns when the link is done with a message that is handed over now.
  static std::uint64_t occupy(std::atomic<std::uint64_t>& free_at, std::uint64_t now,
                              std::uint64_t nanoseconds) {
    std::uint64_t busy_until = free_at.load(std::memory_order_relaxed);
    std::uint64_t done = 0;
    do {
      done = std::max(now, busy_until) + nanoseconds;
    } while (!free_at.compare_exchange_weak(busy_until, done, std::memory_order_relaxed));
    return done;
  }
};
static_assert(transport<shaped_link> && !reaching_transport<shaped_link>);

/// A world whose ranks are threads and whose links have the rates that its schedules name.
using shaped_world = basic_world<shaped_link>;

}  // namespace blink::inline BLINK_ABI
