// SPDX-License-Identifier: Apache-2.0
#pragma once

// The state of the library in a process: the lock, the live communicators, and those in
// construction.

#include <blink/transports/cuda/calls/device_options.hpp>
#include <blink/transports/host/process_environment.hpp>

#include "abi.hpp"
#include "errors.hpp"
#include "fallback.hpp"
#include "gathering.hpp"
#include "handle.hpp"
#include "meeting.hpp"
#include "platform.hpp"
#include "roll.hpp"
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
#include <thread>
#include <utility>
#include <vector>

namespace blink_nccl {

/// Returns the options of communicators. The default deadline is long, because a rank of a program
/// may be busy for minutes while the others wait.
inline blink::device_options options_wanted() {
  blink::device_options options;
  options.deadline = blink::detail::environment_deadline().value_or(std::chrono::minutes(10));
  return options;
}

/// True if the ranks of one communicator may be in several processes.
///
/// Throws: input_error for a value that is neither 0 nor 1.
inline bool covers_processes() {
  return blink::detail::environment_flag("BLINK_NCCL_PROCESSES", true);
}

template <platform P>
class library {
 public:
  using lock_type = std::unique_lock<std::mutex>;

  /// The object is never destroyed, because programs may call the library while statics are
  /// destroyed.
  static library& the() {
    static auto* const one = new library;
    return *one;
  }

  [[nodiscard]] lock_type lock() { return lock_type(mutex_); }
  unique_ids ids;

  /// Waits until `is_done()`, which another thread makes true. Calls `look()` periodically.
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
  /// Returns the handle of a communicator. Throws: refusal if it is null or not a live
  /// communicator.
  [[nodiscard]] handle<P>& find(communicator* given) {
    if (given == nullptr) refuse_argument("the communicator is null");
    auto const found = living_.find(given);
    if (found == living_.end()) {
      refuse_argument("the communicator is unknown or was destroyed");
    }
    return *found->second;
  }
  /// Removes a handle. The caller destroys the returned object without the lock, because that waits
  /// for the devices.
  [[nodiscard]] std::unique_ptr<handle<P>> forget(handle<P>& one) {
    for (auto& [id, each] : gathering_) {
      auto const mine = each->come.find(one.rank);
      if (mine == each->come.end() || mine->second != &one) continue;
      end(each, {result::remote_error,
                 "rank " + std::to_string(one.rank) + " has left before all have come"});
      each->come.erase(one.rank);  // if all ranks had joined before
      break;
    }
    auto const found = living_.find(&one);
    auto result = std::move(found->second);
    living_.erase(found);
    return result;
  }

  /// Adds a rank to a communicator whose ranks are in this process or in several ones.
  ///
  /// may_forward: true if the other library, if there is one, may make the communicator
  /// Throws:      refusal for an id with which a communicator was made or refused.
  std::shared_ptr<gathering<P>> join(unique_id const& id, handle<P>& mine, bool may_forward) {
    auto const key = unique_ids::text_of(id);
    bool const has_fallback = fallback() != nullptr;
    auto& found = gathering_[key];
    if (found == nullptr) {
      found = std::make_shared<gathering<P>>();
      found->key = key;
      found->rank_count = mine.rank_count;
      found->may_forward = may_forward && has_fallback;
    }
    auto const here = found;
    if (here->is_over) {
      if (here->is_forwarded) return here;
      if (here->ending.code != result::success) throw refusal(here->ending.code, here->ending.text);
    }
    if (here->is_over || here->is_beginning) {
      refuse_usage("the unique id was used for a communicator already, expected a new one");
    }
    try {
      if (here->come.empty()) open(id, *here);
    } catch (refusal const&) {
      end(here, current_outcome(), here->may_forward);
      return here;
    } catch (...) {  // not a case for the other library: the call itself is wrong
      end(here, current_outcome());
      return here;
    }
    try {
      come(here, mine);
    } catch (...) {
      end(here, current_outcome());
      if (here->is_beginning || here->ending.code == result::success) throw;
    }
    return here;
  }
  /// Begins the communicator if all ranks have joined, also in other processes. Ends the gathering
  /// if that takes too long.
  void expect_all(std::shared_ptr<gathering<P>> const& here) {
    if (here->is_over || here->is_beginning) return;
    if (here->place != nullptr) {
      follow(here);
      if (here->is_over || here->is_beginning) return;
      auto const lost = here->place->lost();
      if (!lost.empty()) {
        return end(here, {result::remote_error, lost + " before all have come"});
      }
    }
    if (std::chrono::steady_clock::now() - here->begun < here->time_limit) return;
    end(here,
        {result::remote_error, "of " + std::to_string(here->rank_count) +
                                   " ranks these have not come: " + here->missing() +
                                   "; if they are on other hosts: " + hint()},
        here->may_forward);
  }

  /// The same for a rank that joins and does not wait.
  void look_after(handle<P> const& mine) {
    for (auto const& [key, each] : gathering_) {
      auto const found = each->come.find(mine.rank);
      if (found == each->come.end() || found->second != &mine) continue;
      return expect_all(each);
    }
  }

  static std::string hint() {
    return "set BLINK_NCCL_FALLBACK to the path of another libnccl, to which it is handed on";
  }

 private:
  using decision = meeting::decision;

