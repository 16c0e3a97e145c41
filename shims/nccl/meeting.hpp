// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where the ranks of one communicator find each other if they are in several processes of a host.

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

/// Memory without a name that the maker of a unique id has made: it goes with the last process that has
/// it open. Ranks write there where they are, and what is to become of the communicator is decided once,
/// for all of them. The caller holds the lock of the library.
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
  /// path: of the memory in the process that made it
  /// Throws: refusal if there is none that was made for this id; resource_error.
  meeting(std::string const& path, unique_id const& id) try
      : segment_(blink::shared_segment::open(path)), board_(find_board()) {
    bool const is_it = std::memcmp(&board_->id, &id, sizeof id) == 0;
    if (!is_it) refuse_usage("the memory of its maker is another one's: it does not live any more");
  } catch (blink::input_error const& problem) {
    refuse_usage(problem.what());
  }

  /// Pre: called by the maker, before the id leaves it.
  void set_id(unique_id const& id) { board_->id = id; }
  [[nodiscard]] std::string path() const { return segment_.path(); }
  [[nodiscard]] blink::shared_segment& segment() { return segment_; }

  /// A rank of this process has come. The last one completes the meeting.
  ///
  /// Throws: refusal if it does not fit to those that have come.
  void come(int rank, int rank_count, int device) {
    std::int32_t nobody = 0;
    auto& expected = board_->rank_count;
    if (!expected.compare_exchange_strong(nobody, rank_count) && nobody != rank_count) {
      refuse_usage("ranks disagree: some say " + std::to_string(nobody) + " ranks, rank " +
                   std::to_string(rank) + " says " + std::to_string(rank_count));
    }
    try {
      segment_.claim(rank);
    } catch (blink::input_error const& problem) {
      refuse_usage("two ranks say that they are rank " + std::to_string(rank) + ": " +
                   problem.what());
    }
    auto& own = seat_of(rank);
    own.who = {device, getpid()};
    own.is_taken.store(1);
    if (board_->come.fetch_add(1) + 1 == rank_count) (void)decide(decision::complete, {});
  }

  /// Decides, unless somebody has decided already. Returns what holds.
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
  /// A rank that had come and whose process has died; empty: none.
  [[nodiscard]] std::string lost() const {
    for (int rank = 0; rank < rank_count(); ++rank) {
      if (seat_of(rank).is_taken.load() == 0 || !segment_.is_dead(rank)) continue;
      return "rank " + std::to_string(rank) + " (" + segment_.describe(rank) + ") has died";
    }
    return "";
  }
  /// By rank. Pre: the meeting is complete.
  [[nodiscard]] std::vector<guest> guests() const {
    std::vector<guest> all;
    for (int rank = 0; rank < rank_count(); ++rank) all.push_back(seat_of(rank).who);
    return all;
  }

 private:
  static constexpr std::size_t most_bytes = std::size_t{1} << 24;  // taken up when used
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
    std::atomic<std::uint32_t> decided;  // a decision, and the note that says why
    std::atomic<std::uint32_t> notes_used;
    std::array<seat, most_ranks> seats;
    std::array<reason, most_notes + 1> notes;  // the last is for nobody
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
