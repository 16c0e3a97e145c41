// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/running/call/communicator_options.hpp>
#include <blink/running/call/eager_payload.hpp>
#include <blink/running/connections/connection.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/connections/slot_rotation.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/running/walk/zero_copy.hpp>
#include <blink/transports/messages/channel_messenger.hpp>
#include <blink/transports/messages/control_messages.hpp>
#include <blink/transports/messages/host_ranks.hpp>
#include <blink/transports/messages/message_channel.hpp>
#include <blink/transports/messages/message_connections.hpp>
#include <blink/transports/messages/message_sizes.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// The messenger of a communicator; nothing if the channel allows none.
template <message_channel Channel>
class messenger_over {
 public:
  void begin(Channel&, control_messages<Channel>&, wait_options const&) {}
  void fail(collective_error const&) {}
  [[nodiscard]] bool try_end() { return true; }
  [[nodiscard]] bool is_intact() const { return true; }
  void close() {}
};
template <independent_channel Channel>
class messenger_over<Channel> {
 public:
  /// Collective over the ranks of the channel, of which it makes a duplicate.
  void begin(Channel& channel, control_messages<Channel>& calls, wait_options const& limits) {
    one_.emplace(channel.duplicate(), limits);
    calls.advance_while_waiting(&*one_);
  }
  [[nodiscard]] messenger& get() { return *one_; }
  void fail(collective_error const& cause) { one_->fail(cause); }
  [[nodiscard]] bool try_end() { return one_->try_end(); }
  [[nodiscard]] bool is_intact() const { return !one_ || one_->is_intact(); }
  void close() { one_->close(); }

 private:
  std::optional<channel_messenger<Channel>> one_;
};

/// The state that a communicator shares with its connections.
template <message_channel Channel>
struct message_state {
  message_state(Channel its_channel, std::size_t with_two, std::size_t lent)
      : channel(std::move(its_channel)),
        control(channel.duplicate()),
        eager_limit_of_two(with_two),
        zero_copy_threshold(lent),
        eager_limits{eager_limit_of(channel.rank_count(), with_two, lent, 1),
                     eager_limit_of(channel.rank_count(), with_two, lent, 2)},
        messages(channel, control, eager_limits.back(), channel.eager_bytes(), here) {}

  /// True if inputs of that size travel with the call. With a payload for each rank, the limit of
  /// messages is that of one payload.
  [[nodiscard]] bool takes_eager(collective kind, eager_payload const& eager,
                                 std::size_t shared_limit) const {
    constexpr int most_ranks = 8;  // that send messages to all others
    int const ranks = channel.rank_count();
    if (messages.all_share_memory()) {
      auto const limit = std::min({shared_limit / static_cast<std::size_t>(ranks),
                                   largest_eager_bytes, eager_limit_of_two});
      return limit > 0 && eager.whole(ranks) <= limit;
    }
    auto const limit = eager_limits[has_reduce_phase(kind) && has_broadcast_phase(kind) ? 1 : 0];
    return ranks <= most_ranks && limit > 0 && eager.count <= limit;
  }

  Channel channel;
  Channel control;  // separate, so that libraries do not search the receives of connections
  std::size_t eager_limit_of_two;           // eager limit with two ranks, in bytes
  std::size_t zero_copy_threshold;          // smallest message for zero copy, in bytes
  std::array<std::size_t, 2> eager_limits;  // in bytes, by the steps of the trees: one, two
  host_ranks here;
  control_messages<Channel> messages;
  [[no_unique_address]] messenger_over<Channel> messenger;
  bool is_one_host = false;  // of all ranks

  /// False after an error of the library.
  [[nodiscard]] bool is_intact() const {
    return channel.is_intact() && control.is_intact() && messenger.is_intact();
  }
  std::atomic<void const*> active_queue = nullptr;
};

}  // namespace detail

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
