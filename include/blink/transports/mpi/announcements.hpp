// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/call_signature.hpp>
#include <blink/config.hpp>
#include <blink/transports/memory_source.hpp>
#include <blink/transports/mpi/channel.hpp>
#include <blink/transports/shown_bytes.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace blink::inline BLINK_ABI {

/// What ranks of an MPI communicator tell each other about the calls that they enter: one letter from each rank to each
/// of its neighbours, with what it shows of its input.
///
/// A rank ends a call only when all its neighbours have announced theirs. So a neighbour is at most one call ahead, and two
/// receives in turn are enough for each, however far the buffers of the library reach. The next receive is posted when a call
/// has been announced, while that travels: a neighbour that is a call ahead already may have the library keep its letter.
///
/// What is called is told once, by a fingerprint afterwards, and by one byte if it is what was called before: 8 bytes
/// travel with it within one half of a cache line where the library (Open MPI) copies short messages. What is as before
/// and longer than the library sends at once goes in two or three messages that it does send at once (`eager_bytes_of`).
class mpi_announcements {
 public:
  static constexpr int tag = 1;
  static constexpr int rest_tag = 2;            ///< of the second and the third part of a letter
  static constexpr std::size_t alignment = 32;  ///< of what is shown
  static constexpr std::size_t signatures_kept = 8;

  /// most_shown: bytes of an input that a letter has room for
  /// part:       bytes of the parts in which letters go that are longer, but not longer than three parts; 0: none
  mpi_announcements(mpi_channel& channel, std::size_t most_shown, std::size_t part)
      : channel_(&channel),
        part_(part),
        letter_bytes_(aligned(data_of_new + most_shown) + aligned(sizeof(call_signature))),
        peers_(static_cast<std::size_t>(channel.rank_count())) {}

