// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/call/call_description.hpp>
#include <blink/running/call/eager_payload.hpp>
#include <blink/running/connections/memory_source.hpp>
#include <blink/transports/messages/host_ranks.hpp>
#include <blink/transports/messages/message_channel.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The messages by which ranks announce the calls that they enter. Each rank sends one to each of
/// its neighbours, with its eager payload. Ranks that share memory write it there instead
/// (`host_ranks`).
///
/// A rank ends a call only when all its neighbours have announced theirs. So a neighbour is at most
/// one call ahead. The receive for the next call is posted at the latest when a call has been
/// announced. A rank that waits for its neighbours posts the receives of two more calls. So the
/// last rank has nothing to post.
///
/// A call description travels once. Later calls name it by one byte, if it is one of the eight last
/// announced. Then the payload travels with the call in half a cache line, where the library (Open
/// MPI) copies short messages. A known call whose payload exceeds the library's own eager limit is
/// sent in two or three messages within that limit (`eager_bytes` of the channel).
template <message_channel Channel>
class call_announcements {
 public:
  static constexpr int tag = 0;
  static constexpr int rest_tag = 1;            ///< of the second and the third part of a message
  static constexpr std::size_t alignment = 32;  ///< of the eager payload
  static constexpr std::size_t calls_kept = 8;

  /// channel:     carries nothing else, because libraries search all posted receives of a rank
  /// eager_limit: room of a message for the eager payload, in bytes
  /// part:        bytes of each part of a longer message, of at most three parts; 0: no parts
  /// here:        the ranks that share memory with this one
  call_announcements(Channel& channel, std::size_t eager_limit, std::size_t part,
                     detail::host_ranks& here)
      : channel_(&channel),
        here_(&here),
        part_(part),
        message_bytes_(aligned(data_of_new + eager_limit) + aligned(sizeof(call_description))),
        peers_(static_cast<std::size_t>(channel.rank_count())) {}

  /// Sets the call that is announced from now on, and announces it to the ranks that share memory.
  ///
  /// connections: the first tag of the schedule
  void begin(call_record const& record, int connections, eager_payload const& eager) {
    auto const hash = record.parameters.hash();
    if (hash != mine_.hash) call_id_ = record.call_id();
    mine_ = {hash, connections};
    if (here_->count() > 0) here_->enter(record, eager, channel_->rank_count());
  }
  /// Announces the call of `begin` to a neighbour.
  void send(int peer, eager_payload const& eager) {
    auto& of = at(peer);
    if (here_->has(peer)) {
      of.is_present = false;
      return;
    }
    bool const is_for_peer = eager.data != nullptr && (eager.to < 0 || eager.to == peer);
    std::size_t const payload = is_for_peer ? eager.count : 0;
    if (of.control.size() == 0) {
      of.control = {memory_source{},
                    of_parts * message_bytes_ + aligned(flag + most_parts * part_)};
      await(of, peer);
    }
    ++of.calls;
    of.is_present = false;
    std::size_t const turn = of.calls % 2;
    // The message of two calls ago has ended, because the peer has answered it. The library may
    // need time to notice.
    while (channel_->is_intact() && !have_left(of, turn)) {
    }
    auto* const to = letter(of, turn);
    std::size_t const known = place_of(of.reported, mine_);
    bool const is_reported = known < calls_kept;
    std::size_t const data = is_reported ? data_of_reported : data_of_new;
    to[flag] = static_cast<std::byte>(is_reported ? 1 + known : 0);
    if (payload > 0) std::memcpy(to + data, eager.for_rank(peer), payload);
    std::size_t bytes = data + payload - flag;
    if (!is_reported) {
      of.reported.add(mine_);
      heading const head{mine_, payload};
      std::memcpy(to + data_of_reported, &head, sizeof(head));
      std::size_t const end = aligned(data + payload);
      std::memcpy(to + end, &call_id_, sizeof(call_id_));
      bytes = end + sizeof(call_id_) - flag;
    } else if (goes_in_parts(bytes)) {
      for (std::size_t k = 0; part_ * (k + 1) < bytes; ++k) {
        std::size_t const begin = part_ * (k + 1);
        channel_->send(to + flag + begin, std::min(part_, bytes - begin), peer, rest_tag,
                       of.sent_rest[turn][k]);
      }
      bytes = part_;
    }
    channel_->send(to + flag, bytes, peer, tag, of.sent[turn]);
  }
  /// Posts the receives for this call and for the next one while the announcement travels.
  void await_next(int peer) {
    if (here_->has(peer)) return;
    auto& of = at(peer);
    std::size_t const known = place_of(of.heard, mine_);
    std::size_t const eager = known < calls_kept ? of.eager[known] : 0;
    of.comes_in_parts = goes_in_parts(1 + eager);
    for (std::size_t k = 0; of.comes_in_parts && part_ * (k + 1) < 1 + eager; ++k) {
      channel_->receive(letter(of, of_parts) + flag + part_ * (k + 1), part_, peer, rest_tag,
                        of.awaited_rest[k]);
    }
    if (of.posted <= of.calls) await(of, peer);
    static_cast<void>(have_left(of, (of.calls + 1) % 2));  // so that the next call need not test it
  }

