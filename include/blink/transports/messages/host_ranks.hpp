// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/call_description.hpp>
#include <blink/running/call/communicator_options.hpp>
#include <blink/running/call/eager_payload.hpp>
#include <blink/running/connections/memory_source.hpp>
#include <blink/transports/host/shared_segment.hpp>
#include <blink/transports/host/shared_state.hpp>
#include <blink/transports/messages/gather_over_channel.hpp>
#include <blink/transports/messages/message_channel.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The ranks of a communicator that are on this rank's host, and the memory that they share. They
/// announce their calls to each other there, and data between them crosses in its slots. None: all
/// goes by messages.
///
/// A rank enters a call only when all ranks here have entered the one before. So two places for the
/// announcements of each rank suffice. Failures, questions and departures are messages for all
/// ranks alike (`control_messages`).
class host_ranks {
 public:
  host_ranks() = default;

  /// Lets the ranks of each host share memory. Collective over the channel's ranks.
  ///
  /// tag:        of the messages, not in use before
  /// hosts:      by rank: ranks with equal numbers share memory
  /// eager_room: the most bytes of a rank's eager payload for all ranks together
  /// Throws:     resource_error, on all ranks, if the system refuses memory on one of them;
  ///             collective_error if a peer does not answer; error if the channel breaks.
  template <message_channel Channel>
  host_ranks(Channel& channel, int tag, std::vector<std::uint64_t> const& hosts,
             std::size_t eager_room, nanoseconds longest) {
    auto const own = static_cast<std::size_t>(channel.rank());
    int first = -1;
    numbers_.assign(hosts.size(), -1);
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      if (hosts[rank] != hosts[own]) continue;
      if (count_ == 0) first = static_cast<int>(rank);
      numbers_[rank] = count_++;
    }
    if (count_ < 2) count_ = 0;
    meeting mine;
    auto const attempt = [&](auto const& step) {
      try {
        if (count_ > 0 && mine.failure[0] == '\0') step();
      } catch (std::exception const& failure) {
        std::string(failure.what()).copy(mine.failure.data(), mine.failure.size() - 1);
      }
    };
    auto const meet = [&] {
      return gather_over_channel(channel, tag, mine, longest, "come to share memory of its host");
    };
    if (first == channel.rank()) {
      attempt([&] {
        segment_ = std::make_unique<shared_segment>(shared_segment::create(count_));
        segment_->path().copy(mine.path.data(), mine.path.size() - 1);
      });
    }
    auto const all = meet();
    attempt([&] {
      auto const& maker = all[static_cast<std::size_t>(first)];
      if (maker.failure[0] != '\0') return;  // that rank reports it
      if (segment_ == nullptr) {
        segment_ = std::make_unique<shared_segment>(shared_segment::open(maker.path.data()));
      }
      state_.emplace(count_, segment_->find_or_make(key_of_state, shared_state::bytes(count_)));
      state_->set_addresses(segment_->begin(), segment_->addresses());
      if (eager_room > largest_eager_bytes) {
        eager_room_ = whole_lines(eager_room);  // payloads begin where any element may
        auto const places = 2 * static_cast<std::size_t>(count_);
        eager_ =
            static_cast<std::byte*>(segment_->find_or_make(key_of_eager, places * eager_room_));
      }
    });
    auto const joined = meet();
    for (std::size_t rank = 0; rank < joined.size(); ++rank) {
      if (joined[rank].failure[0] == '\0') continue;
      throw resource_error(communicator_text<Channel>(
          "rank " + std::to_string(rank) +
          " shares no memory with its host: " + joined[rank].failure.data() +
          " (communicator_options::shares_memory = false passes all data in messages)"));
    }
    number_ = count_ > 0 ? numbers_[own] : -1;
  }

  /// The number of ranks that share memory; 0: none.
  [[nodiscard]] int count() const { return count_; }
  /// True if a rank, which is not this one, shares memory with this rank.
  [[nodiscard]] bool has(int rank) const {
    return count_ > 0 && numbers_[static_cast<std::size_t>(rank)] >= 0;
  }
  /// By rank: its number among them; negative: none. See `connection_layout::sharing_ranks`.
  [[nodiscard]] int const* numbers() const { return numbers_.data(); }

  /// The memory that these ranks share. Pre: count() > 0.
  [[nodiscard]] shared_segment& segment() const { return *segment_; }

  // --- announcements. Pre: count() > 0. ---

  /// Announces this rank's next call, with its eager payload.
  void enter(call_record const& record, eager_payload const& eager, int rank_count) {
    eager_bytes_ = eager.whole(rank_count);
    eager_payload whole{eager.data, eager_bytes_};
    if (eager_bytes_ > largest_eager_bytes && eager.data != nullptr) {
      std::memcpy(long_payload(number_, call_ + 1), eager.data, eager_bytes_);
      whole = {};
    }
    call_ = state_->enter(number_, record, whole, 0, false);
    block_ = eager.has_blocks ? eager.count : 0;
  }
  [[nodiscard]] bool has_entered(int rank) const {
    return state_->has_entered(number_of(rank), call_);
  }
  /// Pre: `has_entered(rank)`, here and below.
  [[nodiscard]] bool calls_the_same(int rank) const {
    return state_->call_the_same(number_, number_of(rank), call_);
  }
  [[nodiscard]] call_description const& call_of(int rank) const {
    return state_->call_id(number_of(rank), call_);
  }
  /// The eager payload of a rank for rank `own` of the communicator. Valid until the next call.
  [[nodiscard]] std::byte const* eager_data_of(int rank, int own) const {
    int const number = number_of(rank);
    auto const* const whole = eager_bytes_ > largest_eager_bytes
                                  ? long_payload(number, call_)
                                  : state_->eager_data_of(number, call_, eager_bytes_);
    return whole + block_ * static_cast<std::size_t>(own);
  }

 private:
  struct meeting {
    std::array<char, 64> path{};      // of the memory, from the rank that made it
    std::array<char, 256> failure{};  // empty: none
  };
  static constexpr std::uint64_t key_of_state = 1, key_of_eager = 2;

  [[nodiscard]] int number_of(int rank) const { return numbers_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] std::byte* long_payload(int number, std::uint64_t call) const {
    auto const place = 2 * static_cast<std::size_t>(number) + call % 2;
    return eager_ + place * eager_room_;
  }

  int count_ = 0;
  int number_ = -1;
  std::vector<int> numbers_;
  std::unique_ptr<shared_segment> segment_;  // it stays at its address
  std::optional<shared_state> state_;
  std::byte* eager_ = nullptr;
  std::size_t eager_room_ = 0;
  std::uint64_t call_ = 0;
  std::size_t eager_bytes_ = 0;  // of the present call
  std::size_t block_ = 0;
};

}}}  // namespace blink::BLINK_ABI::detail
