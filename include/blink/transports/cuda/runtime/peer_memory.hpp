// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/connections/connection.hpp>
#include <blink/running/connections/message_times.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/transports/cuda/kernels/block_wait.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// Transport between GPUs whose kernels pass data through slots in memory that both reach. The
/// tables are `connection_tables` made with a memory source of the device.
///
/// All ranks' kernels run at once (one cooperative kernel, or one for each GPU), so a rank never
/// waits for a peer that has not been launched.
struct slot_peer_transport {
  static constexpr bool is_shaped = false;

  shared_connection* connections = nullptr;
  counter* abort = nullptr;  ///< not 0: give up; the host may set it
  std::size_t bytes_of_slot = 0;
  int own_rank = 0;
  int ranks = 0;

  [[nodiscard]] BLINK_HOST_DEVICE int rank() const { return own_rank; }
  [[nodiscard]] BLINK_HOST_DEVICE int rank_count() const { return ranks; }
  [[nodiscard]] BLINK_HOST_DEVICE std::size_t slot_bytes() const { return bytes_of_slot; }
  [[nodiscard]] BLINK_HOST_DEVICE bool is_present(int) const { return true; }
  [[nodiscard]] BLINK_HOST_DEVICE bool is_aborted() const { return has_reached(*abort, 1); }
  [[nodiscard]] BLINK_HOST_DEVICE bool has_credit(std::uint32_t connection,
                                                  std::uint64_t message) const {
    auto const& at = connections[connection];
    return message < at.window || has_reached(*at.consumed, message + 1 - at.window);
  }
  [[nodiscard]] BLINK_HOST_DEVICE std::byte* outbox(std::uint32_t connection,
                                                    std::uint64_t message) const {
    return connections[connection].slots +
           message % connections[connection].window * connections[connection].slot_bytes;
  }
  BLINK_HOST_DEVICE void post(std::uint32_t connection, std::uint64_t message, std::size_t) const {
    publish_next(*connections[connection].posted, message + 1);
  }
  [[nodiscard]] BLINK_HOST_DEVICE bool has_arrived(std::uint32_t connection,
                                                   std::uint64_t message) const {
    return has_reached(*connections[connection].posted, message + 1);
  }
  [[nodiscard]] BLINK_HOST_DEVICE std::byte const* inbox(std::uint32_t connection,
                                                         std::uint64_t message) const {
    return outbox(connection, message);
  }
  BLINK_HOST_DEVICE void consume(std::uint32_t connection, std::uint64_t message) const {
    publish_next(*connections[connection].consumed, message + 1);
  }
  [[nodiscard]] BLINK_HOST_DEVICE bool consumed(std::uint32_t connection,
                                                std::uint64_t message) const {
    return has_reached(*connections[connection].consumed, message + 1);
  }
};
static_assert(transport<slot_peer_transport> && !reaching_transport<slot_peer_transport>);

/// A `slot_peer_transport` whose messages announce the size of the whole piece that they are a part
/// of. Messages of another size than expected do not arrive. Each slot has room for one word behind
/// its data.
struct sized_peer_transport : slot_peer_transport {
  std::uint64_t whole = 0;

  [[nodiscard]] BLINK_HOST_DEVICE std::uint64_t& announced(std::uint32_t connection,
                                                           std::uint64_t message) const {
    return *reinterpret_cast<std::uint64_t*>(outbox(connection, message) + bytes_of_slot);
  }
  BLINK_HOST_DEVICE void post(std::uint32_t connection, std::uint64_t message,
                              std::size_t bytes) const {
    announced(connection, message) = whole;
    begin_publishing();
    slot_peer_transport::post(connection, message, bytes);
  }
  [[nodiscard]] BLINK_HOST_DEVICE bool has_arrived(std::uint32_t connection,
                                                   std::uint64_t message) const {
    return slot_peer_transport::has_arrived(connection, message) &&
           announced(connection, message) == whole;
  }
};
static_assert(transport<sized_peer_transport> && !reaching_transport<sized_peer_transport>);

/// Transport between GPUs whose kernels read and write each other's buffers (peer access, or one
/// GPU).
struct reaching_peer_transport : slot_peer_transport {
  void const* const* inputs = nullptr;  ///< by rank, in memory that the kernel reaches
  void* const* outputs = nullptr;       ///< by rank

  [[nodiscard]] BLINK_HOST_DEVICE void const* input_of(int peer) const { return inputs[peer]; }
  [[nodiscard]] BLINK_HOST_DEVICE void* output_of(int peer) const { return outputs[peer]; }
};
static_assert(reaching_transport<reaching_peer_transport>);

/// Transport between virtual ranks on one GPU, whose connections are as slow as the physical links
/// that they represent. It is the counterpart of `shaped_transport` for threads, to test a plan on
/// a single GPU. Messages go through slots. The sender stamps each message with its time of arrival
/// (see `stamp_message`) and continues; the receiver waits for that time.
///
/// Pre: all ranks are on one device, because its blocks read the same clock and reserve a link
///      through one word.
///
/// Accuracy: that of the clock. A message may arrive one tick too early or too late. A message
///           shorter than a tick can seem to take no time or a whole tick on each edge. The
///           latency of a chain of small messages is therefore unreliable. The busy time of a link
///           adds up in nanoseconds. Rates are therefore right for messages of many ticks, and for
///           many messages in a row.
/// Clock:    `now()`, in nanoseconds; tests replace it
template <class Clock = block_clock>
struct shaped_peer_transport_with : slot_peer_transport {
  static_assert(requires {
    { Clock::now() } -> std::same_as<std::uint64_t>;
  });
  static constexpr bool is_shaped = true;

  std::uint64_t latency_nanoseconds = 0;  ///< of each message

  BLINK_HOST_DEVICE void post(std::uint32_t connection, std::uint64_t message,
                              std::size_t bytes) const {
    stamp_message(connections[connection], message, bytes, Clock::now(), latency_nanoseconds);
    begin_publishing();
    slot_peer_transport::post(connection, message, bytes);
  }
  [[nodiscard]] BLINK_HOST_DEVICE bool has_arrived(std::uint32_t connection,
                                                   std::uint64_t message) const {
    return slot_peer_transport::has_arrived(connection, message) &&
           is_due(connections[connection], message, Clock::now());
  }
};
using shaped_peer_transport = shaped_peer_transport_with<>;
static_assert(transport<shaped_peer_transport> && !reaching_transport<shaped_peer_transport>);

}}  // namespace blink::BLINK_ABI
