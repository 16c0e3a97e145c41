// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/walk/counter.hpp>

#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// The counters that one end publishes for up to two connections: one on which it sends and one on
/// which it receives.
struct alignas(128) reported_counters {
  counter posted = 0;    ///< messages that are complete; written by the sender
  counter consumed = 0;  ///< messages that are consumed; written by the receiver
};

/// The counters of a connection, in memory that both ends reach. Each writer has cache lines of its
/// own. The connection of the other direction may use the other counters. All 0 at first.
struct connection_counters {
  reported_counters of_sender;
  reported_counters of_receiver;
};

/// A physical link on the route of a connection's messages.
struct route_link {
  int link = 0;                     ///< by number in the schedule
  double nanoseconds_per_byte = 0;  ///< time that a message occupies it
  /// the time when it has carried all messages so far, of all connections
  std::uint64_t* free_at = nullptr;
};

/// One direction of one tree edge, as one process sees it.
struct shared_connection {
  /// see `reported_counters`; null if they are not reachable: the connection carries messages
  counter* posted = nullptr;
  counter* consumed = nullptr;
  std::byte* slots = nullptr;  ///< `window` slots; none if data does not use slots
  /// by slot: the time when the message arrives; shaped connections only
  std::uint64_t* due = nullptr;
  route_link const* route = nullptr;  ///< physical links that it uses
  std::uint32_t route_length = 0;
  std::uint32_t window = 0;
  std::size_t slot_bytes = 0;
  int sender = -1;  ///< -1: there is no such edge
  int receiver = -1;

  // Progress of both ends on a host, see `transport`. Pre: the counters are reachable.

  [[nodiscard]] bool has_credit(std::uint64_t message) const {
    return message < observe(*consumed) + window;
  }
  void post(std::uint64_t message) const { publish(*posted, message + 1); }
  [[nodiscard]] bool has_arrived(std::uint64_t message) const { return message < observe(*posted); }
  void consume(std::uint64_t message) const { publish(*consumed, message + 1); }
  [[nodiscard]] bool has_consumed(std::uint64_t message) const {
    return message < observe(*consumed);
  }

  /// Sets the counters: those of the connection itself or, if it `is_reverse`, those of the
  /// connection of the other direction, which uses the other half of them.
  ///
  /// counters: null if they are not reachable
  void use(connection_counters* counters, bool is_reverse = false) {
    bool const are_there = counters != nullptr;
    posted =
        are_there ? &(is_reverse ? counters->of_receiver : counters->of_sender).posted : nullptr;
    consumed =
        are_there ? &(is_reverse ? counters->of_sender : counters->of_receiver).consumed : nullptr;
  }
};

}}  // namespace blink::BLINK_ABI
