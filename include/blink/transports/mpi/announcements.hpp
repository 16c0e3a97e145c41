// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/call_signature.hpp>
#include <blink/config.hpp>
#include <blink/transports/memory_source.hpp>
#include <blink/transports/mpi/channel.hpp>
#include <blink/transports/shown_bytes.hpp>

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
/// receives in turn are enough for each, however far the buffers of the library reach. What is called is told once, and
/// by a fingerprint afterwards.
class mpi_announcements {
 public:
  static constexpr int tag = 1;
  static constexpr std::size_t alignment = 32;  ///< of what is shown
  static constexpr std::size_t signatures_kept = 8;

  /// most_shown: bytes of an input that a letter has room for
  mpi_announcements(mpi_channel& channel, std::size_t most_shown)
      : channel_(&channel),
        letter_bytes_(aligned(sizeof(heading) + most_shown) + aligned(sizeof(call_signature))),
        peers_(static_cast<std::size_t>(channel.rank_count())) {}

  /// What is announced from now on.
  ///
  /// wires: where the tags of the schedule begin
  void begin(call_signature const& signature, int wires) {
    auto const fingerprint = signature.fingerprint();
    if (fingerprint != mine_.fingerprint) signature_ = signature;
    mine_ = {fingerprint, static_cast<std::uint32_t>(wires), false, 0};
  }
  /// Announces that to a neighbour.
  void send(int peer, shown_bytes const& shown) {
    auto& of = at(peer);
    if (of.letters.size() == 0) {
      of.letters = {memory_source{}, 4 * letter_bytes_};
      await(of, peer, 1);  // for the first call
      await(of, peer, 0);
    }
    ++of.calls;
    of.is_present = false;
    std::size_t const turn = of.calls % 2;
    // Complete, as the peer has answered it; the library may need a moment to see it.
    while (channel_->is_intact() && !channel_->is_done(of.sent[turn])) {
    }
    auto* const to = letter(of, turn);
    auto head = mine_;
    head.shown = shown.count;
    std::size_t bytes = sizeof(heading) + shown.count;
    if (shown.count > 0) std::memcpy(to + sizeof(heading), shown.for_rank(peer), shown.count);
    if (!has_sent_signature(of)) {
      head.has_signature = 1;
      std::memcpy(to + aligned(bytes), &signature_, sizeof(signature_));
      bytes = aligned(bytes) + sizeof(signature_);
      of.sent_signatures[of.signatures_sent++ % signatures_kept] = mine_.fingerprint;
    }
    std::memcpy(to, &head, sizeof(head));
    channel_->send(to, bytes, peer, tag, of.sent[turn]);
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
  /// Reads a letter that has come.
  ///
  /// call:    its number, for the text
  /// Returns: in which way the peer calls something else; empty: it is present.
  [[nodiscard]] std::string read(int peer, std::uint64_t call) {
    auto& of = at(peer);
    auto const* const from = letter(of, 2 + of.calls % 2);
    heading head;
    std::memcpy(&head, from, sizeof(head));
    if (head.has_signature != 0) {
      auto& next = of.signatures[of.signatures_received++ % signatures_kept];
      std::memcpy(&next, from + aligned(sizeof(heading) + head.shown), sizeof(next));
    }
    auto const who = [&] { return "rank " + std::to_string(channel_->rank()); };
    if (head.fingerprint != mine_.fingerprint) {
      return who() + " calls " + signature_.operation() + ", call " + std::to_string(call) +
             ", with " + signature_.difference(received_signature(of, head.fingerprint), peer);
    }
    if (head.wires != mine_.wires) {
      return who() + " and rank " + std::to_string(peer) +
             " prepared their schedules in different orders";
    }
    of.is_present = true;
    return {};
  }
  /// What a present neighbour has shown, aligned to `alignment`; until `await_next`.
  [[nodiscard]] std::byte const* shown_by(int peer) const {
    auto const& of = peers_[static_cast<std::size_t>(peer)];
    return letter(of, 2 + of.calls % 2) + sizeof(heading);
  }
  /// The letter of a present neighbour is needed no more: the next but one may come.
  void await_next(int peer) {
    auto& of = at(peer);
    await(of, peer, of.calls % 2);
  }

  /// Have all letters of this rank left?
  [[nodiscard]] bool have_left() {
    bool all = true;
    for (auto& of : peers_) {
      for (auto& request : of.sent) all = channel_->is_done(request) && all;
    }
    return all;
  }
  /// Takes back what waits for letters that will not come.
  void close() {
    for (auto& of : peers_) {
      for (auto& request : of.awaited) channel_->take_back(request);
    }
  }

 private:
  /// What a letter begins with. Then comes what is shown, and then the signature if the peer does not know it.
  struct alignas(alignment) heading {
    std::uint64_t fingerprint = 0;
    std::uint32_t wires = 0;
    std::uint32_t has_signature = 0;
    std::uint64_t shown = 0;  // bytes
  };
  struct peer_state {
    memory_block letters;
    std::array<MPI_Request, 2> sent{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    std::array<MPI_Request, 2> awaited{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    std::uint64_t calls = 0;  // that the two have announced to each other
    // The signatures that were sent and received last, in turn: programs call a few in turn.
    std::array<std::uint64_t, signatures_kept> sent_signatures{};  // fingerprints
    std::array<call_signature, signatures_kept> signatures{};
    std::size_t signatures_sent = 0;
    std::size_t signatures_received = 0;
    bool is_present = false;
  };

  [[nodiscard]] peer_state& at(int peer) { return peers_[static_cast<std::size_t>(peer)]; }
  [[nodiscard]] static constexpr std::size_t aligned(std::size_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
  }
  /// Letters 0 and 1 are to be sent in turn, 2 and 3 received.
  [[nodiscard]] std::byte* letter(peer_state const& of, std::size_t index) const {
    return of.letters.data() + index * letter_bytes_;
  }
  void await(peer_state& of, int peer, std::size_t turn) {
    channel_->receive(letter(of, 2 + turn), letter_bytes_, peer, tag, of.awaited[turn]);
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
  std::size_t letter_bytes_;
  std::vector<peer_state> peers_;
  heading mine_;
  call_signature signature_;  // whose fingerprint stands in `mine_`
};

}  // namespace blink::inline BLINK_ABI
