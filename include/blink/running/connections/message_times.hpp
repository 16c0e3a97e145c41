// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/connections/connection.hpp>
#include <blink/running/walk/counter.hpp>

#include <cstddef>
#include <cstdint>

// Arrival times of messages over connections that are as slow as the physical links they represent.
// One rule for threads, processes and kernels, which differ in their clocks.

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// Occupies a link with a message at `now` for `nanoseconds`. Returns the time when the link is
/// done with it. Simultaneous messages of all senders follow each other.
BLINK_HOST_DEVICE inline std::uint64_t occupy(std::uint64_t& free_at, std::uint64_t now,
                                              std::uint64_t nanoseconds) {
  counter_reference const word(free_at);
  std::uint64_t busy_until = word.load(relaxed_order);
  std::uint64_t done = 0;
  do {
    done = (busy_until < now ? now : busy_until) + nanoseconds;
  } while (!word.compare_exchange_weak(busy_until, done, relaxed_order));
  return done;
}

}  // namespace detail

/// Stamps a message with the time of its arrival.
///
/// It occupies every link of its route for bytes / rate, in whole nanoseconds, rounded up so that
/// no link exceeds its rate. Messages of all trees over a link follow each other. The message
/// arrives when the last of its links is done, plus the latency. Edges without a route take only
/// the latency.
///
/// now, latency: in nanoseconds of the clock that the receiver also reads
/// Time: O(links of the route).
/// Pre:  the connection is shaped; called by the sender before it posts the message.
BLINK_HOST_DEVICE inline void stamp_message(shared_connection const& connection,
                                            std::uint64_t message, std::size_t bytes,
                                            std::uint64_t now, std::uint64_t latency) {
  // two years: longer than any wait, and sums of it do not overflow
  constexpr double longest = 0x1p56;
  std::uint64_t arrival = now;
  for (std::uint32_t hop = 0; hop < connection.route_length; ++hop) {
    route_link const& over = connection.route[hop];
    double const exact = static_cast<double>(bytes) * over.nanoseconds_per_byte;
    auto whole = static_cast<std::uint64_t>(exact < longest ? exact : longest);
    if (static_cast<double>(whole) < exact) ++whole;
    std::uint64_t const done = detail::occupy(*over.free_at, now, whole);
    if (done > arrival) arrival = done;
  }
  connection.due[message % connection.window] = arrival + latency;
}

/// True if the time of its arrival has come. Pre: the message has been posted and not been
/// consumed.
[[nodiscard]] BLINK_HOST_DEVICE inline bool is_due(shared_connection const& connection,
                                                   std::uint64_t message, std::uint64_t now) {
  return now >= connection.due[message % connection.window];
}

}}  // namespace blink::BLINK_ABI
