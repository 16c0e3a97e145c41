// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/counter.hpp>
#include <blink/config.hpp>

#include <cstddef>
#include <cstdint>

namespace blink::inline BLINK_ABI {

/// One direction of one tree edge in memory that both ends reach: a window of slots and two
/// counters, each written by one side and on lines of its own.
struct shared_wire {
  alignas(128) counter posted = 0;  ///< messages that are complete; written by the sender
  alignas(128) counter taken = 0;   ///< messages that are done with; written by the receiver
  alignas(128) std::byte* slots = nullptr;  ///< `window` slots; none if data goes another way
  std::uint64_t* due = nullptr;  ///< by slot: when the message arrives; shaped wires only
  int const* route = nullptr;    ///< physical links that it uses
  std::uint32_t route_length = 0;
  std::uint32_t window = 0;
  std::size_t slot_bytes = 0;
};

}  // namespace blink::inline BLINK_ABI
