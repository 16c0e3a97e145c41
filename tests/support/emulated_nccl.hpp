// SPDX-License-Identifier: Apache-2.0
#pragma once

// Sends and receives by the strictest reading of NCCL's rules. A group is one operation in the
// streams of each of its communicators. It ends when all of its sends and receives are matched.
// Nothing is buffered. A rank waits on the host for a peer that it meets for the first time.

#include <blink/transports/nccl/nccl_calls.hpp>

#include "emulated_devices.hpp"

#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace blink_test {

/// The connection between all ranks, in threads that act as processes.
class emulated_fabric {
 public:
  struct options {
    bool reports_of_losses = true;  ///< peers learn of an aborted communicator
    bool meets_on_host = true;      ///< groups wait on the host for new peers
  };
  struct operation {
    bool sends = false;
    int rank = 0;
    int peer = 0;
    void* data = nullptr;
    std::size_t bytes = 0;
  };

  explicit emulated_fabric(int ranks) : emulated_fabric(ranks, options{}) {}
  emulated_fabric(int ranks, options what)
      : options_(what), is_aborted_(static_cast<std::size_t>(ranks)), errors_(is_aborted_.size()) {}

  [[nodiscard]] int rank_count() const { return static_cast<int>(errors_.size()); }

  /// Waits on the host until the new peers of a group are in a matching group. Returns an error
  /// that ends the wait.
  int match(std::vector<operation> const& group) {
    if (!options_.meets_on_host) return 0;
    std::unique_lock lock(mutex_);
    for (auto const& one : group) (one.sends ? senders_ : receivers_).insert(pair_of(one));
    changed_.notify_all();
    int error = 0;
    changed_.wait(lock, [&] {
      for (auto const& one : group) {
        if ((one.sends ? receivers_ : senders_).contains(pair_of(one))) continue;
        error = errors_[static_cast<std::size_t>(one.rank)];
        return error != 0;
      }
      return true;
    });
    return error;
  }
  /// Runs a rank's part of a group in a stream.
  void run(int rank, std::vector<operation> const& group) {
    std::unique_lock lock(mutex_);
    ++groups_[rank];
    auto const missing = std::make_shared<int>(static_cast<int>(group.size()));
    for (auto const& one : group) {
      auto& [sends, receives] = pairs_[pair_of(one)];
      (one.sends ? sends : receives).push_back({one, missing});
      while (!sends.empty() && !receives.empty()) {
        match(sends.front(), receives.front());
        sends.pop_front();
        receives.pop_front();
      }
    }
    changed_.notify_all();
    changed_.wait(lock, [&] { return *missing == 0 || is_over(rank); });
    if (*missing == 0) return;
    for (auto& [which, both] : pairs_) {  // its memory may be released now
      for (auto* queue : {&both.first, &both.second}) {
        std::erase_if(*queue, [&](waiting const& each) { return each.missing == missing; });
      }
    }
  }
  void abort(int rank) {
    std::lock_guard const lock(mutex_);
    is_aborted_[static_cast<std::size_t>(rank)] = true;
    if (options_.reports_of_losses) {
      for (auto& error : errors_) error = error == 0 ? 6 : error;  // remote error
    }
    changed_.notify_all();
  }
  /// Loses a rank; all peers learn of it.
  void lose(int rank) { abort(rank); }
  [[nodiscard]] int error_of(int rank) {
    std::lock_guard const lock(mutex_);
    return errors_[static_cast<std::size_t>(rank)];
  }
  /// Number of groups that a rank's streams have run.
  [[nodiscard]] int groups(int rank) {
    std::lock_guard const lock(mutex_);
    return groups_[rank];
  }

 private:
  struct waiting {
    operation what;
    std::shared_ptr<int> missing;  // of its group
  };
  using both_queues = std::pair<std::deque<waiting>, std::deque<waiting>>;  // sends, receives

  [[nodiscard]] static std::pair<int, int> pair_of(operation const& one) {
    return one.sends ? std::pair(one.rank, one.peer) : std::pair(one.peer, one.rank);
  }
  [[nodiscard]] bool is_over(int rank) const { return is_aborted_[static_cast<std::size_t>(rank)]; }
  void match(waiting& send, waiting& receive) {
    if (send.what.bytes != receive.what.bytes) {  // NCCL does not define its behaviour here
      errors_[static_cast<std::size_t>(send.what.rank)] = 5;
      errors_[static_cast<std::size_t>(receive.what.rank)] = 5;
    } else {
      std::memcpy(receive.what.data, send.what.data, send.what.bytes);
    }
    --*send.missing;
    --*receive.missing;
  }

