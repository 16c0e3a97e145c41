// SPDX-License-Identifier: Apache-2.0
#pragma once

// The queued calls of each rank of this process, and the search for matching calls.

#include "errors.hpp"
#include "issuer.hpp"
#include "platform.hpp"
#include "request.hpp"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace blink_nccl {

/// The calls of each rank in order. Calls of a group are one entry, whose parts may end at
/// different times. Guarded by the lock of the library.
template <platform P>
class call_queues {
 public:
  using call = request<P>;
  using calls = std::shared_ptr<batch<P>>;

  call_queues(int first_rank, std::size_t ranks) : first_(first_rank), members_(ranks) {}

  [[nodiscard]] int first_rank() const { return first_; }
  [[nodiscard]] int end_rank() const { return first_ + static_cast<int>(members_.size()); }
  [[nodiscard]] bool has(int rank) const { return rank >= first_ && rank < end_rank(); }

  calls submit(int rank, std::vector<call> list) {
    auto made = std::make_shared<batch<P>>();
    made->open = std::move(list);
    made->is_over = made->open.empty();
    if (!made->is_over) member(rank).waiting.push_back(made);
    return made;
  }

  /// Records that the rank makes no more calls.
  void leave(int rank) { member(rank).is_gone = true; }
  [[nodiscard]] bool is_gone(int rank) const { return member(rank).is_gone; }
  /// Returns the rank and call of a queued call that satisfies `matches(rank, call)`; null if there
  /// is none.
  template <class Matches>
  [[nodiscard]] std::pair<int, call const*> find(Matches const& matches) const {
    for (int rank = first_; rank < end_rank(); ++rank) {
      for (auto const& each : member(rank).waiting) {
        for (auto const& one : each->open) {
          if (matches(rank, one)) return {rank, &one};
        }
      }
    }
    return {-1, nullptr};
  }

  /// Returns the parts of the first call other than sends and receives, by rank, if all ranks have
  /// reached it; otherwise nothing.
  [[nodiscard]] std::vector<call*> next_call() {
    std::vector<call*> parts;
    for (int rank = first_; rank < end_rank(); ++rank) {
      auto* const mine = front(rank);
      if (mine == nullptr) return {};
      call* found = nullptr;
      for (auto& one : mine->open) {
        if (found == nullptr && !one.is_of_two()) found = &one;
      }
      if (found == nullptr) return {};
      parts.push_back(found);
    }
    return parts;
  }
  /// Returns all sends whose receives are queued. The k-th send from a rank to another matches the
  /// k-th receive there.
  [[nodiscard]] std::vector<transfer<P>> next_transfers() {
    std::vector<transfer<P>> found;
    for (int sender = first_; sender < end_rank(); ++sender) {
      auto* const mine = front(sender);
      if (mine == nullptr) continue;
      std::map<int, std::size_t> next;  // by receiver: position to continue the search
      for (auto& one : mine->open) {
        if (one.what != call::shape::send || !has(one.root)) continue;
        auto* const theirs = front(one.root);
        if (theirs == nullptr) continue;
        auto& at = next[one.root];
        auto const matches = [&](call const& each) {
          return each.what == call::shape::receive && each.root == sender;
        };
        while (at < theirs->open.size() && !matches(theirs->open[at])) ++at;
        if (at < theirs->open.size())
          found.push_back({&one, &theirs->open[at++], sender, one.root, mine, theirs});
      }
    }
    return found;
  }

  /// Returns all sends and receives whose peers are in other processes. Other calls of their groups
  /// come first, so that all processes put both into their streams in the same order.
  [[nodiscard]] std::vector<distant_piece<P>> next_distant() {
    std::vector<distant_piece<P>> found;
    for (int rank = first_; rank < end_rank(); ++rank) {
      auto* const mine = front(rank);
      if (mine == nullptr) continue;
      bool const is_ready = std::all_of(mine->open.begin(), mine->open.end(),
                                        [](call const& each) { return each.is_of_two(); });
      if (!is_ready) continue;
      for (auto& one : mine->open) {
        if (!has(one.root)) found.push_back({&one, rank, mine});
      }
    }
    return found;
  }

  void done_with(int rank, call* part, outcome const& how) {
    part->is_done = true;
    front(rank)->end(how);
  }
  /// Removes ended calls. Pointers to parts that were found before become invalid.
  void sweep() {
    for (auto& one : members_) {
      if (one.waiting.empty()) continue;
      auto& mine = *one.waiting.front();
      std::erase_if(mine.open, [](call const& each) { return each.is_done; });
      if (!mine.open.empty()) continue;
      mine.starts.clear();
      mine.is_over = true;
      one.waiting.pop_front();
    }
  }
  void end_all(outcome const& why) {
    for (auto& one : members_) {
      for (auto& each : one.waiting) {
        each->end(why);
        each->open.clear();
        each->starts.clear();
        each->is_over = true;
      }
      one.waiting.clear();
    }
  }

  /// The state of each rank in words: the call in which it waits.
  [[nodiscard]] std::string describe() const {
    std::string text;
    for (int rank = first_; rank < end_rank(); ++rank) {
      auto const& one = member(rank);
      text += (rank == first_ ? "rank " : "; rank ") + std::to_string(rank) +
              (one.waiting.empty() ? " has not called"
                                   : " waits in " + to_text(one.waiting.front()->open.front()));
    }
    return text;
  }

 private:
  struct rank_calls {
    std::deque<calls> waiting;
    bool is_gone = false;
  };

  [[nodiscard]] rank_calls& member(int rank) {
    return members_[static_cast<std::size_t>(rank - first_)];
  }
  [[nodiscard]] rank_calls const& member(int rank) const {
    return members_[static_cast<std::size_t>(rank - first_)];
  }
  [[nodiscard]] batch<P>* front(int rank) {
    auto& waiting = member(rank).waiting;
    return waiting.empty() ? nullptr : waiting.front().get();
  }

  int first_;
  std::vector<rank_calls> members_;
};

}  // namespace blink_nccl