  /// What is announced from now on.
  ///
  /// wires: where the tags of the schedule begin
  void begin(call_signature const& signature, int wires) {
    auto const fingerprint = signature.fingerprint();
    if (fingerprint != mine_.fingerprint) signature_ = signature;
    mine_ = {fingerprint, static_cast<std::uint64_t>(wires)};
  }
  /// Announces that to a neighbour.
  void send(int peer, shown_bytes const& shown) {
    auto& of = at(peer);
    if (of.letters.size() == 0) {
      of.letters = {memory_source{}, 4 * letter_bytes_ + aligned(flag + most_parts * part_)};
      await(of, peer, 1);  // for the first call
      await(of, peer, 0);
    }
    ++of.calls;
    of.is_present = false;
    std::size_t const turn = of.calls % 2;
    // Complete, as the peer has answered it; the library may need a moment to see it.
    while (channel_->is_intact() && !have_left(of, turn)) {
    }
    auto* const to = letter(of, turn);
    bool const is_told = of.called_by_this == mine_;
    std::size_t const data = is_told ? data_of_told : data_of_new;
    to[flag] = std::byte{is_told};
    if (shown.count > 0) std::memcpy(to + data, shown.for_rank(peer), shown.count);
    std::size_t bytes = data + shown.count - flag;
    if (!is_told) {
      heading const head{mine_, shown.count, !has_sent_signature(of)};
      std::memcpy(to + data_of_told, &head, sizeof(head));
      of.called_by_this = mine_;
      if (head.has_signature != 0) {
        std::size_t const end = aligned(data + shown.count);
        std::memcpy(to + end, &signature_, sizeof(signature_));
        bytes = end + sizeof(signature_) - flag;
        of.sent_signatures[of.signatures_sent++ % signatures_kept] = mine_.fingerprint;
      }
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
  /// While what was sent travels: what the next call needs. What neighbours showed in the call before is gone.
  void await_next(int peer) {
    auto& of = at(peer);
    std::size_t const turn = of.calls % 2;
    static_cast<void>(have_left(of, turn));
    of.comes_in_parts = of.called_by_peer == mine_ && goes_in_parts(1 + of.shown);
    for (std::size_t k = 0; of.comes_in_parts && part_ * (k + 1) < 1 + of.shown; ++k) {
      channel_->receive(letter(of, 4) + flag + part_ * (k + 1), part_, peer, rest_tag,
                        of.awaited_rest[k]);
    }
    if (of.awaited[1 - turn] == MPI_REQUEST_NULL) await(of, peer, 1 - turn);
  }

  /// Has `peer` announced this call, and the same as this rank?
  [[nodiscard]] bool is_present(int peer) const {
    return peers_[static_cast<std::size_t>(peer)].is_present;
  }
  /// Has a letter come from one that was not present?
  [[nodiscard]] bool has_come(int peer) {
    auto& of = at(peer);
    return of.calls > 0 && channel_->is_done(of.awaited[of.calls % 2]);
  }
  /// Reads a letter that has come, or the first part of it.
  ///
  /// call:    its number, for the text
  /// Returns: in which way the peer calls something else; empty: it is present when all parts have come.
  [[nodiscard]] std::string read(int peer, std::uint64_t call) {
    auto& of = at(peer);
    auto const* const from = letter(of, 2 + of.calls % 2);
    if (from[flag] == std::byte{0}) {
      heading head;
      std::memcpy(&head, from + data_of_told, sizeof(head));
      of.called_by_peer = head.called;
      of.shown = head.shown;
      if (head.has_signature != 0) {
        auto& next = of.signatures[of.signatures_received++ % signatures_kept];
        std::memcpy(&next, from + aligned(data_of_new + head.shown), sizeof(next));
      }
    }
    auto const who = [&] { return "rank " + std::to_string(channel_->rank()); };
    if (of.called_by_peer.fingerprint != mine_.fingerprint) {
      return who() + " calls " + signature_.operation() + ", call " + std::to_string(call) +
             ", with " +
             signature_.difference(received_signature(of, of.called_by_peer.fingerprint), peer);
    }
    if (of.called_by_peer.wires != mine_.wires) {
      return who() + " and rank " + std::to_string(peer) +
             " prepared their schedules in different orders";
    }
    of.is_present = true;
    for (auto& request : of.awaited_rest) {
      of.is_present = channel_->is_done(request) && of.is_present;
    }
    if (of.is_present && of.comes_in_parts) std::memcpy(letter(of, 4) + flag, from + flag, part_);
    return {};
  }
  /// What a present neighbour has shown, aligned to `alignment`; until the next call.
  [[nodiscard]] std::byte const* shown_by(int peer) const {
    auto const& of = peers_[static_cast<std::size_t>(peer)];
    auto const* const from = letter(of, of.comes_in_parts ? 4 : 2 + of.calls % 2);
    return from + (from[flag] == std::byte{0} ? data_of_new : data_of_told);
  }

  /// Have all letters of this rank left?
  [[nodiscard]] bool have_left() {
    bool all = true;
    for (auto& of : peers_) {
      all = have_left(of, 0) && all;
      all = have_left(of, 1) && all;
    }
    return all;
  }
  /// Takes back what waits for letters that will not come.
  void close() {
    for (auto& of : peers_) {
      for (auto& request : of.awaited) channel_->take_back(request);
      for (auto& request : of.awaited_rest) channel_->take_back(request);
    }
  }

 private:
  struct call_name {
    std::uint64_t fingerprint = 0;
    std::uint64_t wires = 0;
    bool operator==(call_name const&) const = default;
  };
  /// Of a letter that calls something else than the one before.
  struct heading {
    call_name called;
    std::uint64_t shown = 0;  // bytes
    std::uint64_t has_signature = 0;
  };
  // Places within a letter, which begins with a byte that says whether there is no heading. Behind what is shown comes
  // the signature, if the peer does not know it.
  static constexpr std::size_t flag = alignment - 1;
  static constexpr std::size_t data_of_told = alignment;
  static constexpr std::size_t data_of_new = alignment + sizeof(heading);
  static_assert(data_of_new % alignment == 0);

  static constexpr std::size_t most_parts = 3;
  using two_requests = std::array<MPI_Request, 2>;
  static constexpr two_requests none{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  struct peer_state {
    memory_block letters;
    two_requests sent = none;     // by turn
    two_requests awaited = none;  // by turn
    std::array<two_requests, 2> sent_rest{none, none};
    two_requests awaited_rest = none;  // of this call
    std::uint64_t calls = 0;           // that the two have announced to each other
    call_name called_by_this;          // last
    call_name called_by_peer;
    std::size_t shown = 0;  // by the peer then
    // The signatures that were sent and received last, in turn: programs call a few in turn.
    std::array<std::uint64_t, signatures_kept> sent_signatures{};  // fingerprints
    std::array<call_signature, signatures_kept> signatures{};
    std::size_t signatures_sent = 0;
    std::size_t signatures_received = 0;
    bool comes_in_parts = false;  // in this call
    bool is_present = false;
  };

  [[nodiscard]] peer_state& at(int peer) { return peers_[static_cast<std::size_t>(peer)]; }
  [[nodiscard]] static constexpr std::size_t aligned(std::size_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
  }
  /// Letters 0 and 1 are to be sent in turn, 2 and 3 received; 4 is put together from parts, as two receives may not
  /// share memory.
  [[nodiscard]] std::byte* letter(peer_state const& of, std::size_t index) const {
    return of.letters.data() + index * letter_bytes_;
  }
  [[nodiscard]] bool goes_in_parts(std::size_t bytes) const {
    return bytes > part_ && bytes <= most_parts * part_;
  }
  [[nodiscard]] bool have_left(peer_state& of, std::size_t turn) {
    bool all = channel_->is_done(of.sent[turn]);
    for (auto& request : of.sent_rest[turn]) all = channel_->is_done(request) && all;
    return all;
  }
  void await(peer_state& of, int peer, std::size_t turn) {
    channel_->receive(letter(of, 2 + turn) + flag, letter_bytes_ - flag, peer, tag,
                      of.awaited[turn]);
  }
  /// Does the peer know the signature of this call?
  [[nodiscard]] bool has_sent_signature(peer_state const& of) const {
    for (auto const known : of.sent_signatures) {
      if (known == mine_.fingerprint) return true;
    }
    return false;
  }
  /// What the peer has sent under that fingerprint: it forgets in the same order.
  [[nodiscard]] static call_signature received_signature(peer_state const& of,
                                                         std::uint64_t fingerprint) {
    for (auto const& known : of.signatures) {
      if (known.fingerprint() == fingerprint) return known;
    }
    return {};
  }

  mpi_channel* channel_;
  std::size_t part_;
  std::size_t letter_bytes_;
  std::vector<peer_state> peers_;
  call_name mine_;
  call_signature signature_;  // whose fingerprint stands in `mine_`
};

}  // namespace blink::inline BLINK_ABI
