// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/running/call/communicator_options.hpp>
#include <blink/running/call/eager_payload.hpp>
#include <blink/running/call/messenger.hpp>
#include <blink/schedule/host_schedules.hpp>
#include <blink/transports/messages/agree_on_options.hpp>
#include <blink/transports/messages/channel_messenger.hpp>
#include <blink/transports/messages/control_messages.hpp>
#include <blink/transports/messages/host_ranks.hpp>
#include <blink/transports/messages/message_channel.hpp>
#include <blink/transports/messages/message_sizes.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The messenger of a communicator; nothing if the channel allows none.
template <message_channel Channel>
class messenger_over {
 public:
  void begin(Channel&, control_messages<Channel>&, communicator_options const&) {}
  void fail(collective_error const&) {}
  [[nodiscard]] bool try_end() { return true; }
  [[nodiscard]] bool is_intact() const { return true; }
  void close() {}
};
template <independent_channel Channel>
class messenger_over<Channel> {
 public:
  /// Collective over the ranks of the channel, of which it makes a duplicate.
  void begin(Channel& channel, control_messages<Channel>& calls,
             communicator_options const& options) {
    if (!options.point_to_point) return;
    one_.emplace(channel.duplicate(), options.waits);
    calls.advance_while_waiting(&*one_);
  }
  /// Throws: precondition_error if the options left it out.
  [[nodiscard]] messenger& get() {
    if (one_) return *one_;
    throw precondition_error(communicator_text<Channel>(
        "its option point_to_point is false, expected true for sends and receives"));
  }
  void fail(collective_error const& cause) {
    if (one_) one_->fail(cause);
  }
  [[nodiscard]] bool try_end() { return !one_ || one_->try_end(); }
  [[nodiscard]] bool is_intact() const { return !one_ || one_->is_intact(); }
  void close() {
    if (one_) one_->close();
  }

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

  std::atomic<void const*> active_queue = nullptr;

  /// False after an error of the library.
  [[nodiscard]] bool is_intact() const {
    return channel.is_intact() && control.is_intact() && messenger.is_intact();
  }
  /// Lets the ranks of each host share memory. Collective. Options that were left at the default of
  /// the channel take those of shared memory.
  ///
  /// hosts:  by rank
  ///
  /// Throws: as the constructor of `host_ranks`.
  void share_memory(std::vector<std::uint64_t> const& hosts, communicator_options& options) {
    auto const most = largest_eager_between(hosts_of_ranks(hosts));
    for (auto& limit : eager_limits) limit = std::min(limit, most);
    auto const room =
        is_one_host ? std::size_t{0} : eager_limits.back() * static_cast<std::size_t>(hosts.size());
    here = host_ranks(channel, control_messages<Channel>::note_tag, hosts, room,
                      longest_meeting(options));
    communicator_options const of_memory;
    auto const of_channel = Channel::default_options();
    if (options.slot_bytes == of_channel.slot_bytes) options.slot_bytes = of_memory.slot_bytes;
    if (is_one_host && options.costs == of_channel.costs) options.costs = of_memory.costs;
  }
};

}}}  // namespace blink::BLINK_ABI::detail
