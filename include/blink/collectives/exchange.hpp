// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/detail/memory_range.hpp>
#include <blink/collectives/detail/unequal_flows.hpp>
#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/detail/hash.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/running/call/detail/call_steps.hpp>
#include <blink/running/call/detail/call_types.hpp>
#include <blink/running/call/detail/check_buffers.hpp>
#include <blink/running/call/detail/collective_call.hpp>
#include <blink/running/call/schedule_source.hpp>
#include <blink/running/connections/memory_source.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/schedule/block.hpp>
#include <blink/schedule/chunking.hpp>
#include <blink/schedule/schedule.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The pieces that one rank sends to peers and receives from them, all at once.
///
/// No piece waits for another piece of the list, in whatever order they are listed. The k-th piece
/// that a rank sends to a peer is the k-th that the peer receives from it, with the same type. A
/// list may hold pieces of several types.
class transfers {
 public:
  /// Lists `count` elements that go to `peer`.
  ///
  /// Throws: precondition_error if their bytes overflow an address.
  template <class T>
  void send(int peer, T const* data, std::size_t count) {
    sends_.push_back({peer, const_cast<T*>(data), bytes_of<T>(count), type_of<T>()});
  }
  /// Lists `count` elements that come from `peer`.
  ///
  /// Throws: precondition_error if their bytes overflow an address.
  template <class T>
  void receive(int peer, T* data, std::size_t count) {
    receives_.push_back({peer, data, bytes_of<T>(count), type_of<T>()});
  }
  void clear() {
    sends_.clear();
    receives_.clear();
  }

  /// One piece of the list.
  struct piece {
    int peer;
    void* data;
    std::size_t bytes;
    std::uint64_t type;  ///< of its elements; ranks compare it
  };
  [[nodiscard]] std::vector<piece> const& sends() const { return sends_; }
  [[nodiscard]] std::vector<piece> const& receives() const { return receives_; }

 private:
  template <class T>
  static std::size_t bytes_of(std::size_t count) {
    static_assert(std::is_trivially_copyable_v<T>,
                  "transfers: expected elements of a trivially copyable type");
    if (count > std::numeric_limits<std::size_t>::max() / 2 / sizeof(T)) {
      throw precondition_error("transfers: count " + std::to_string(count) + " times " +
                               std::to_string(sizeof(T)) +
                               " bytes overflows an address, expected less");
    }
    return count * sizeof(T);
  }
  template <class T>
  static std::uint64_t type_of() {
    return detail::hash_of_types<std::remove_cv_t<T>>();
  }

  std::vector<piece> sends_, receives_;
};

namespace detail {

/// Checks the pieces of a rank.
///
/// Throws: precondition_error if a piece is null or names no rank, or a piece that is written
///         overlaps another.
inline void check_transfers(std::string const& name, transfers const& list, int rank_count) {
  std::vector<memory_range> ranges;
  for (bool const is_written : {false, true}) {
    for (auto const& piece : is_written ? list.receives() : list.sends()) {
      auto const verb = is_written ? ": receives from rank " : ": sends to rank ";
      if (piece.peer < 0 || piece.peer >= rank_count) {
        throw precondition_error(name + verb + std::to_string(piece.peer) + " of " +
                                 std::to_string(rank_count) + " ranks, expected a rank of them");
      }
      if (piece.bytes == 0) continue;
      if (piece.data == nullptr) {
        throw precondition_error(name + verb + std::to_string(piece.peer) +
                                 ", a piece is null, expected elements");
      }
      ranges.emplace_back(piece.data, piece.bytes, is_written);
    }
  }
  if (overlap_where_written(std::move(ranges))) {
    throw precondition_error(name +
                             ": a received piece overlaps another piece, expected separate pieces");
  }
}

/// The pieces of a rank as one segment for each peer. Several pieces for one peer are copied
/// through `memory`.
class joined_pieces {
 public:
  joined_pieces(std::vector<transfers::piece> pieces, int rank_count, memory_source const& memory)
      : blocks(static_cast<std::size_t>(rank_count)),
        hashes(static_cast<std::size_t>(rank_count)),
        pieces_(std::move(pieces)),
        memory_(memory) {
    std::vector<hash> kinds(blocks.size());
    std::vector<std::size_t> pieces_of(blocks.size(), 0);
    for (auto const& piece : pieces_) {
      auto const peer = static_cast<std::size_t>(piece.peer);
      blocks[peer].count += piece.bytes;
      kinds[peer].add(std::uint64_t{piece.bytes});
      kinds[peer].add(piece.type);
      if (piece.bytes > 0) ++pieces_of[peer];
    }
    std::size_t joined = 0;
    for (std::size_t peer = 0; peer < blocks.size(); ++peer) {
      hashes[peer] = kinds[peer].value();
      if (pieces_of[peer] > 1) joined += blocks[peer].count;
    }
    auto* next = joined == 0 ? nullptr : memory_.at_least(joined);
    at_.resize(blocks.size(), nullptr);
    is_joined_.resize(blocks.size(), false);
    for (std::size_t peer = 0; peer < blocks.size(); ++peer) {
      if (pieces_of[peer] < 2) continue;
      at_[peer] = next;
      is_joined_[peer] = true;
      next += blocks[peer].count;
    }
    for (auto const& piece : pieces_) {
      auto const peer = static_cast<std::size_t>(piece.peer);
      if (piece.bytes > 0 && !is_joined_[peer]) at_[peer] = static_cast<std::byte*>(piece.data);
    }
    // Segments have their begins relative to the lowest address.
    for (auto* const at : at_) {
      if (at != nullptr && (base == nullptr || at < base)) base = at;
    }
    for (std::size_t peer = 0; peer < blocks.size(); ++peer) {
      if (at_[peer] == nullptr) continue;
      blocks[peer].begin = static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(at_[peer]) -
                                                    reinterpret_cast<std::uintptr_t>(base));
    }
  }

