// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/connections/connection.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/connections/slot_rotation.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/running/walk/zero_copy.hpp>
#include <blink/transports/messages/message_channel.hpp>
#include <blink/transports/messages/message_connections.hpp>
#include <blink/transports/messages/message_state.hpp>

#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// The transport over a message channel. Data between ranks that share memory crosses in slots
/// there, all other data in messages.
template <message_channel Channel>
class message_transport {
 public:
  using channel_type = Channel;
  static constexpr char const* name = Channel::name;  ///< in tuning tables
  static constexpr bool reaches = false;
  static constexpr bool is_shaped = false;
  static constexpr bool shares_memory = true;  ///< with ranks of its host

  message_transport() = default;
  message_transport(detail::message_state<Channel>& state,
                    message_connections<Channel>& connections)
      : state_(&state),
        connections_(&connections),
        table_(connections.prepared().tables().connections()) {}

  [[nodiscard]] int rank() const { return state_->channel.rank(); }
  [[nodiscard]] int rank_count() const { return state_->channel.rank_count(); }
  [[nodiscard]] std::size_t slot_bytes() const { return connections_->slot_bytes(); }
  [[nodiscard]] bool is_present(int peer) const {
    return peer == rank() || state_->messages.is_present(peer);
  }
  [[nodiscard]] bool is_aborted() const { return state_->messages.is_aborted(); }

  [[nodiscard]] bool has_credit(std::uint32_t connection, std::uint64_t message) const {
    return sends_messages(connection) ? connections_->has_credit(connection, message)
                                      : table_[connection].has_credit(message);
  }
  /// slot_subdivision: see `place_in_slots`
  [[nodiscard]] std::byte* outbox(std::uint32_t connection, std::uint64_t message,
                                  std::uint32_t slot_subdivision = 0) const {
    return sends_messages(connection)
               ? connections_->place(connection, message)
               : place_in_slots(table_[connection], message, slot_subdivision);
  }
  void post(std::uint32_t connection, std::uint64_t message, std::size_t bytes) const {
    if (sends_messages(connection)) {
      connections_->post(connection, message, bytes);
    } else {
      table_[connection].post(message);
    }
  }
  [[nodiscard]] bool has_arrived(std::uint32_t connection, std::uint64_t message) const {
    return sends_messages(connection) ? connections_->has_arrived(connection, message)
                                      : table_[connection].has_arrived(message);
  }
  [[nodiscard]] std::byte const* inbox(std::uint32_t connection, std::uint64_t message,
                                       std::uint32_t slot_subdivision = 0) const {
    return outbox(connection, message, slot_subdivision);
  }
  void consume(std::uint32_t connection, std::uint64_t message) const {
    if (sends_messages(connection)) {
      connections_->consume(connection, message);
    } else {
      table_[connection].consume(message);
    }
  }
  [[nodiscard]] bool consumed(std::uint32_t connection, std::uint64_t message) const {
    return sends_messages(connection) ? connections_->consumed(connection, message)
                                      : table_[connection].has_consumed(message);
  }

  [[nodiscard]] std::size_t zero_copy_threshold() const { return state_->zero_copy_threshold; }
  [[nodiscard]] bool sends_messages(std::uint32_t connection) const {
    return table_[connection].posted == nullptr;
  }
  void send_in_place(std::uint32_t connection, chunk_run const& run, bool lands) const {
    connections_->send_in_place(connection, run, lands);
  }
  void receive_in_place(std::uint32_t connection, chunk_run const& run, bool is_input) const {
    connections_->receive_in_place(connection, run, is_input);
  }
  [[nodiscard]] bool has_left(std::uint32_t connection, std::uint64_t message) const {
    return connections_->has_left(connection, message);
  }

 protected:
  [[nodiscard]] shared_connection const& connection_at(std::uint32_t connection) const {
    return table_[connection];
  }
  [[nodiscard]] std::uint64_t latency_nanoseconds() const {
    return connections_->prepared().latency_nanoseconds();
  }

 private:
  detail::message_state<Channel>* state_ = nullptr;
  message_connections<Channel>* connections_ = nullptr;
  shared_connection* table_ = nullptr;
};

}}  // namespace blink::BLINK_ABI
