// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/walk/counter.hpp>

#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// What one end tells the other of up to two wires: one that it sends on and one that it receives from.
struct alignas(128) reported_counters {
  counter posted = 0;    ///< messages that are complete; written by the sender
  counter consumed = 0;  ///< messages that are done with; written by the receiver
};

/// How far a connection has come, in memory that both ends reach: what one of them writes has lines of its own. The connection of the
/// other direction may use the rest of them. All 0 at first.
struct connection_counters {
  reported_counters of_sender;
  reported_counters of_receiver;
};

/// A physical link on the way of a wire's messages.
struct route_link {
  int link = 0;                     ///< by number in the schedule
  double nanoseconds_per_byte = 0;  ///< what it takes for a message
  std::uint64_t* free_at =
      nullptr;  ///< when it has carried what it was handed so far, by all connections
};

/// One direction of one tree edge, as one process sees it.
struct shared_connection {
  counter* posted = nullptr;  ///< see `reported_counters`; null where they are not reached
  counter* consumed = nullptr;
  std::byte* slots = nullptr;    ///< `window` slots; none if data goes another way
  std::uint64_t* due = nullptr;  ///< by slot: when the message arrives; shaped connections only
  route_link const* route = nullptr;  ///< physical links that it uses
  std::uint32_t route_length = 0;
  std::uint32_t window = 0;
  std::size_t slot_bytes = 0;
  int sender = -1;  ///< -1: there is no such edge
  int receiver = -1;

  /// Points to counters of the connection itself, or, if it `is_reverse`, of the connection of the other direction, which uses the
  /// other half of them.
  /// counters: null where they are not reached
  void use(connection_counters* counters, bool is_reverse = false) {
    bool const are_there = counters != nullptr;
    posted =
        are_there ? &(is_reverse ? counters->of_receiver : counters->of_sender).posted : nullptr;
    consumed =
        are_there ? &(is_reverse ? counters->of_sender : counters->of_receiver).consumed : nullptr;
  }
};

}}  // namespace blink::BLINK_ABI