  /// True if `peer` has announced this call, and the same call as this rank.
  [[nodiscard]] bool is_present(int peer) const {
    return peers_[static_cast<std::size_t>(peer)].is_present;
  }
  /// True if the announcement of an absent peer has arrived. If not, prepares later calls.
  [[nodiscard]] bool has_arrived_at(int peer) {
    if (here_->has(peer)) return here_->has_entered(peer);
    auto& of = at(peer);
    if (of.calls == 0) return false;
    if (channel_->is_done(of.awaited[of.calls % turns])) return true;
    if (of.posted + 1 < of.calls + turns) await(of, peer);
    static_cast<void>(have_left(of, of.calls % 2));
    return false;
  }
  /// True if the arrived message names this rank's call among the last calls, as nearly always.
  /// Then the peer is present.
  [[nodiscard]] bool is_present_at_once(int peer) {
    auto& of = at(peer);
    if (here_->has(peer)) return of.is_present = here_->calls_the_same(peer);
    if (of.comes_in_parts) return false;
    std::size_t const known = named_in(letter(of, place_of_received(of)));
    of.is_present = known < calls_kept && of.heard.names[known] == mine_;
    return of.is_present;
  }
  /// Reads a message that has arrived, or the first part of it.
  ///
  /// call:    its number, for the text
  /// Returns: the difference between the peer's call and this one; empty: the peer is present as
  ///          soon as all parts have arrived
  [[nodiscard]] std::string read(int peer, std::uint64_t call) {
    if (here_->has(peer)) return difference(here_->call_of(peer), peer, call);
    auto& of = at(peer);
    auto const* const from = letter(of, place_of_received(of));
    std::size_t known = named_in(from);
    if (from[flag] == std::byte{0}) {
      heading head;
      std::memcpy(&head, from + data_of_reported, sizeof(head));
      known = of.heard.add(head.called);
      of.eager[known] = head.eager;
      std::memcpy(&of.call_ids[known], from + aligned(data_of_new + head.eager),
                  sizeof(call_description));
    }
    auto const& called = of.heard.names[known];
    if (called == mine_) {
      of.is_present = true;
      for (auto& operation : of.awaited_rest) {
        of.is_present = channel_->is_done(operation) && of.is_present;
      }
      if (of.is_present && of.comes_in_parts) {
        std::memcpy(letter(of, of_parts) + flag, from + flag, part_);
      }
      return {};
    }
    if (called.hash != mine_.hash) return difference(of.call_ids[known], peer, call);
    return who() + " and rank " + std::to_string(peer) +
           " prepared their schedules in different orders";
  }
  /// The eager payload of a present neighbour, aligned to `alignment`. Valid until the next call.
  [[nodiscard]] std::byte const* eager_data_of(int peer) const {
    if (here_->has(peer)) return here_->eager_data_of(peer, channel_->rank());
    auto const& of = peers_[static_cast<std::size_t>(peer)];
    auto const* const from = letter(of, of.comes_in_parts ? of_parts : place_of_received(of));
    return from + (from[flag] == std::byte{0} ? data_of_new : data_of_reported);
  }

  /// True if all messages of this rank have been sent.
  [[nodiscard]] bool have_left() {
    bool all = true;
    for (auto& of : peers_) all = have_left(of) && all;
    return all;
  }
  /// The same for those to one peer.
  [[nodiscard]] bool have_left_to(int peer) { return have_left(at(peer)); }
  /// Cancels receives of messages that will not arrive.
  void close() {
    for (auto& of : peers_) {
      for (auto& operation : of.awaited) detail::take_back(*channel_, operation);
      for (auto& operation : of.awaited_rest) detail::take_back(*channel_, operation);
    }
  }

 private:
  struct call_name {
    std::uint64_t hash = 0;
    std::int64_t connections = 0;
    bool operator==(call_name const&) const = default;
  };
  /// The last announced calls, kept because programs repeat a few calls. Both ranks of a pair keep
  /// equal lists.
  struct last_calls {
    std::array<call_name, calls_kept> names{};
    std::size_t added = 0;
    std::size_t found = 0;  // likely to be found again

