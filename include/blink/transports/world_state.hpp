// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collective.hpp>
#include <blink/collectives/collective_error.hpp>
#include <blink/collectives/counter.hpp>
#include <blink/config.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace blink::inline BLINK_ABI {

/// What all ranks must agree about before data moves.
struct call_signature {
  blink::collective kind = collective::broadcast;
  void const* plan = nullptr;
  std::uint64_t count = 0;
  std::uint64_t element_bytes = 0;
  std::string_view types;  ///< names of element, reducer and chunking

  friend bool operator==(call_signature const&, call_signature const&) = default;

  /// What differs from `other`, in words.
  [[nodiscard]] std::string difference(call_signature const& other, int peer) const {
    auto const text = [&](std::string const& what, std::string const& mine,
                          std::string const& theirs) {
      return what + " " + mine + ", rank " + std::to_string(peer) + " has " + theirs;
    };
    if (kind != other.kind) {
      return text("operation", std::string(to_text(kind)), std::string(to_text(other.kind)));
    }
    if (count != other.count) {
      return text("count", std::to_string(count), std::to_string(other.count));
    }
    if (element_bytes != other.element_bytes || types != other.types) {
      return text("types", std::string(types), std::string(other.types));
    }
    return "another schedule than rank " + std::to_string(peer);
  }
};

/// What the ranks of one process know of each other: who has entered which call with what, and
/// whether something went wrong.
class world_state {
 public:
  explicit world_state(int rank_count) : boards_(static_cast<std::size_t>(rank_count)) {}

  struct call_record {
    call_signature signature;
    void const* input = nullptr;
    void* output = nullptr;
  };

  [[nodiscard]] int rank_count() const { return static_cast<int>(boards_.size()); }

  /// Rank `rank` enters its next call; returns the number of the call, from 1.
  ///
  /// A record is overwritten two calls later. By then everyone has read it: a call ends only when
  /// all ranks have entered it, so everyone has ended the one before.
  std::uint64_t enter(int rank, call_record const& record) {
    auto& board = at(rank);
    std::uint64_t const call = board.entered + 1;
    board.records[call % 2] = record;
    board.is_inside.store(true);  // before `is_aborted` is read, see `leave_after_failure`
    publish(board.entered, call);
    return call;
  }
  void leave(int rank) { at(rank).is_inside.store(false, std::memory_order_release); }

  [[nodiscard]] bool has_entered(int rank, std::uint64_t call) const {
    return observe(at(rank).entered) >= call;
  }
  /// Pre: has_entered(rank, call).
  [[nodiscard]] call_record const& record(int rank, std::uint64_t call) const {
    return at(rank).records[call % 2];
  }

  [[nodiscard]] bool is_aborted() const { return aborted_.load(); }

  /// Ends the present calls of all ranks; the first failure is the one that is told.
  void fail(collective_error const& failure) {
    std::lock_guard const lock(mutex_);
    if (!failure_) failure_ = failure;
    aborted_.store(true);
  }
  [[nodiscard]] collective_error failure() const {
    std::lock_guard const lock(mutex_);
    return failure_.value_or(collective_error("no failure", -1, -1, -1, -1));
  }

  /// Returns when no rank touches the buffers of another any more: whoever is inside a call sees
  /// the failure after the chunk at hand and comes here too.
  template <class Pause>
  void leave_after_failure(int rank, Pause const& pause) {
    leave(rank);
    for (int peer = 0; peer < rank_count(); ++peer) {
      while (at(peer).is_inside.load()) pause();
    }
  }

  /// The rank's function has returned: it enters no further call in this run.
  void set_gone(int rank, bool is_gone) {
    at(rank).is_gone.store(is_gone, std::memory_order_release);
  }
  [[nodiscard]] bool is_gone(int rank) const {
    return at(rank).is_gone.load(std::memory_order_acquire);
  }

 private:
  struct alignas(128) notice_board {
    counter entered = 0;
    std::array<call_record, 2> records;
    std::atomic<bool> is_inside = false;
    std::atomic<bool> is_gone = false;
  };
  [[nodiscard]] notice_board& at(int rank) { return boards_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] notice_board const& at(int rank) const {
    return boards_[static_cast<std::size_t>(rank)];
  }

  std::vector<notice_board> boards_;
  std::atomic<bool> aborted_ = false;
  mutable std::mutex mutex_;
  std::optional<collective_error> failure_;
};

}  // namespace blink::inline BLINK_ABI