  options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::pair<int, int>> senders_, receivers_;  // pairs that have met
  std::map<std::pair<int, int>, both_queues> pairs_;   // by (from, to)
  std::map<int, int> groups_;
  std::vector<bool> is_aborted_;
  std::vector<int> errors_;
};

/// The functions of NCCL, for one process's devices.
class emulated_nccl {
 public:
  using communicator = int;  ///< the rank
  using stream = emulated_devices::stream;
  struct options {
    int fails_send = -1;          ///< index of the send that is refused, from 0
    bool is_in_progress = false;  ///< groups return before they have ended
  };

  /// first_rank: on device 0; the next rank is on device 1, and so on
  emulated_nccl(emulated_fabric& fabric, emulated_devices& machine, int first_rank)
      : emulated_nccl(fabric, machine, first_rank, options{}) {}
  emulated_nccl(emulated_fabric& fabric, emulated_devices& machine, int first_rank, options what)
      : fabric_(fabric), machine_(machine), first_rank_(first_rank), options_(what) {}

  int group_start() {
    ++depth_;
    return 0;
  }
  int group_end() {
    if (--depth_ != 0) return 0;
    auto const noted = std::exchange(noted_, {});
    if (std::exchange(has_refused_, false)) return 3;  // nothing of the group is done
    std::vector<emulated_fabric::operation> all;
    std::map<std::pair<int, stream>, std::vector<emulated_fabric::operation>> by_stream;
    for (auto const& [on, one] : noted) {
      all.push_back(one);
      by_stream[{one.rank, on}].push_back(one);
    }
    if (int const error = fabric_.match(all); error != 0) return error;
    for (auto const& each : by_stream) {
      int const rank = each.first.first;
      machine_.run_in_stream(
          rank - first_rank_, each.first.second,
          [fabric = &fabric_, rank, group = each.second] { fabric->run(rank, group); });
    }
    unfinished_ = options_.is_in_progress ? 3 : 0;
    return unfinished_ > 0 ? blink::nccl_in_progress : 0;
  }
  int send(void const* from, std::size_t bytes, int peer, int rank, stream on) {
    if (sends_++ == options_.fails_send) {
      has_refused_ = true;
      return 3;
    }
    return note(on, {true, rank, peer, const_cast<void*>(from), bytes});
  }
  int receive(void* to, std::size_t bytes, int peer, int rank, stream on) {
    return note(on, {false, rank, peer, to, bytes});
  }
  int rank(int of, int& answer) { return answer = of, 0; }
  int rank_count(int, int& answer) { return answer = fabric_.rank_count(), 0; }
  int device(int of, int& answer) { return answer = of - first_rank_, 0; }
  int asynchronous_error(int of, int& answer) {
    answer = fabric_.error_of(of);
    if (answer == 0 && unfinished_ > 0 && --unfinished_ > 0) answer = blink::nccl_in_progress;
    return 0;
  }
  int abort(int of) {
    fabric_.abort(of);
    return 0;
  }
  std::string text_of(int code) {
    return code == 3   ? "internal error"
           : code == 5 ? "invalid usage"
           : code == 6 ? "remote error"
                       : "?";
  }
  std::string last_error(int of) { return "as reported by rank " + std::to_string(of); }

 private:
  int note(stream on, emulated_fabric::operation const& one) {
    bool const is_known = one.peer >= 0 && one.peer < fabric_.rank_count() && one.bytes > 0;
    if (!is_known || depth_ == 0) return 4;
    noted_.emplace_back(on, one);
    return 0;
  }

  emulated_fabric& fabric_;
  emulated_devices& machine_;
  int first_rank_;
  options options_;
  int depth_ = 0;
  int sends_ = 0;
  bool has_refused_ = false;
  int unfinished_ = 0;
  std::vector<std::pair<stream, emulated_fabric::operation>> noted_;
};
static_assert(blink::nccl_calls<emulated_nccl>);

}  // namespace blink_test