    std::size_t add(call_name const& name) {
      found = added++ % calls_kept;
      names[found] = name;
      return found;
    }
  };
  /// The position of a call among the last ones, or `calls_kept` if it is not there.
  [[nodiscard]] static std::size_t place_of(last_calls& calls, call_name const& name) {
    if (calls.names[calls.found] == name) return calls.found;
    for (std::size_t k = 0; k < calls_kept; ++k) {
      if (calls.names[k] == name) return calls.found = k;
    }
    return calls_kept;
  }
  /// The header of a message with a new call.
  struct alignas(alignment) heading {
    call_name called;
    std::uint64_t eager = 0;  // bytes
  };
  // Offsets in a message. Its flag is 0 if a heading and the payload follow, then the call
  // description. Otherwise it is 1 + the position of the call among the last ones, and the payload
  // follows.
  static constexpr std::size_t flag = alignment - 1;
  /// The position of the call, beyond `calls_kept` if a heading follows.
  [[nodiscard]] static std::size_t named_in(std::byte const* letter) {
    return static_cast<std::size_t>(letter[flag]) - 1;
  }
  static constexpr std::size_t data_of_reported = alignment;
  static constexpr std::size_t data_of_new = alignment + sizeof(heading);
  static_assert(data_of_new % alignment == 0);

  static constexpr std::size_t turns = 4;  // receives in turn
  static constexpr std::size_t most_parts = 3;
  using request = typename Channel::request;
  using two_requests = std::array<request, 2>;
  struct peer_state {
    memory_block control;
    two_requests sent{};  // by turn
    std::array<request, turns> awaited{};
    std::array<two_requests, 2> sent_rest{};
    two_requests awaited_rest{};                  // of this call
    std::uint64_t calls = 0;                      // announced by both ends
    std::uint64_t posted = 0;                     // receives, one for each call
    last_calls reported;                          // by this rank
    last_calls heard;                             // by the peer
    std::array<std::size_t, calls_kept> eager{};  // bytes of the peer's payload in those calls
    std::array<call_description, calls_kept> call_ids{};
    bool comes_in_parts = false;  // in this call
    bool is_present = false;
  };

  [[nodiscard]] std::string who() const { return "rank " + std::to_string(channel_->rank()); }
  [[nodiscard]] std::string difference(call_description const& theirs, int peer,
                                       std::uint64_t call) const {
    return who() + " calls " + call_id_.operation() + ", call " + std::to_string(call) + ", with " +
           call_id_.difference(theirs, peer);
  }
  [[nodiscard]] peer_state& at(int peer) { return peers_[static_cast<std::size_t>(peer)]; }
  [[nodiscard]] static constexpr std::size_t aligned(std::size_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
  }
  /// Index of the message that is assembled from parts. Indices 0 and 1 are sent in turn, the
  /// following ones received. The parts need separate memory, because two receives may not share
  /// memory.
  static constexpr std::size_t of_parts = 2 + turns;
  [[nodiscard]] static std::size_t place_of_received(peer_state const& of) {
    return 2 + of.calls % turns;
  }
  [[nodiscard]] std::byte* letter(peer_state const& of, std::size_t index) const {
    return of.control.data() + index * message_bytes_;
  }
  [[nodiscard]] bool goes_in_parts(std::size_t bytes) const {
    return bytes > part_ && bytes <= most_parts * part_;
  }
  [[nodiscard]] bool have_left(peer_state& of) {
    bool const first = have_left(of, 0);
    return have_left(of, 1) && first;
  }
  [[nodiscard]] bool have_left(peer_state& of, std::size_t turn) {
    bool all = channel_->is_done(of.sent[turn]);
    for (auto& operation : of.sent_rest[turn]) all = channel_->is_done(operation) && all;
    return all;
  }
  // Posts the receive of one more call, in place of the call four before it, which has ended.
  void await(peer_state& of, int peer) {
    std::size_t const turn = ++of.posted % turns;
    channel_->receive(letter(of, 2 + turn) + flag, message_bytes_ - flag, peer, tag,
                      of.awaited[turn]);
  }

  Channel* channel_;
  detail::host_ranks* here_;
  std::size_t part_;
  std::size_t message_bytes_;
  std::vector<peer_state> peers_;
  call_name mine_;
  call_description call_id_;  // its hash is in `mine_`
};

}}  // namespace blink::BLINK_ABI
