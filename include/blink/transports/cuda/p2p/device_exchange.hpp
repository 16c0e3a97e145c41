// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/exchange.hpp>
#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/transports/cuda/calls/device_collectives.hpp>
#include <blink/transports/cuda/calls/rank_buffers.hpp>
#include <blink/transports/cuda/runtime/copy_pieces.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// The pieces that the ranks of this process list, by pair of ranks. Pieces to and from ranks of
/// other processes are listed separately.
class listed_pieces {
 public:
  using pieces = std::vector<transfers::piece>;

  /// list:   by rank of this process
  /// Throws: precondition_error if a rank's sends do not match the receives of another rank here
  ///         (it names both); for pieces that are null, overlap, name no rank or are on another
  ///         device.
  template <class Ranks>
  listed_pieces(Ranks& all_ranks, std::vector<transfers> const& list)
      : first_(all_ranks.first_rank()),
        ranks_(static_cast<std::size_t>(all_ranks.ranks_here())),
        sent_(ranks_ * ranks_),
        received_(ranks_ * ranks_) {
    if (list.size() != ranks_) {
      throw precondition_error("exchange: lists of " + std::to_string(list.size()) +
                               " ranks, expected " + std::to_string(ranks_));
    }
    transfers all;  // all ranks' pieces are checked together, because ranks may share memory
    for (std::size_t k = 0; k < ranks_; ++k) {
      int const rank = first_ + static_cast<int>(k);
      check_transfers("exchange on rank " + std::to_string(rank), list[k], all_ranks.rank_count());
      for (bool const sends : {true, false}) {
        for (auto const& piece : sends ? list[k].sends() : list[k].receives()) {
          add(rank, sends, piece);
          if (piece.bytes == 0) continue;
          all_ranks.expect_place("exchange", static_cast<std::size_t>(rank),
                                 sends ? "piece that is sent" : "piece that is received",
                                 piece.data);
          auto* const data = static_cast<std::byte*>(piece.data);
          if (sends) all.send(piece.peer, static_cast<std::byte const*>(data), piece.bytes);
          if (!sends) all.receive(piece.peer, data, piece.bytes);
        }
      }
    }
    check_transfers("exchange", all, all_ranks.rank_count());
    for (std::size_t pair = 0; pair < sent_.size(); ++pair) expect_equal(pair);
  }

  /// By sender and receiver, counted from the first rank of this process: `sender * ranks +
  /// receiver`.
  [[nodiscard]] std::vector<pieces> const& sent() const { return sent_; }
  [[nodiscard]] std::vector<pieces> const& received() const { return received_; }
  /// The largest number of pieces that a rank sends to another one here.
  [[nodiscard]] std::size_t rounds() const {
    std::size_t most = 0;
    for (auto const& one : sent_) most = std::max(most, one.size());
    return most;
  }
  [[nodiscard]] std::vector<device_piece> const& distant() const { return distant_; }

 private:
  void add(int rank, bool sends, transfers::piece const& piece) {
    int const own = rank - first_, peer = piece.peer - first_;
    if (peer < 0 || peer >= static_cast<int>(ranks_)) {
      distant_.push_back(
          {rank, piece.peer, sends, static_cast<std::byte*>(piece.data), piece.bytes});
      return;
    }
    auto const from = static_cast<std::size_t>(sends ? own : peer);
    auto const to = static_cast<std::size_t>(sends ? peer : own);
    (sends ? sent_ : received_)[from * ranks_ + to].push_back(piece);
  }
  void expect_equal(std::size_t pair) const {
    auto const rank = [&](std::size_t own) {
      return std::to_string(first_ + static_cast<int>(own)) + " ";
    };
    auto const text = "exchange: rank " + rank(pair / ranks_) + "sends rank " + rank(pair % ranks_);
    auto const &sent = sent_[pair], &received = received_[pair];
    if (sent.size() != received.size()) {
      throw precondition_error(text + std::to_string(sent.size()) + " pieces, which expects " +
                               std::to_string(received.size()));
    }
    for (std::size_t k = 0; k < sent.size(); ++k) {
      if (sent[k].bytes == received[k].bytes) continue;
      throw precondition_error(text + std::to_string(sent[k].bytes) + " bytes as piece " +
                               std::to_string(k) + ", which expects " +
                               std::to_string(received[k].bytes));
    }
  }

