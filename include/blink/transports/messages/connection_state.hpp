// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/connections/memory_source.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/running/walk/zero_copy.hpp>
#include <blink/schedule/connection_place.hpp>
#include <blink/transports/messages/message_channel.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// One endpoint of `message_connections`: its messages, the progress of both ends, and the
/// endpoints with precedence over it.
template <message_channel Channel>
struct message_connection_state {
  using request = typename Channel::request;
  struct credit {
    std::uint64_t consumed = 0;
    request operation{};
  };

  endpoint const* table = nullptr;
  connection_place const* place = nullptr;
  std::byte* slots = nullptr;
  int tag = 0;
  bool is_open = false;
  std::uint64_t call_first = 0;    // first message of the present call
  std::uint64_t consumed = 0;      // messages: senders: as last reported; receivers: so far
  std::uint64_t arrived = 0;       // receivers
  std::uint64_t credited = 0;      // receivers: sent in the last credit
  std::uint64_t credits_sent = 0;  // receivers
  std::vector<request> requests;   // by slot
  std::vector<credit> credits;     // senders receive one at a time, receivers send several

  // Zero copy in the present call.
  chunk_run run{};              // null: slots
  bool lands = false;           // its messages have the tag of zero copy
  bool lands_in_input = false;  // receivers: in the input that this rank sends along `up`
  memory_block landing_slots;   // receivers: slots for zero copy messages without a buffer
  bool is_withdrawn = false;    // receivers: after a failure
  message_connection_state* up = nullptr;  // the connection to the parent in the same tree
  std::uint64_t posted = 0;                // senders
  std::uint64_t landing = 0;               // receivers: the first message without a posted receive
  // receivers: messages that arrived in buffers instead of slots
  std::uint64_t skipped = 0;
  std::vector<request> landings;  // receivers, by message
  // Receivers, connections with the same peer:
  // results combined before this connection receives
  std::vector<message_connection_state*> first_come;
  // own inputs sent before this connection receives
  std::vector<message_connection_state*> first_go;

  /// Records the relations with another endpoint of this rank. Called for each pair.
  void match(message_connection_state& other) {
    bool const goes_up = other.table->sends && other.place->is_reduce;
    if (goes_up && other.place->tree == place->tree) up = &other;
    if (table->sends || other.table->peer != table->peer) return;
    if (other.table->sends && other.table->sender_is_source) first_go.push_back(&other);
    bool const is_combined = !other.table->sends && other.place->is_reduce;
    if (is_combined && !place->is_reduce) first_come.push_back(&other);
  }

  /// True if the first `chunks` chunks that arrive in a buffer here may be received.
  ///
  /// Within a host, libraries copy the message of a posted receive while they serve other calls,
  /// and peers wait meanwhile. So a rank first sends its own inputs. It also receives no larger
  /// share of this connection than of the data that it combines, because peers wait for the
  /// combined data. This cannot deadlock: at equal shares combined data comes first, and it waits
  /// for smaller shares only.
  [[nodiscard]] bool is_its_turn(std::uint64_t chunks) const {
    bool const has_sent = std::all_of(first_go.begin(), first_go.end(), [](auto const* other) {
      bool const needs_nothing =
          other->run.first != nullptr && other->table->way == transfer_mode::from_input;
      return !needs_nothing || other->posted > other->call_first;
    });
    return has_sent && std::all_of(first_come.begin(), first_come.end(), [&](auto const* other) {
             if (!other->lands) return true;
             return other->consumed >=
                    other->run.message + chunks * other->run.chunks() / run.chunks();
           });
  }
};

}}  // namespace blink::BLINK_ABI
