// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/counter.hpp>
#include <blink/config.hpp>

#include <cstddef>
#include <cstdint>

namespace blink::inline BLINK_ABI {

/// How far a wire has come, in memory that both ends reach: each counter is written by one side and
/// has lines of its own. All 0 at first.
struct wire_counters {
  alignas(128) counter posted = 0;  ///< messages that are complete; written by the sender
  alignas(128) counter taken = 0;   ///< messages that are done with; written by the receiver
};

/// A physical link on the way of a wire's messages.
struct route_link {
  int link = 0;                     ///< by number in the schedule
  double nanoseconds_per_byte = 0;  ///< what it takes for a message
  std::uint64_t* free_at =
      nullptr;  ///< when it has carried what it was handed so far, by all wires
};

/// One direction of one tree edge, as one process sees it.
struct shared_wire {
  wire_counters* counters = nullptr;
  std::byte* slots = nullptr;         ///< `window` slots; none if data goes another way
  std::uint64_t* due = nullptr;       ///< by slot: when the message arrives; shaped wires only
  route_link const* route = nullptr;  ///< physical links that it uses
  std::uint32_t route_length = 0;
  std::uint32_t window = 0;
  std::size_t slot_bytes = 0;
  int sender = -1;  ///< -1: there is no such edge
  int receiver = -1;
};

}  // namespace blink::inline BLINK_ABI
