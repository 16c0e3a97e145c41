// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/call/call_description.hpp>
#include <blink/running/call/eager_payload.hpp>
#include <blink/running/connections/memory_source.hpp>
#include <blink/transports/mpi/channel.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// What ranks of an MPI communicator tell each other about the calls that they enter: one message from each rank to each
/// of its neighbours, with what it shows of its input.
///
/// A rank ends a call only when all its neighbours have announced theirs. So a neighbour is at most one call ahead, and the
/// receive for the next call is posted when a call has been announced, at the latest: a rank that waits for its neighbours
/// posts those for two calls more, so that one that comes last has nothing to post.
///
/// What is called is reported once, and by one byte if it is one of the eight that were reported last: 8 bytes
/// travel with it within one half of a cache line where the library (Open MPI) copies short messages. What was reported
/// and is longer than the library sends at once goes in two or three messages that it does send at once (`eager_bytes_of`).
class mpi_announcements {
 public:
  static constexpr int tag = 0;
  static constexpr int rest_tag = 1;            ///< of the second and the third part of a message
  static constexpr std::size_t alignment = 32;  ///< of what is shown
  static constexpr std::size_t calls_kept = 8;

  /// channel:    over which nothing else goes: libraries look through all receives that wait for messages of a rank
  /// eager_limit: bytes of an input that a message has room for
  /// part:       bytes of the parts in which messages go that are longer, but not longer than three parts; 0: none
  mpi_announcements(mpi_channel& channel, std::size_t eager_limit, std::size_t part)
      : channel_(&channel),
        part_(part),
        message_bytes_(aligned(data_of_new + eager_limit) + aligned(sizeof(call_description))),
        peers_(static_cast<std::size_t>(channel.rank_count())) {}

