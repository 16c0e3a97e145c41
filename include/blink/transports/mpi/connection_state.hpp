// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/connections/memory_source.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/running/walk/zero_copy.hpp>
#include <blink/schedule/connection_place.hpp>
#include <blink/transports/mpi/channel.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// One end of a connection of `mpi_connections`: where its messages lie, how far both ends are, and whose turn comes before its own.
struct mpi_connection_state {
  struct credit {
    std::uint64_t consumed = 0;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  endpoint const* table = nullptr;
  connection_place const* place = nullptr;
  std::byte* slots = nullptr;
  int tag = 0;
  bool is_open = false;
  std::uint64_t call_first = 0;       // of the present call
  std::uint64_t consumed = 0;         // the sender knows of, or the receiver has
  std::uint64_t arrived = 0;          // receivers
  std::uint64_t credited = 0;         // receivers: what the last credit said
  std::uint64_t credits_sent = 0;     // receivers
  std::vector<MPI_Request> requests;  // by slot
  std::vector<credit> credits;        // senders receive one at a time, receivers send several

  // Buffers that are lent for the present call.
  chunk_run run{};              // null: slots
  bool lands = false;           // its messages have the tag of those that may arrive in a buffer
  bool lands_in_input = false;  // receivers: which this rank sends along `up`
  memory_block landing_slots;   // receivers: where there may be no buffer for what lands
  bool is_withdrawn = false;    // receivers: after a failure
  mpi_connection_state* up = nullptr;  // of the same tree
  std::uint64_t posted = 0;            // senders
  std::uint64_t landing = 0;           // receivers: from this message on no buffer waits yet
  std::uint64_t skipped = 0;           // receivers: messages that came in buffers and not in slots
  std::vector<MPI_Request> landings;   // receivers, by message
  // Receivers, from and to the same peer:
  std::vector<mpi_connection_state*> first_come;  // of results: what is combined
  std::vector<mpi_connection_state*> first_go;    // what may need nothing of others

  /// Notes what the ends of a rank have to do with each other; each with each.
  void match(mpi_connection_state& other) {
    bool const goes_up = other.table->sends && other.place->is_reduce;
    if (goes_up && other.place->tree == place->tree) up = &other;
    if (table->sends || other.table->peer != table->peer) return;
    if (other.table->sends && other.table->sender_is_source) first_go.push_back(&other);
    bool const is_combined = !other.table->sends && other.place->is_reduce;
    if (is_combined && !place->is_reduce) first_come.push_back(&other);
  }

  /// May the first so many chunks of what lands here be received?
  ///
  /// Within a host libraries copy what a receive waits for while they are asked for something else, and peers wait meanwhile.
  /// So nothing is copied before this rank has sent what it can, nor a larger part of what it only copies than of what it
  /// combines and they wait for. Nobody waits in a circle: of parts as large what is combined comes first, and it waits for smaller ones only.
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