  /// Copies the pieces into their joined memory, or back.
  void copy(bool to_pieces) const {
    auto next = at_;
    for (auto const& piece : pieces_) {
      auto const peer = static_cast<std::size_t>(piece.peer);
      if (piece.bytes == 0 || !is_joined_[peer]) continue;
      if (to_pieces) {
        std::memcpy(piece.data, next[peer], piece.bytes);
      } else {
        std::memcpy(next[peer], piece.data, piece.bytes);
      }
      next[peer] += piece.bytes;
    }
  }

  std::vector<block> blocks;          ///< by peer, in bytes from `base`
  std::vector<std::uint64_t> hashes;  ///< by peer, of the sizes and types of the pieces
  std::byte* base = nullptr;

 private:
  std::vector<transfers::piece> pieces_;
  std::vector<std::byte*> at_;  // by peer
  std::vector<bool> is_joined_;
  scratch memory_;
};

/// An exchange. It is not movable.
template <communicator Comm>
class exchange_call final : public flow_call<scheduled_chunks, Comm, std::byte> {
 public:
  exchange_call(Comm& comm, prepared_schedule& prepared, transfers const& list)
      : exchange_call(comm, prepared, join(comm, prepared, list)) {}

 private:
  struct joined_transfers {
    joined_pieces out, in;
  };

  exchange_call(Comm& comm, prepared_schedule& prepared, joined_transfers&& list)
      : flow_call<scheduled_chunks, Comm, std::byte>(
            comm, prepared, "exchange, in bytes",
            {list.out.blocks, list.in.blocks, list.out.hashes, list.in.hashes}),
        list_(std::move(list)) {}

  [[nodiscard]] static joined_transfers join(Comm& comm, prepared_schedule const& prepared,
                                             transfers const& list) {
    prepared.expect_carries(collective::all_to_all);
    check_transfers("exchange on rank " + std::to_string(comm.rank()), list, comm.rank_count());
    auto const reached = [&](std::vector<transfers::piece> pieces, char const* which) {
      for (auto& piece : pieces) {
        expect_reachable(comm, piece.data, piece.bytes, "exchange", which);
        piece.data = shared_place(comm, piece.data);  // peers know only distances in it
      }
      return pieces;
    };
    return {
        {reached(list.sends(), "a piece that it sends"), comm.rank_count(), prepared.call_memory()},
        {reached(list.receives(), "a piece that it receives"), comm.rank_count(),
         prepared.call_memory()}};
  }

  [[nodiscard]] call_buffers<std::byte> buffers() override {
    list_.out.copy(false);
    return {list_.out.base, list_.in.base};
  }
  void end() override { list_.in.copy(true); }

  joined_transfers list_;
};

}  // namespace detail

/// Sends and receives all pieces that the ranks have listed, at once.
///
/// No order of sends and receives can block. Every rank of the communicator calls it, even with
/// nothing to send or receive. A part of a `split` is a separate communicator: only its ranks call.
///
/// trees:  carries an all-to-all
/// Moves:  first sizes, then each piece over the trees from its sender to its receiver. A single
///         piece for a peer is sent without a copy, several are copied together first.
/// Throws: precondition_error if the schedule does not carry an all-to-all or if the communicator's
///         group has several threads; precondition_error for pieces that are null, overlap or name
///         no rank; precondition_error on all ranks if the pieces of a sender are not those of its
///         receiver; collective_error, on every rank, if a rank does not enter the call, makes no
///         progress until the deadline, or calls something else.
template <communicator Comm>
void exchange(Comm& comm, prepared_schedule& prepared, transfers const& list) {
  detail::exchange_call<Comm> call(comm, prepared, list);
  detail::run_to_end(comm, collective::all_to_all, call);
}

/// The same along a schedule that is prepared first, unless the communicator already has it.
template <communicator Comm>
void exchange(Comm& comm, schedule const& source, transfers const& list) {
  exchange(comm, comm.prepare(source), list);
}

/// The same along the schedule that the communicator's tuning selects for small messages of an
/// all-to-all. Only the ends of a message know its size.
template <communicator Comm>
void exchange(Comm& comm, transfers const& list) {
  auto const chosen = detail::tuned_source<Comm>{comm}.choose(collective::all_to_all, 0);
  exchange(comm, *chosen.prepared, list);
}

}}  // namespace blink::BLINK_ABI
