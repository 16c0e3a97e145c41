// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/running/connections/connection.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/running/walk/zero_copy.hpp>
#include <blink/transports/messages/control_messages.hpp>
#include <blink/transports/messages/message_channel.hpp>
#include <blink/transports/messages/message_connections.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// Returns the eager limit of a rank in bytes. It is below the size that would take trees without
/// slots, because copying a larger payload costs more than the steps of those trees.
///
/// with_two: the limit with two ranks, in bytes
/// steps:    steps of the trees: one, or two for an all-reduce
[[nodiscard]] inline std::size_t largest_eager_bytes(int rank_count, std::size_t with_two,
                                                     std::size_t zero_copy_threshold,
                                                     std::size_t steps) {
  auto const peers = static_cast<std::size_t>(std::max(1, rank_count - 1));
  std::size_t const most = with_two / peers;
  if (zero_copy_threshold > most) return most;
  return std::min(most, std::max<std::size_t>(1, zero_copy_threshold * peers * steps) - 1);
}

/// The state that a communicator shares with its connections.
template <message_channel Channel>
struct message_state {
  message_state(Channel its_channel, std::size_t with_two, std::size_t lent)
      : channel(std::move(its_channel)),
        control(channel.duplicate()),
        eager_limit_of_two(with_two),
        zero_copy_threshold(lent),
        eager_limits{largest_eager_bytes(channel.rank_count(), with_two, lent, 1),
                     largest_eager_bytes(channel.rank_count(), with_two, lent, 2)},
        messages(channel, control, eager_limits.back(), channel.eager_bytes()) {}

  [[nodiscard]] std::size_t eager_limit_of(collective kind) const {
    return eager_limits[has_reduce_phase(kind) && has_broadcast_phase(kind) ? 1 : 0];
  }

  Channel channel;
  Channel control;  // separate, so that libraries do not search the receives of connections
  std::size_t eager_limit_of_two;           // eager limit with two ranks, in bytes
  std::size_t zero_copy_threshold;          // smallest message for zero copy, in bytes
  std::array<std::size_t, 2> eager_limits;  // in bytes, by the steps of the trees: one, two
  control_messages<Channel> messages;
  bool is_one_host = false;  // of all ranks
  std::atomic<void const*> active_queue = nullptr;
};

}  // namespace detail

/// The transport over a message channel, which copies data through messages.
template <message_channel Channel>
class message_transport {
 public:
  using channel_type = Channel;
  static constexpr char const* name = Channel::name;  ///< in tuning tables
  static constexpr bool reaches = false;
  static constexpr bool is_shaped = false;

  message_transport() = default;
  message_transport(detail::message_state<Channel>& state,
                    message_connections<Channel>& connections)
      : state_(&state), connections_(&connections) {}

  [[nodiscard]] int rank() const { return state_->channel.rank(); }
  [[nodiscard]] int rank_count() const { return state_->channel.rank_count(); }
  [[nodiscard]] std::size_t slot_bytes() const { return connections_->slot_bytes(); }
  [[nodiscard]] bool is_present(int peer) const {
    return peer == rank() || state_->messages.is_present(peer);
  }
  [[nodiscard]] bool is_aborted() const { return state_->messages.is_aborted(); }

  [[nodiscard]] bool has_credit(std::uint32_t connection, std::uint64_t message) const {
    return connections_->has_credit(connection, message);
  }
  [[nodiscard]] std::byte* outbox(std::uint32_t connection, std::uint64_t message) const {
    return connections_->place(connection, message);
  }
  void post(std::uint32_t connection, std::uint64_t message, std::size_t bytes) const {
    connections_->post(connection, message, bytes);
  }
  [[nodiscard]] bool has_arrived(std::uint32_t connection, std::uint64_t message) const {
    return connections_->has_arrived(connection, message);
  }
  [[nodiscard]] std::byte const* inbox(std::uint32_t connection, std::uint64_t message) const {
    return connections_->place(connection, message);
  }
  void consume(std::uint32_t connection, std::uint64_t message) const {
    connections_->consume(connection, message);
  }
  [[nodiscard]] bool consumed(std::uint32_t connection, std::uint64_t message) const {
    return connections_->consumed(connection, message);
  }

  [[nodiscard]] std::size_t zero_copy_threshold() const { return state_->zero_copy_threshold; }
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
    return connections_->prepared().tables().connections()[connection];
  }
  [[nodiscard]] std::uint64_t latency_nanoseconds() const {
    return connections_->prepared().latency_nanoseconds();
  }

 private:
  detail::message_state<Channel>* state_ = nullptr;
  message_connections<Channel>* connections_ = nullptr;
};

}}  // namespace blink::BLINK_ABI