  /// What is announced from now on.
  ///
  /// wires: where the tags of the schedule begin
  void begin(call_record const& record, int connections) {
    auto const hash = record.parameters.hash();
    if (hash != mine_.hash) call_id_ = record.call_id();
    mine_ = {hash, connections};
  }
  /// Announces that to a neighbour.
  void send(int peer, eager_payload const& eager) {
    auto& of = at(peer);
    if (of.control.size() == 0) {
      of.control = {memory_source{},
                    of_parts * message_bytes_ + aligned(flag + most_parts * part_)};
      await(of, peer);
    }
    ++of.calls;
    of.is_present = false;
    std::size_t const turn = of.calls % 2;
    // Complete, as the peer has answered it; the library may need a moment to see it.
    while (channel_->is_intact() && !have_left(of, turn)) {
    }
    auto* const to = letter(of, turn);
    std::size_t const known = place_of(of.reported, mine_);
    bool const is_reported = known < calls_kept;
    std::size_t const data = is_reported ? data_of_reported : data_of_new;
    to[flag] = static_cast<std::byte>(is_reported ? 1 + known : 0);
    if (eager.count > 0) std::memcpy(to + data, eager.for_rank(peer), eager.count);
    std::size_t bytes = data + eager.count - flag;
    if (!is_reported) {
      of.reported.add(mine_);
      heading const head{mine_, eager.count};
      std::memcpy(to + data_of_reported, &head, sizeof(head));
      std::size_t const end = aligned(data + eager.count);
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
  /// While what was sent travels: receives for this call and for the next one.
  void await_next(int peer) {
    auto& of = at(peer);
    std::size_t const known = place_of(of.heard, mine_);
    std::size_t const eager = known < calls_kept ? of.eager[known] : 0;
    of.comes_in_parts = goes_in_parts(1 + eager);
    for (std::size_t k = 0; of.comes_in_parts && part_ * (k + 1) < 1 + eager; ++k) {
      channel_->receive(letter(of, of_parts) + flag + part_ * (k + 1), part_, peer, rest_tag,
                        of.awaited_rest[k]);
    }
    if (of.posted <= of.calls) await(of, peer);
    static_cast<void>(have_left(of, (of.calls + 1) % 2));  // so that the next call need not ask
  }

  /// Has `peer` announced this call, and the same as this rank?
  [[nodiscard]] bool is_present(int peer) const {
    return peers_[static_cast<std::size_t>(peer)].is_present;
  }
  /// Has a message come from one that was not present? If not there is time for what later calls need.
  [[nodiscard]] bool has_arrived_at(int peer) {
    auto& of = at(peer);
    if (of.calls == 0) return false;
    if (channel_->is_done(of.awaited[of.calls % turns])) return true;
    if (of.posted + 1 < of.calls + turns) await(of, peer);
    static_cast<void>(have_left(of, of.calls % 2));
    return false;
  }
  /// Looks at a message that has come: is the peer present, as nearly always, without reading more of it?
  [[nodiscard]] bool is_present_at_once(int peer) {
    auto& of = at(peer);
    if (of.comes_in_parts) return false;
    std::size_t const known = named_in(letter(of, place_of_received(of)));
    of.is_present = known < calls_kept && of.heard.names[known] == mine_;
    return of.is_present;
  }
  /// Reads a message that has come, or the first part of it.
  ///
  /// call:    its number, for the text
  /// Returns: in which way the peer calls something else; empty: it is present when all parts have come.
  [[nodiscard]] std::string read(int peer, std::uint64_t call) {
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
      for (auto& request : of.awaited_rest) {
        of.is_present = channel_->is_done(request) && of.is_present;
      }
      if (of.is_present && of.comes_in_parts) {
        std::memcpy(letter(of, of_parts) + flag, from + flag, part_);
      }
      return {};
    }
    auto const who = "rank " + std::to_string(channel_->rank());
    if (called.hash != mine_.hash) {
      return who + " calls " + call_id_.operation() + ", call " + std::to_string(call) + ", with " +
             call_id_.difference(of.call_ids[known], peer);
    }
    return who + " and rank " + std::to_string(peer) +
           " prepared their schedules in different orders";
  }
  /// What a present neighbour has shown, aligned to `alignment`; until the next call.
  [[nodiscard]] std::byte const* eager_data_of(int peer) const {
    auto const& of = peers_[static_cast<std::size_t>(peer)];
    auto const* const from = letter(of, of.comes_in_parts ? of_parts : place_of_received(of));
    return from + (from[flag] == std::byte{0} ? data_of_new : data_of_reported);
  }

  /// Have all messages of this rank left?
  [[nodiscard]] bool have_left() {
    bool all = true;
    for (auto& of : peers_) {
      all = have_left(of, 0) && all;
      all = have_left(of, 1) && all;
    }
    return all;
  }
  /// Takes back what waits for messages that will not come.
  void close() {
    for (auto& of : peers_) {
      for (auto& request : of.awaited) channel_->take_back(request);
      for (auto& request : of.awaited_rest) channel_->take_back(request);
    }
  }

 private:
  struct call_name {
    std::uint64_t hash = 0;
    std::int64_t connections = 0;
    bool operator==(call_name const&) const = default;
  };
  /// The calls that were reported last, in turn: programs call a few in turn. Both ends of a message keep the same.
  struct last_calls {
    std::array<call_name, calls_kept> names{};
    std::size_t added = 0;
    std::size_t found = 0;  // last: likely again

    std::size_t add(call_name const& name) {
      found = added++ % calls_kept;
      names[found] = name;
      return found;
    }
  };
  /// `calls_kept` if it is none of them.
  [[nodiscard]] static std::size_t place_of(last_calls& calls, call_name const& name) {
    if (calls.names[calls.found] == name) return calls.found;
    for (std::size_t k = 0; k < calls_kept; ++k) {
      if (calls.names[k] == name) return calls.found = k;
    }
    return calls_kept;
  }
  /// Of a message that calls what was not reported.
  struct alignas(alignment) heading {
    call_name called;
    std::uint64_t eager = 0;  // bytes
  };
  // Places within a message, which begins with a byte: 0, and a heading follows, and behind what is shown the signature; or
  // 1 and the place of the call among the last ones.
  static constexpr std::size_t flag = alignment - 1;
  /// The place of the call; none of the last ones if a heading follows.
  [[nodiscard]] static std::size_t named_in(std::byte const* letter) {
    return static_cast<std::size_t>(letter[flag]) - 1;
  }
  static constexpr std::size_t data_of_reported = alignment;
  static constexpr std::size_t data_of_new = alignment + sizeof(heading);
  static_assert(data_of_new % alignment == 0);

  static constexpr std::size_t turns = 4;  // receives in turn
  static constexpr std::size_t most_parts = 3;
  using two_requests = std::array<MPI_Request, 2>;
  [[nodiscard]] static two_requests none() { return {MPI_REQUEST_NULL, MPI_REQUEST_NULL}; }
  struct peer_state {
    memory_block control;
    two_requests sent = none();  // by turn
    std::array<MPI_Request, turns> awaited{MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL,
                                           MPI_REQUEST_NULL};
    std::array<two_requests, 2> sent_rest{none(), none()};
    two_requests awaited_rest = none();           // of this call
    std::uint64_t calls = 0;                      // that the two have announced to each other
    std::uint64_t posted = 0;                     // receives, one for each call
    last_calls reported;                          // by this rank
    last_calls heard;                             // from the peer
    std::array<std::size_t, calls_kept> eager{};  // bytes, by the peer in these
    std::array<call_description, calls_kept> call_ids{};
    bool comes_in_parts = false;  // in this call
    bool is_present = false;
  };

  [[nodiscard]] peer_state& at(int peer) { return peers_[static_cast<std::size_t>(peer)]; }
  [[nodiscard]] static constexpr std::size_t aligned(std::size_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
  }
  /// Letters 0 and 1 are to be sent in turn, the next ones received; one is put together from parts, as two receives may
  /// not share memory.
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
  [[nodiscard]] bool have_left(peer_state& of, std::size_t turn) {
    bool all = channel_->is_done(of.sent[turn]);
    for (auto& request : of.sent_rest[turn]) all = channel_->is_done(request) && all;
    return all;
  }
  // One call more, in the place of the call four before it, which has ended.
  void await(peer_state& of, int peer) {
    std::size_t const turn = ++of.posted % turns;
    channel_->receive(letter(of, 2 + turn) + flag, message_bytes_ - flag, peer, tag,
                      of.awaited[turn]);
  }

  mpi_channel* channel_;
  std::size_t part_;
  std::size_t message_bytes_;
  std::vector<peer_state> peers_;
  call_name mine_;
  call_description call_id_;  // whose hash stands in `mine_`
};

}}  // namespace blink::BLINK_ABI
