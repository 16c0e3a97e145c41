// SPDX-License-Identifier: Apache-2.0
#pragma once

// The ranks of a communicator in this process: whose calls belong together, and who is waited for.

#include <blink/collectives/exchange.hpp>
#include <blink/transports/cuda/device_world_options.hpp>

#include "errors.hpp"
#include "issuer.hpp"
#include "platform.hpp"
#include "request.hpp"

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace blink_nccl {

/// All ranks of one communicator. A rank's calls are queued; whoever brings the last part of a call
/// puts it into the streams of all. The caller holds the lock of the library.
template <platform P>
class team {
 public:
  using call = request<P>;
  using calls = std::shared_ptr<batch<P>>;

  /// Throws: precondition_error, resource_error, device_error.
  explicit team(blink::device_world_options const& options)
      : options_(options), issuer_(options), members_(options.devices.size()) {}

  [[nodiscard]] int rank_count() const { return static_cast<int>(members_.size()); }
  [[nodiscard]] blink::device_world_options const& options() const { return options_; }

  /// Throws: precondition_error, refusal for what is wrong whatever other ranks call.
  void check(int rank, std::vector<call> const& list) {
    throw_if_failed();
    expect_peers(list);
    check_pieces(rank, list);
  }
  /// Queues calls of a rank that were checked; `progress` is to follow.
  calls submit(int rank, std::vector<call> list) {
    auto made = std::make_shared<batch<P>>();
    made->open = std::move(list);
    made->is_over = made->open.empty();
    if (!made->is_over) member(rank).waiting.push_back(made);
    return made;
  }

  /// Runs all calls whose parts are there.
  void progress() {
    while (run_call() || run_transfers()) {
    }
  }

  /// Ends all calls that wait; there will be no others.
  void fail(outcome const& why) {
    if (failure_.code == result::success) failure_ = why;
    for (auto& one : members_) {
      for (auto& each : one.waiting) finish(*each, why);
      one.waiting.clear();
    }
  }
  void abort(int rank) {
    fail({result::remote_error, "rank " + std::to_string(rank) + " has aborted the communicator"});
    issuer_.world().abort();
  }
  /// The rank makes no more calls.
  void leave(int rank) {
    member(rank).is_gone = true;
    for (int other = 0; other < rank_count(); ++other) {
      for (auto const& each : member(other).waiting) {
        for (auto const& one : each->open) {
          if (one.is_of_two() && one.root != rank) continue;
          return fail({result::invalid_usage,
                       to_text(one) + " on rank " + std::to_string(other) + ": " + why_gone(rank)});
        }
      }
    }
  }

  /// What has gone wrong so far, also in streams.
  [[nodiscard]] outcome const& health() {
    if (failure_.code == result::success && issuer_.world().has_failed()) {
      try {
        issuer_.world().check();
      } catch (...) {
        fail(current_outcome());
      }
    }
    return failure_;
  }
  /// Has a call waited for too long? Then it fails, and so do all others.
  void expect_progress(batch<P> const& mine) {
    if (mine.is_over || std::chrono::steady_clock::now() - mine.begun < options_.deadline) return;
    fail({result::remote_error, "no progress for " + seconds() + " s: " + describe()});
  }

  /// Throws: precondition_error if memory is not of the rank's device.
  void expect_place(char const* name, int rank, void const* at) {
    issuer_.world().expect_place(name, static_cast<std::size_t>(rank), "buffer", at);
  }

 private:
  struct rank_calls {
    std::deque<calls> waiting;
    bool is_gone = false;
  };

  [[nodiscard]] rank_calls& member(int rank) { return members_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] rank_calls const& member(int rank) const {
    return members_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] batch<P>* front(int rank) {
    auto& waiting = member(rank).waiting;
    return waiting.empty() ? nullptr : waiting.front().get();
  }
  void throw_if_failed() {
    auto const& now = health();
    if (now.code != result::success) throw refusal(now.code, now.text);
  }
  static std::string why_gone(int rank) {
    return "rank " + std::to_string(rank) + " has destroyed its communicator";
  }
  void expect_peers(std::vector<call> const& list) const {
    for (auto const& one : list) {
      for (int rank = 0; rank < rank_count(); ++rank) {
        if (!member(rank).is_gone || (one.is_of_two() && one.root != rank)) continue;
        refuse_usage(to_text(one) + ": " + why_gone(rank));
      }
    }
  }
  void check_pieces(int rank, std::vector<call> const& list) {
    blink::transfers pieces;
    for (auto const& one : list) {
      if (!one.is_of_two()) continue;
      if (one.what == call::shape::send) {
        pieces.send(one.root, static_cast<std::byte const*>(one.input), one.bytes());
      } else {
        pieces.receive(one.root, static_cast<std::byte*>(one.output), one.bytes());
      }
    }
    blink::detail::check_transfers("rank " + std::to_string(rank), pieces, rank_count());
    for (auto const& one : list) {
      void const* const at = one.what == call::shape::send ? one.input : one.output;
      if (one.is_of_two() && one.count > 0) expect_place(one.name, rank, at);
    }
  }

  /// Runs the first call that is not of two ranks alone, if all have come to it.
  bool run_call() {
    std::vector<call*> parts;
    for (int rank = 0; rank < rank_count(); ++rank) {
      auto* const mine = front(rank);
      if (mine == nullptr) return false;
      call* found = nullptr;
      for (auto& one : mine->open) {
        if (found == nullptr && !one.is_of_two()) found = &one;
      }
      if (found == nullptr) return false;
      parts.push_back(found);
    }
    outcome how;
    try {
      expect_agreement(parts);
      if (parts[0]->what == call::shape::split) {
        split(parts);
      } else {
        issuer_.run(parts);
      }
    } catch (...) {
      how = current_outcome();
    }
    for (int rank = 0; rank < rank_count(); ++rank) {
      done_with(rank, parts[static_cast<std::size_t>(rank)], how);
    }
    sweep();
    return true;
  }
  static void expect_agreement(std::vector<call*> const& parts) {
    for (std::size_t rank = 1; rank < parts.size(); ++rank) {
      if (agree(*parts[0], *parts[rank])) continue;
      refuse_usage("ranks disagree: rank 0 calls " + to_text(*parts[0]) + "; rank " +
                   std::to_string(rank) + " calls " + to_text(*parts[rank]));
    }
  }

  /// Runs all sends whose receives are there; the k-th from a rank to another is the k-th there.
  bool run_transfers() {
    std::vector<transfer<P>> found;
    for (int sender = 0; sender < rank_count(); ++sender) {
      auto* const mine = front(sender);
      if (mine == nullptr) continue;
      std::map<int, std::size_t> next;  // by receiver: where to look on
      for (auto& one : mine->open) {
        if (one.what != call::shape::send) continue;
        auto* const theirs = front(one.root);
        if (theirs == nullptr) continue;
        auto& at = next[one.root];
        auto const matches = [&](call const& each) {
          return each.what == call::shape::receive && each.root == sender;
        };
        while (at < theirs->open.size() && !matches(theirs->open[at])) ++at;
        if (at < theirs->open.size())
          found.push_back({&one, &theirs->open[at++], sender, one.root});
      }
    }
    if (found.empty()) return false;
    std::vector<transfer<P>> equal;
    for (auto const& one : found) {
      if (one.send->bytes() == one.receive->bytes()) {
        equal.push_back(one);
      } else {
        finish_pair(one, {result::invalid_usage,
                          "ranks disagree: rank " + std::to_string(one.sender) + " calls " +
                              to_text(*one.send) + "; rank " + std::to_string(one.receiver) +
                              " calls " + to_text(*one.receive)});
      }
    }
    outcome how;
    try {
      if (!equal.empty()) issuer_.copy(equal);
    } catch (...) {
      how = current_outcome();
    }
    for (auto const& one : equal) finish_pair(one, how);
    sweep();
    return true;
  }
  void finish_pair(transfer<P> const& one, outcome const& how) {
    done_with(one.sender, one.send, how);
    done_with(one.receiver, one.receive, how);
  }

  void done_with(int rank, call* part, outcome const& how) {
    part->is_done = true;
    front(rank)->end(how);
  }
  void sweep() {
    for (auto& one : members_) {
      if (one.waiting.empty()) continue;
      auto& mine = *one.waiting.front();
      std::erase_if(mine.open, [](call const& each) { return each.is_done; });
      if (!mine.open.empty()) continue;
      mine.is_over = true;
      one.waiting.pop_front();
    }
  }
  static void finish(batch<P>& one, outcome const& how) {
    one.end(how);
    one.open.clear();
    one.is_over = true;
  }

  /// Ranks of one color, by rising key, and ranks of equal keys as they are here.
  void split(std::vector<call*> const& parts) {
    std::map<int, std::map<std::pair<int, int>, call*>> by_color;  // (key, rank)
    for (int rank = 0; rank < rank_count(); ++rank) {
      auto* const one = parts[static_cast<std::size_t>(rank)];
      by_color[one->color][{one->key, rank}] = one;
    }
    std::map<int, std::shared_ptr<team>> made;
    for (auto const& [color, ranks] : by_color) {
      if (color == no_color) continue;
      auto options = options_;
      options.devices.clear();
      for (auto const& [place, one] : ranks) {
        options.devices.push_back(options_.devices[static_cast<std::size_t>(place.second)]);
      }
      made[color] = std::make_shared<team>(options);
    }
    for (auto const& [color, ranks] : by_color) {
      int rank = 0;
      for (auto const& [place, one] : ranks) one->deliver(made[color], rank++);
    }
  }

  [[nodiscard]] std::string seconds() const {
    auto const text = std::to_string(static_cast<double>(options_.deadline.count()) * 1e-9);
    return text.substr(0, text.find('.') + 4);
  }
  [[nodiscard]] std::string describe() const {
    std::string text;
    for (int rank = 0; rank < rank_count(); ++rank) {
      auto const& one = member(rank);
      text += (rank == 0 ? "rank " : "; rank ") + std::to_string(rank) +
              (one.waiting.empty() ? " has not called"
                                   : " waits in " + to_text(one.waiting.front()->open.front()));
    }
    return text;
  }

  blink::device_world_options options_;
  issuer<P> issuer_;
  std::vector<rank_calls> members_;
  outcome failure_;
};

}  // namespace blink_nccl
