// SPDX-License-Identifier: Apache-2.0
#pragma once

// The meeting of the ranks of one communicator in several processes of a host.

#include <blink/core/error.hpp>
#include <blink/transports/cuda/kernels/device_call.hpp>
#include <blink/transports/host/shared_segment.hpp>

#include "abi.hpp"
#include "errors.hpp"
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace blink_nccl {

inline constexpr int most_ranks = blink::device_call::most_ranks;

/// Anonymous memory that the maker of a unique id has made. It is freed when the last process
/// closes it. Ranks write their process and device there. One decision holds for all of them:
/// whether, and by which library, the communicator is made. The caller holds the lock of the
/// library.
class meeting {
 public:
  enum class decision : std::uint32_t { open, complete, refused, forwarded };
  struct ruling {
    decision what = decision::open;
    outcome why{};
  };
  struct guest {
    int device = 0;
    std::int64_t process = 0;
  };

  /// Throws: resource_error.
  meeting()
      : segment_(blink::shared_segment::create(most_ranks, most_bytes)), board_(find_board()) {}
  /// path:   of the memory in the process that made it
  /// Throws: refusal if there is no memory that was made for this id; resource_error.
  meeting(std::string const& path, unique_id const& id) try
      : segment_(blink::shared_segment::open(path)), board_(find_board()) {
    bool const is_it = std::memcmp(&board_->id, &id, sizeof id) == 0;
    if (!is_it)
      refuse_usage("the memory at that path belongs to another id, because its maker has ended");
  } catch (blink::input_error const& problem) {
    refuse_usage(problem.what());
  }

  /// Pre: the process that made the id calls it, before it hands out the id.
  void set_id(unique_id const& id) { board_->id = id; }
  [[nodiscard]] std::string path() const { return segment_.path(); }
  [[nodiscard]] blink::shared_segment& segment() { return segment_; }

  /// Registers a rank of this process. The last rank completes the meeting.
  ///
  /// Throws: refusal if the rank does not fit the ranks that have joined.
  void come(int rank, int rank_count, int device) {
    std::int32_t nobody = 0;
    auto& expected = board_->rank_count;
    if (!expected.compare_exchange_strong(nobody, rank_count) && nobody != rank_count) {
      refuse_usage("ranks disagree: earlier ranks have passed " + std::to_string(nobody) +
                   " ranks, rank " + std::to_string(rank) + " has passed " +
                   std::to_string(rank_count));
    }
    try {
      segment_.claim(rank);
    } catch (blink::input_error const& problem) {
      refuse_usage("duplicate rank " + std::to_string(rank) + ": " + problem.what());
    }
    auto& own = seat_of(rank);
    own.who = {device, getpid()};
    own.is_taken.store(1);
    if (board_->come.fetch_add(1) + 1 == rank_count) (void)decide(decision::complete, {});
  }

  /// Decides, unless a process has already decided. Returns the valid decision.
  ruling decide(decision what, outcome const& why) {
    auto const number = std::min<std::uint32_t>(board_->notes_used.fetch_add(1), most_notes);
    auto& own = board_->notes[number];
    if (number < most_notes) {
      own.code = static_cast<std::int32_t>(why.code);
      std::string_view(why.text).copy(own.text.data(), own.text.size() - 1);
    }
    std::uint32_t undecided = 0;
    board_->decided.compare_exchange_strong(undecided, number << 8 | static_cast<unsigned>(what));
    return now();
  }
  [[nodiscard]] ruling now() const {
    auto const word = board_->decided.load();
    auto const what = static_cast<decision>(word & 0xffU);
    if (what != decision::refused) return {what, {}};
    if (word >> 8 == most_notes) return {what, {result::invalid_usage, "another rank was refused"}};
    auto const& note = board_->notes[word >> 8];
    return {what, {static_cast<result>(note.code), note.text.data()}};
  }

  [[nodiscard]] int rank_count() const { return board_->rank_count.load(); }
  [[nodiscard]] std::string missing() const {
    std::string text;
    for (int rank = 0; rank < rank_count(); ++rank) {
      if (seat_of(rank).is_taken.load() == 0)
        text += (text.empty() ? "" : ", ") + std::to_string(rank);
    }
    return text;
  }
  /// Returns the text of a rank that had joined and whose process has died; empty if there is none.
  [[nodiscard]] std::string lost() const {
    for (int rank = 0; rank < rank_count(); ++rank) {
      if (seat_of(rank).is_taken.load() == 0 || !segment_.is_dead(rank)) continue;
      return "rank " + std::to_string(rank) + " (" + segment_.describe(rank) + ") has died";
    }
    return "";
  }
  /// The process and device of each rank, by rank.
  ///
  /// Pre: the meeting is complete.
  [[nodiscard]] std::vector<guest> guests() const {
    std::vector<guest> all;
    for (int rank = 0; rank < rank_count(); ++rank) all.push_back(seat_of(rank).who);
    return all;
  }

 private:
  static constexpr std::size_t most_bytes = std::size_t{1} << 24;  // memory is allocated when used
  static constexpr std::uint32_t most_notes = 16;

  struct seat {
    guest who;
    std::atomic<std::uint32_t> is_taken;
  };
  struct reason {
    std::int32_t code;
    std::array<char, 1000> text;
  };
  /// All 0 at first.
  struct board {
    unique_id id;
    std::atomic<std::int32_t> rank_count, come;
    std::atomic<std::uint32_t> decided;  // a decision, and the note with the reason
    std::atomic<std::uint32_t> notes_used;
    std::array<seat, most_ranks> seats;
    std::array<reason, most_notes + 1> notes;  // the last one has no owner
  };

  [[nodiscard]] board* find_board() {
    return static_cast<board*>(segment_.find_or_make(1, sizeof(board)));
  }
  [[nodiscard]] seat& seat_of(int rank) const {
    return board_->seats[static_cast<std::size_t>(rank)];
  }

  blink::shared_segment segment_;
  board* board_;
};

}  // namespace blink_nccl
