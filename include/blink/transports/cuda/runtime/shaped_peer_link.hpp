// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/connections/message_times.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/transports/cuda/kernels/block_clock.hpp>
#include <blink/transports/cuda/runtime/peer_memory.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// Virtual ranks on one GPU, joined by wires that are as slow as the physical links they stand for, so
/// that a machine can be tried on a single GPU. What `shaped_link` is for threads: messages go through
/// slots; the sender stamps each with the time of its arrival (`stamp_message` has the rule) and goes
/// on; the receiver waits for that time.
///
/// On one device only: all its blocks read the same clock and take turns on a link by one word.
///
/// Accuracy: that of the clock. A message may arrive a tick too early or too late, so one that takes less
///           than a tick may seem to take none, or a whole one, on each edge; the latency of a chain of
///           small messages says little. What a link is busy adds up in nanoseconds, so the rates of
///           links are right for messages of many ticks, and for many messages one after the other.
/// Clock:    `now()`, in nanoseconds; another one for tests
template <class Clock = block_clock>
struct shaped_peer_link_with : slot_peer_link {
  static_assert(requires {
    { Clock::now() } -> std::same_as<std::uint64_t>;
  });
  static constexpr bool is_shaped = true;

  std::uint64_t latency_nanoseconds = 0;  ///< of each message

  BLINK_HOST_DEVICE void post(std::uint32_t wire, std::uint64_t message, std::size_t bytes) const {
    stamp_message(wires[wire], message, bytes, Clock::now(), latency_nanoseconds);
    slot_peer_link::post(wire, message, bytes);
  }
  [[nodiscard]] BLINK_HOST_DEVICE bool has_arrived(std::uint32_t wire,
                                                   std::uint64_t message) const {
    return slot_peer_link::has_arrived(wire, message) && is_due(wires[wire], message, Clock::now());
  }
};
using shaped_peer_link = shaped_peer_link_with<>;
static_assert(transport<shaped_peer_link> && !reaching_transport<shaped_peer_link>);

}}  // namespace blink::BLINK_ABI
