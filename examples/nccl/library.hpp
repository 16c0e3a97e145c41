// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the process has one of: the lock, the communicators that live, and those that are being made.

#include <blink/transports/cuda/device_world_options.hpp>
#include <blink/transports/process_environment.hpp>

#include "abi.hpp"
#include "errors.hpp"
#include "fallback.hpp"
#include "handle.hpp"
#include "platform.hpp"
#include "team.hpp"
#include "unique_ids.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace blink_nccl {

/// How long a rank waits for the others. Programs are used to wait for minutes while one of them does
/// something else.
inline blink::device_world_options options_wanted() {
  blink::device_world_options options;
  options.deadline = blink::detail::environment_deadline().value_or(std::chrono::minutes(10));
  return options;
}

/// Ranks of one unique id that have come so far. This is where ranks of other processes would have to be
/// found, too.
template <platform P>
struct gathering {
  int rank_count = 0;
  std::map<int, handle<P>*> come{};  ///< by rank
  std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
  std::chrono::nanoseconds patience{};
  outcome ending{};
  bool is_over = false;
  bool is_forwarded = false;  ///< the other library is to do it, also for ranks that come later

  [[nodiscard]] std::string missing() const {
    std::string text;
    for (int rank = 0; rank < rank_count; ++rank) {
      if (!come.contains(rank)) text += (text.empty() ? "" : ", ") + std::to_string(rank);
    }
    return text;
  }
};

template <platform P>
class library {
 public:
  using lock_type = std::unique_lock<std::mutex>;

  /// It lives for ever: programs may call while statics are destroyed.
  static library& the() {
    static auto* const one = new library;
    return *one;
  }

  [[nodiscard]] lock_type lock() { return lock_type(mutex_); }
  unique_ids ids;

  /// Returns when `is_done()`, which somebody else makes true; `look()` is called now and then.
  template <class Done, class Look>
  void wait(lock_type& held, Done const& is_done, Look const& look) {
    constexpr auto now_and_then = std::chrono::milliseconds(20);
    while (!is_done()) {
      changed_.wait_until(held, std::chrono::system_clock::now() + now_and_then);
      look();
    }
    changed_.notify_all();
  }
  void notify() { changed_.notify_all(); }

  handle<P>* make_handle(int rank, int rank_count, int device, bool blocks) {
    auto made = std::make_unique<handle<P>>();
    made->rank = rank;
    made->rank_count = rank_count;
    made->device = device;
    made->blocks = blocks;
    auto* const address = made.get();
    living_[address] = std::move(made);
    return address;
  }
  /// Throws: refusal if it is null or no communicator that lives.
  [[nodiscard]] handle<P>& find(communicator* given) {
    if (given == nullptr) refuse_argument("the communicator is null");
    auto const found = living_.find(given);
    if (found == living_.end()) {
      refuse_argument("this is no communicator, or one that was destroyed");
    }
    return *found->second;
  }
  /// The handle is no longer valid. What is returned is to be destroyed without the lock: it waits for
  /// what runs on the devices.
  [[nodiscard]] std::unique_ptr<handle<P>> forget(handle<P>& one) {
    for (auto& [id, each] : gathering_) {
      auto const mine = each->come.find(one.rank);
      if (mine == each->come.end() || mine->second != &one) continue;
      end(each, {result::remote_error,
                 "rank " + std::to_string(one.rank) + " has left before all have come"});
      break;
    }
    auto const found = living_.find(&one);
    auto result = std::move(found->second);
    living_.erase(found);
    return result;
  }

  /// A rank of a communicator of this process, or maybe of several ones.
  ///
  /// Throws: refusal for an id that ranks cannot gather around, or on which they disagree.
  std::shared_ptr<gathering<P>> join(unique_id const& id, handle<P>& mine) {
    constexpr std::chrono::nanoseconds for_the_rest = std::chrono::milliseconds(500);
    bool const has_fallback = fallback() != nullptr;
    auto const patience = has_fallback ? for_the_rest : options_wanted().deadline;
    auto& found = gathering_[unique_ids::text_of(id)];
    if (found == nullptr) {
      found = std::make_shared<gathering<P>>();
      found->rank_count = mine.rank_count;
      found->patience = patience;
    }
    auto const here = found;
    if (here->is_over) {
      if (here->is_forwarded) return here;
      if (here->ending.code != result::success) throw refusal(here->ending.code, here->ending.text);
      refuse_usage("a communicator has been made with this unique id already");
    }
    bool const fits = ids.knows(id) && mine.rank_count <= most_ranks;
    if (!fits && has_fallback) {
      here->come[mine.rank] = &mine;
      here->is_forwarded = true;
      end(here, {});
    } else if (mine.rank_count > most_ranks) {
      end(here, {result::invalid_usage, std::to_string(mine.rank_count) + " ranks, at most " +
                                            std::to_string(most_ranks) + ": " + hint()});
    } else if (!fits) {
      end(here,
          {result::invalid_usage, "the unique id was made by " + unique_ids::maker_of(id) +
                                      ", this is process " + std::to_string(getpid()) +
                                      "; ranks in several processes are not covered: " + hint()});
    } else if (here->rank_count != mine.rank_count) {
      auto const text = "ranks disagree: some say " + std::to_string(here->rank_count) +
                        " ranks, rank " + std::to_string(mine.rank) + " says " +
                        std::to_string(mine.rank_count);
      end(here, {result::invalid_usage, text});
    } else if (!here->come.try_emplace(mine.rank, &mine).second) {
      auto const text = "two ranks say that they are rank " + std::to_string(mine.rank);
      end(here, {result::invalid_usage, text});
    } else if (static_cast<int>(here->come.size()) == here->rank_count) {
      begin(here);
    }
    return here;
  }
  /// Has it taken too long until all have come?
  void expect_all(std::shared_ptr<gathering<P>> const& here) {
    if (here->is_over || std::chrono::steady_clock::now() - here->begun < here->patience) return;
    if (fallback() != nullptr) {
      here->is_forwarded = true;
      end(here, {});
    } else {
      end(here, {result::remote_error, "of " + std::to_string(here->rank_count) +
                                           " ranks these have not come: " + here->missing() +
                                           "; if they are in other processes: " + hint()});
    }
  }

  /// The same, for whoever comes and does not wait.
  void look_after(handle<P> const& mine) {
    for (auto const& [id, each] : gathering_) {
      auto const found = each->come.find(mine.rank);
      if (found == each->come.end() || found->second != &mine) continue;
      return expect_all(each);
    }
  }

  static std::string hint() {
    return "set BLINK_NCCL_FALLBACK to the path of another libnccl, to which it is handed on";
  }

 private:
  static constexpr int most_ranks = blink::device_call::most_ranks;

  void begin(std::shared_ptr<gathering<P>> const& here) {
    try {
      auto options = options_wanted();
      for (auto const& [rank, one] : here->come) options.devices.push_back(one->device);
      auto const made = std::make_shared<team<P>>(options);
      for (auto const& [rank, one] : here->come) one->all = made;
      end(here, {});
    } catch (...) {
      end(here, current_outcome());
    }
  }
  void end(std::shared_ptr<gathering<P>> const& here, outcome const& how) {
    here->ending = how;
    here->is_over = true;
    for (auto const& [rank, one] : here->come) one->trouble = how;
    here->come.clear();
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<communicator const*, std::unique_ptr<handle<P>>> living_;
  std::map<std::string, std::shared_ptr<gathering<P>>>
      gathering_;  // by unique id, those that are over, too
};

}  // namespace blink_nccl
