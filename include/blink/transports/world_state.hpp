// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/call_signature.hpp>
#include <blink/collectives/collective_error.hpp>
#include <blink/collectives/counter.hpp>
#include <blink/config.hpp>
#include <blink/transports/wire_tables.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

namespace blink::inline BLINK_ABI {

/// What ranks that share memory know of each other: who has entered which call with what, and
/// whether something went wrong. It lives in memory that may belong to several processes: no
/// pointers to it, no locks that a dead rank could keep; all bytes 0 is how it begins.
class world_state {
 public:
  /// Bytes that the state of so many ranks takes.
  [[nodiscard]] static constexpr std::size_t bytes(int rank_count) {
    return sizeof(head) + static_cast<std::size_t>(rank_count) * sizeof(notice_board);
  }

  /// For ranks of this process.
  explicit world_state(int rank_count)
      : rank_count_(rank_count),
        own_(memory_source::host().allocate(bytes(rank_count)), memory_source::host().release) {
    std::memset(own_.get(), 0, bytes(rank_count));
    place(own_.get());
  }
  /// For ranks that share `memory`, which outlives this object.
  ///
  /// Pre: `bytes(rank_count)` bytes aligned to 128, all 0 before the first rank came.
  world_state(int rank_count, void* memory)
      : rank_count_(rank_count), own_(nullptr, memory_source::host().release) {
    place(memory);
  }

  [[nodiscard]] int rank_count() const { return rank_count_; }

  /// What peers read of a call that a rank has entered.
  struct entry {
    std::uint64_t signature = 0;  ///< fingerprint
    void const* input = nullptr;
    void* output = nullptr;
  };

  /// Rank `rank` enters its next call; returns the number of the call, from 1.
  ///
  /// An entry is overwritten two calls later. By then everyone has read it: a call ends only when
  /// all ranks have entered it, so everyone has ended the one before.
  std::uint64_t enter(int rank, call_record const& record) {
    auto& board = at(rank);
    std::uint64_t const call = board.entered + 1;
    auto& own = board.entries[call % 2];
    std::uint64_t const signature = record.signature.fingerprint();
    if (own.signature != signature) board.signatures[call % 2] = record.signature;
    own = {signature, record.input, record.output};
    board.is_inside.store(1);  // before `is_aborted` is read, see `leave_after_failure`
    publish(board.entered, call);
    return call;
  }
  void leave(int rank) { at(rank).is_inside.store(0, std::memory_order_release); }

  [[nodiscard]] bool has_entered(int rank, std::uint64_t call) const {
    return observe(at(rank).entered) >= call;
  }
  /// Pre: has_entered(rank, call).
  [[nodiscard]] entry const& called(int rank, std::uint64_t call) const {
    return at(rank).entries[call % 2];
  }
  /// The same in full, for messages.
  [[nodiscard]] call_signature const& signature(int rank, std::uint64_t call) const {
    return at(rank).signatures[call % 2];
  }

  [[nodiscard]] bool is_aborted() const { return head_->first_failure.load() != 0; }

  /// Ends the present calls of all ranks; the first failure is the one that is told.
  ///
  /// rank: who says so; its note is complete before it counts, so a rank that dies here does no harm
  void fail(int rank, collective_error const& failure) {
    auto& note = at(rank).failure;
    if (is_aborted() || note.is_taken.exchange(1) != 0) return;
    note.rank = failure.rank;
    note.peer = failure.peer;
    note.tree = failure.tree;
    note.chunk = failure.chunk;
    std::strncpy(note.text.data(), failure.what(), note.text.size() - 1);
    std::uint32_t nobody = 0;
    head_->first_failure.compare_exchange_strong(nobody, static_cast<std::uint32_t>(rank) + 1);
  }
  [[nodiscard]] collective_error failure() const {
    std::uint32_t const first = head_->first_failure.load();
    if (first == 0) return {"no failure", -1, -1, -1, -1};
    auto const& note = at(static_cast<int>(first) - 1).failure;
    return {note.text.data(), note.rank, note.peer, note.tree, note.chunk};
  }

  /// Returns when no rank touches the buffers of another any more: whoever is inside a call sees
  /// the failure after the chunk at hand and comes here too.
  template <class Pause>
  void leave_after_failure(int rank, Pause const& pause) {
    leave(rank);
    for (int peer = 0; peer < rank_count(); ++peer) {
      while (at(peer).is_inside.load() != 0) pause();
    }
  }

  /// The rank has left for good: it enters no further call.
  void set_gone(int rank, bool is_gone) {
    at(rank).is_gone.store(is_gone ? 1 : 0, std::memory_order_release);
  }
  [[nodiscard]] bool is_gone(int rank) const {
    return at(rank).is_gone.load(std::memory_order_acquire) != 0;
  }

 private:
  struct failure_note {
    std::atomic<std::uint32_t> is_taken;
    std::int32_t rank, peer, tree;
    long long chunk;
    std::array<char, 1000> text;  // ends with a 0
  };
  struct alignas(128) notice_board {
    // One cache line that the others read in every call …
    counter entered;
    std::array<entry, 2> entries;
    // … and what only its owner touches while all goes well.
    alignas(128) std::atomic<std::uint32_t> is_inside;
    std::atomic<std::uint32_t> is_gone;
    std::array<call_signature, 2> signatures;
    failure_note failure;
  };
  struct alignas(128) head {
    std::atomic<std::uint32_t> first_failure;  // the rank that found it, plus 1
  };
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

  void place(void* memory) {
    head_ = static_cast<head*>(memory);
    boards_ = reinterpret_cast<notice_board*>(head_ + 1);
  }
  [[nodiscard]] notice_board& at(int rank) const { return boards_[rank]; }

  int rank_count_;
  std::unique_ptr<void, void (*)(void*) noexcept> own_;
  head* head_ = nullptr;
  notice_board* boards_ = nullptr;
};

}  // namespace blink::inline BLINK_ABI