  int first_;
  std::size_t ranks_;
  std::vector<pieces> sent_, received_;
  std::vector<device_piece> distant_;
};

}  // namespace detail

/// Runs the sends and receives that all ranks list, all at once. No order of the list can deadlock.
/// The k-th piece that a rank sends to another matches the k-th piece that the other receives from
/// it. All first pieces move in one call, all second pieces in the next.
///
/// trees:  carries an all-to-all
/// list:   by rank, all of this process; in bytes of any types
/// Throws: precondition_error if a rank's sends do not match the other rank's receives (it names
///         both); for pieces that are null, overlap, name no rank or are on another device.
template <device_communicator Ranks, device_schedule_source<Ranks> Source>
void exchange(Ranks& all_ranks, Source&& trees, std::vector<transfers> const& list,
              typename Ranks::streams const& on = {}) {
  expects(all_ranks.ranks_here() == all_ranks.rank_count(),
          "exchange: ranks of several processes, expected one process for an exchange along a "
          "schedule");
  detail::listed_pieces const all(all_ranks, list);
  auto const ranks = list.size();
  std::vector<detail::plain_buffers> buffers(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {  // the lowest address of a rank
    for (auto const& piece : list[rank].sends()) {
      auto& base = buffers[rank].input;
      if (piece.bytes > 0 && (base == nullptr || piece.data < base)) base = piece.data;
    }
    for (auto const& piece : list[rank].receives()) {
      auto& base = buffers[rank].output;
      if (piece.bytes > 0 && (base == nullptr || piece.data < base)) base = piece.data;
    }
  }
  auto const from_base = [](void const* base, void const* at) {
    return static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(at) -
                                    reinterpret_cast<std::uintptr_t>(base));
  };
  for (std::size_t round = 0; round < all.rounds(); ++round) {
    std::vector<block_range> blocks(ranks * ranks);
    std::size_t largest = 0;
    for (std::size_t pair = 0; pair < blocks.size(); ++pair) {
      auto const &sent = all.sent()[pair], &received = all.received()[pair];
      if (round >= sent.size() || sent[round].bytes == 0) continue;
      blocks[pair] = {from_base(buffers[pair / ranks].input, sent[round].data),
                      from_base(buffers[pair % ranks].output, received[round].data),
                      sent[round].bytes};
      largest = std::max(largest, sent[round].bytes);
    }
    auto const chosen = detail::choose_on(all_ranks, trees, collective::all_to_all, largest, 1);
    all_ranks.move_blocks(*chosen.prepared, buffers, blocks, on);
  }
}

/// A communicator whose ranks also send to ranks of other processes, and receive from them.
template <class W>
concept pairing_communicator =
    device_communicator<W> &&
    requires(W& all_ranks, std::vector<piece_copy> const& copies,
             std::vector<device_piece> const& pieces,
             typename W::streams const& on) { all_ranks.send_and_receive(copies, pieces, on); };

/// Runs the sends and receives without a schedule, for ranks of any processes, as
/// `Ranks::send_and_receive` does. For devices of one host, copy engines copy pieces within this
/// process. Other pieces go over connections between their two ranks; only these ranks need to
/// call, after `prepare_pairs`. Over NCCL all pieces go as one group.
///
/// list:   by rank of this process
/// Throws: as above, but not for disagreements between ranks of different processes; what
///         `send_and_receive` throws.
template <pairing_communicator Ranks>
void exchange(Ranks& all_ranks, std::vector<transfers> const& list,
              typename Ranks::streams const& on = {}) {
  detail::listed_pieces const all(all_ranks, list);
  auto const ranks = list.size();
  std::vector<piece_copy> copies;
  for (std::size_t pair = 0; pair < all.sent().size(); ++pair) {
    for (std::size_t k = 0; k < all.sent()[pair].size(); ++k) {
      auto const& sent = all.sent()[pair][k];
      if (sent.bytes == 0) continue;
      copies.push_back({all_ranks.first_rank() + static_cast<int>(pair / ranks),
                        all_ranks.first_rank() + static_cast<int>(pair % ranks), sent.data,
                        all.received()[pair][k].data, sent.bytes});
    }
  }
  all_ranks.send_and_receive(copies, all.distant(), on);
}

}}  // namespace blink::BLINK_ABI