  /// Finds the meeting with ranks of other processes, and sets the time within which all ranks must
  /// join.
  ///
  /// Throws: refusal if this process cannot join the meeting.
  void open(unique_id const& id, gathering<P>& here) {
    if (here.rank_count > most_ranks) {
      refuse_usage(std::to_string(here.rank_count) + " ranks, expected at most " +
                   std::to_string(most_ranks) + ": " + hint());
    }
    bool const covers = covers_processes();
    try {
      if (covers) here.place = ids.place_of(id);
      if (!covers && !ids.knows(id)) {
        refuse_usage("the unique id was made by another process, and BLINK_NCCL_PROCESSES is 0");
      }
    } catch (refusal const& problem) {
      refuse_usage(std::string(problem.what()) + ": " + hint());
    }
    here.time_limit = options_wanted().deadline;
    if (!here.may_forward) return;
    // Ranks on other hosts will never join; they have begun in the other library.
    using std::chrono::milliseconds;
    auto const for_the_rest = here.place == nullptr ? milliseconds(500) : milliseconds(10'000);
    here.time_limit = std::min<std::chrono::nanoseconds>(here.time_limit, for_the_rest);
  }
  /// Adds a rank. Throws: refusal if it does not fit the ranks that have joined.
  void come(std::shared_ptr<gathering<P>> const& here, handle<P>& mine) {
    if (here->rank_count != mine.rank_count) {
      refuse_usage("ranks disagree: earlier ranks have passed " + std::to_string(here->rank_count) +
                   " ranks, rank " + std::to_string(mine.rank) + " has passed " +
                   std::to_string(mine.rank_count));
    }
    if (!here->come.try_emplace(mine.rank, &mine).second) {
      refuse_usage("duplicate rank " + std::to_string(mine.rank));
    }
    if (here->place != nullptr) {
      try {
        if (here->place->now().what == decision::open) {
          here->place->come(mine.rank, mine.rank_count, mine.device);
        }
      } catch (...) {
        here->come.erase(mine.rank);
        throw;
      }
      follow(here);
    } else if (static_cast<int>(here->come.size()) == here->rank_count) {
      begin(here);
    }
  }

  /// Ends a gathering that will not be complete, here and in all processes, unless it is complete.
  void end(std::shared_ptr<gathering<P>> const& here, outcome const& why, bool forwards = false) {
    if (here->is_over || here->is_beginning) return;
    auto const what = forwards ? decision::forwarded : decision::refused;
    if (here->place == nullptr) return finish(here, what, why);
    (void)here->place->decide(what, why);
    follow(here);
  }
  /// Carries out the decision that is valid for all processes.
  void follow(std::shared_ptr<gathering<P>> const& here) {
    auto const ruling = here->place->now();
    if (ruling.what == decision::open) return;
    if (ruling.what != decision::complete) return finish(here, ruling.what, ruling.why);
    try {
      roll const all(here->place->guests());
      if (all.members.size() == 1) return begin(here);
      begin_across(here, all);
    } catch (...) {  // the same in all processes
      finish(here, here->may_forward ? decision::forwarded : decision::refused, current_outcome());
    }
  }
  void begin(std::shared_ptr<gathering<P>> const& here) {
    try {
      auto options = options_wanted();
      for (auto const& [rank, one] : here->come) options.devices.push_back(one->device);
      auto const made = std::make_shared<team<P>>(options);
      for (auto const& [rank, one] : here->come) one->all = made;
      finish(here, decision::complete, {});
    } catch (...) {
      finish(here, decision::refused, current_outcome());
    }
  }
  /// Runs in a separate thread, because it waits for other processes, which may begin other
  /// communicators first.
  void begin_across(std::shared_ptr<gathering<P>> const& here, roll const& all) {
    auto options = options_wanted();
    options.devices = all.members[all.own].devices;
    std::thread make([this, here, all, options] {
      std::shared_ptr<team<P>> made;  // destroyed without the lock if this is the last reference
      outcome how;
      try {
        P::use_device(options.devices[0]);  // nothing must be made on another device
        meeting_bootstrap bootstrap(here->place, all, options.deadline);
        made = std::make_shared<team<P>>(options, bootstrap);
      } catch (...) {
        how = current_outcome();
      }
      auto const held = lock();
      int const first = all.members[all.own].first_rank;
      for (int rank = first; made && rank < first + made->ranks_here(); ++rank) {
        auto const found = here->come.find(rank);
        if (found == here->come.end()) {
          made->leave(rank);
        } else {
          found->second->all = made;
        }
      }
      bool const is_made = made != nullptr;
      // Drops this reference if others exist, because it must not outlive owners that destroy
      // theirs at once.
      if (made.use_count() > 1) made.reset();
      finish(here, is_made ? decision::complete : decision::refused, how);
    });
    make.detach();
    here->is_beginning = true;
  }
  void finish(std::shared_ptr<gathering<P>> const& here, decision what, outcome const& how) {
    here->is_forwarded = what == decision::forwarded;
    here->ending = what == decision::refused ? how : outcome{};
    here->is_beginning = false;
    here->is_over = true;
    for (auto const& [rank, one] : here->come) one->trouble = here->ending;
    here->come.clear();
    changed_.notify_all();
    if (what != decision::complete) return;  // later ranks are refused there
    here->place.reset();
    ids.close(here->key);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<communicator const*, std::unique_ptr<handle<P>>> living_;
  // by unique id, also those that are over
  std::map<std::string, std::shared_ptr<gathering<P>>> gathering_;
};

}  // namespace blink_nccl
