// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

// The all-gathers of ranks before they have a communicator (`launcher_bootstrap`).

namespace blink::tools {

/// Collects what ranks give to one round after the other. The k-th part of a rank belongs to the
/// k-th round.
class launch_rounds {
 public:
  using clock = std::chrono::steady_clock;
  /// Answers one rank: all parts in order, or why there are none.
  using answer = std::function<void(int rank, bool is_complete, std::string const& content)>;

  /// deadline: from the first part of a round to the last
  launch_rounds(int rank_count, std::chrono::nanoseconds deadline, answer reply)
      : next_(static_cast<std::size_t>(rank_count), 0),
        has_ended_(static_cast<std::size_t>(rank_count), false),
        deadline_(deadline),
        reply_(std::move(reply)) {}

  /// Takes the part of a rank.
  void take(int rank, std::string part) {
    auto const number = next_[static_cast<std::size_t>(rank)]++;
    while (first_ + rounds_.size() <= number) rounds_.emplace_back(next_.size(), clock::now());
    auto& round = rounds_[number - first_];
    if (round.arrived++ == 0) {
      round.bytes = part.size();
      round.first = rank;
    } else if (part.size() != round.bytes && round.failure.empty()) {
      fail(round, "process " + std::to_string(rank) + " brings " + std::to_string(part.size()) +
                      " bytes, process " + std::to_string(round.first) + " " +
                      std::to_string(round.bytes) + ", expected equal numbers");
    }
    round.parts[static_cast<std::size_t>(rank)] = std::move(part);
    if (!round.failure.empty()) {
      reply_(rank, false, round.failure);
    } else {
      finish_if_complete(round);
      if (round.failure.empty()) look_for_the_ended(round);
    }
    drop_old();
  }
  /// Learns that a rank is a new process. Rounds that wait with a part of the old one fail. The
  /// first part of the new one belongs to the first round that waits or begins.
  void begin_again(int rank) {
    auto const place = static_cast<std::size_t>(rank);
    for (auto& round : rounds_) {
      bool const waits = round.failure.empty() && round.arrived < next_.size();
      if (waits && round.parts[place]) {
        fail(round, "process " + std::to_string(rank) + " has begun again");
      }
    }
    auto& next = next_[place];
    if (next < first_) next = first_;
    for (; next < first_ + rounds_.size(); ++next) {
      auto& round = rounds_[next - first_];
      if (round.failure.empty() && round.arrived < next_.size()) break;
      if (!round.parts[place]) ++round.arrived;  // it gets no part of this process
    }
    drop_old();
  }
  /// Learns that a rank has ended, for good.
  void lose(int rank) {
    has_ended_[static_cast<std::size_t>(rank)] = true;
    for (auto& round : rounds_) {
      if (round.failure.empty()) look_for_the_ended(round);
    }
  }
  /// Fails rounds that have waited until the deadline.
  void check_time() {
    for (auto& round : rounds_) {
      if (!round.failure.empty() || round.arrived == 0 || clock::now() < round.begun + deadline_) {
        continue;
      }
      std::string missing;
      for (std::size_t rank = 0; rank < next_.size(); ++rank) {
        if (!round.parts[rank]) missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
      }
      fail(round, "waits for process " + missing + ", which has not arrived (waited " +
                      std::to_string(std::chrono::duration<double>(deadline_).count()) + " s)");
    }
  }

 private:
  struct one_round {
    one_round(std::size_t ranks, clock::time_point now) : parts(ranks), begun(now) {}
    std::vector<std::optional<std::string>> parts;
    clock::time_point begun;
    std::size_t arrived = 0, bytes = 0;
    int first = 0;
    std::string failure{};
  };

  // Rounds that all have had an answer of.
  void drop_old() {
    while (!rounds_.empty() && rounds_.front().arrived >= next_.size()) {
      rounds_.pop_front();
      ++first_;
    }
  }
  void finish_if_complete(one_round& round) {
    if (round.arrived < next_.size()) return;
    std::string all;
    for (auto const& part : round.parts) all += *part;
    for (std::size_t rank = 0; rank < next_.size(); ++rank) {
      reply_(static_cast<int>(rank), true, all);
    }
  }
  void look_for_the_ended(one_round& round) {
    for (std::size_t rank = 0; rank < next_.size() && round.arrived > 0; ++rank) {
      if (!has_ended_[rank] || round.parts[rank]) continue;
      return fail(round, "process " + std::to_string(rank) + " has ended");
    }
  }
  void fail(one_round& round, std::string text) {
    round.failure = std::move(text);
    for (std::size_t rank = 0; rank < next_.size(); ++rank) {
      if (round.parts[rank]) reply_(static_cast<int>(rank), false, round.failure);
    }
  }

  std::vector<std::size_t> next_;  // round, by rank
  std::vector<bool> has_ended_;
  std::chrono::nanoseconds deadline_;
  answer reply_;
  std::deque<one_round> rounds_;
  std::size_t first_ = 0;  // number of the first of them
};

}  // namespace blink::tools
