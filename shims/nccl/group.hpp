// SPDX-License-Identifier: Apache-2.0
#pragma once

// The calls of a thread between ncclGroupStart and ncclGroupEnd. They begin together when the group
// ends, so that one thread can call for all ranks.

#include "abi.hpp"
#include "errors.hpp"
#include "fallback.hpp"
#include "handle.hpp"
#include "library.hpp"
#include "platform.hpp"
#include "request.hpp"
#include "team.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace blink_nccl {

/// The group of one thread. A call outside of a group is its own group.
template <platform P>
class group {
 public:
  static group& of_thread() {
    thread_local group one;
    return one;
  }

  void start() {
    if (depth_ == 0 && fallback() != nullptr && fallback()->GroupStart != nullptr) {
      (void)fallback()->GroupStart();
      is_open_there_ = true;
    }
    ++depth_;
  }
  /// Throws: refusal without a group.
  [[nodiscard]] outcome end() {
    if (depth_ == 0) refuse_usage("no open group, expected an earlier ncclGroupStart");
    return --depth_ == 0 ? run() : outcome{};
  }
  /// Records that a call of the group failed, so that no call of the group will run.
  void note(outcome const& how) {
    if (depth_ > 0 && trouble_.code == result::success) trouble_ = how;
  }
  /// Ends the group without its calls. Times are not predicted.
  ///
  /// Throws: refusal without a group, within another one, or if the group has calls of the other
  ///         library, which cannot simulate them.
  [[nodiscard]] outcome simulate(simulation_info& info) {
    if (depth_ == 0) refuse_usage("no open group, expected an earlier ncclGroupStart");
    if (depth_ > 1) refuse_usage("the group is within another one, expected the outermost group");
    if (is_open_there_) expect_there(fallback()->GroupSimulateEnd);
    info.time = simulation_info::unknown_time;
    outcome how = trouble_;
    if (std::exchange(is_open_there_, false)) {
      keep_first(how, call_there(fallback()->GroupSimulateEnd, &info));
    }
    depth_ = 0;
    trouble_ = {result::invalid_usage, "the group was only simulated"};
    (void)run();
    return how;
  }

  /// Adds a rank's call, which runs when the group ends, or at once outside of a group. Called with
  /// the lock of the library.
  [[nodiscard]] outcome add(handle<P>& mine, request<P> one, typename library<P>::lock_type& held) {
    mine.expect_usable();
    calls_.push_back({&mine, std::move(one)});
    if (depth_ > 0) return {};
    held.unlock();
    return run();
  }
  /// A rank that waits for the other ranks of its communicator.
  struct beginning {
    handle<P>* mine;
    communicator** target;
    std::shared_ptr<gathering<P>> here;
    unique_id id;
    configuration* config;
    bool grows = false;  ///< it joins the ranks of a communicator that exists
  };
  [[nodiscard]] outcome add(beginning const& one) {
    beginnings_.push_back(one);
    return depth_ > 0 ? outcome{} : run();
  }
  /// Adds a call on a communicator that begins in this group and ends with it.
  ///
  /// one: without a target
  [[nodiscard]] outcome add(beginning const& one, request<P> call) {
    calls_.push_back({one.mine, std::move(call)});
    return add(one);
  }

 private:
  struct call_of {
    handle<P>* mine;
    request<P> one;
  };
  struct running {
    std::shared_ptr<team<P>> all;
    std::shared_ptr<batch<P>> calls;
    bool blocks;
  };

  [[nodiscard]] outcome run() {
    auto const beginnings = std::exchange(beginnings_, {});
    auto calls = std::exchange(calls_, {});
    outcome how = std::exchange(trouble_, {});
    std::vector<handle<P>*> temporary;
    try {
      for (auto const& one : beginnings) {
        auto const made = begin(one, how);
        if (one.target == nullptr && is_well(made)) temporary.push_back(one.mine);
        keep_first(how, made);
      }
      if (is_well(how)) keep_first(how, run_calls(calls));
    } catch (...) {
      how = current_outcome();
    }
    end_temporary(temporary);
    if (std::exchange(is_open_there_, false)) keep_first(how, call_there(fallback()->GroupEnd));
    return how;
  }
  static void keep_first(outcome& all, outcome const& next) {
    if (is_well(all) && next.code != result::success) all = next;
  }
  static void end_temporary(std::vector<handle<P>*> const& list) {
    if (list.empty()) return;
    auto& home = library<P>::the();
    std::vector<std::unique_ptr<handle<P>>> gone;  // destroyed without the lock
    auto const held = home.lock();
    for (auto* const one : list) {
      one->all->leave(one->rank);
      gone.push_back(home.forget(*one));
    }
    home.notify();
  }

  [[nodiscard]] static outcome begin(beginning const& one, outcome const& before) {
    auto& home = library<P>::the();
    std::unique_ptr<handle<P>> gone;  // destroyed without the lock
    auto held = home.lock();
    outcome how = before;
    if (is_well(before)) {
      if (!one.mine->blocks && !one.here->is_over && fallback() == nullptr) {
        return {result::in_progress, "not all ranks have come yet"};
      }
      home.wait(held, [&] { return one.here->is_over; }, [&] { home.expect_all(one.here); });
      how = one.here->ending;
      if (one.here->is_forwarded) {
        how = begin_there(one, held);
      }
    }
    if (!is_well(how)) {
      gone = home.forget(*one.mine);
      if (one.target != nullptr) *one.target = nullptr;
    }
    return how;
  }
  /// Begins a rank in the other library, without the lock.
  [[nodiscard]] static outcome begin_there(beginning const& one,
                                           typename library<P>::lock_type& held) {
    auto& there = *fallback();
    auto const id = unique_ids::without_mark(one.id);
    auto const count = one.mine->rank_count;
    int const rank = one.mine->rank;
    communicator* theirs = nullptr;
    outcome how{result::invalid_usage, "the other library lacks ncclCommGrow"};
    held.unlock();
    if (!one.grows) {
      how = {there.CommInitRankConfig(&theirs, count, id, rank, one.config), in_other_library};
    } else if (there.CommGrow != nullptr) {
      how = {there.CommGrow(nullptr, count, &id, rank, &theirs, one.config), in_other_library};
    }
    held.lock();
    one.mine->forwarded = theirs;
    return how;
  }

  [[nodiscard]] static outcome run_calls(std::vector<call_of>& list) {
    auto& home = library<P>::the();
    std::vector<running> all;  // destroyed without the lock
    auto held = home.lock();
    // All processes take communicators in the same order, whatever their order within the group.
    std::vector<std::pair<handle<P>*, std::vector<request<P>>>> by_handle;
    for (auto& each : list) {
      auto const end = by_handle.end();
      auto at = std::find_if(by_handle.begin(), end,
                             [&](auto const& known) { return known.first == each.mine; });
      if (at == end) {
        auto const is_before = [](std::uint64_t number, auto const& known) {
          return number < known.first->all->number();
        };
        auto const number = home.find(each.mine).all->number();
        at = std::upper_bound(by_handle.begin(), end, number, is_before);
        at = by_handle.insert(at, {each.mine, {}});
      }
      at->second.push_back(std::move(each.one));
    }
    for (auto const& [mine, calls] : by_handle) {
      auto& now = home.find(mine);
      now.all->check(now.rank, calls);
    }
    for (auto& [mine, calls] : by_handle) {
      mine->latest = mine->all->submit(mine->rank, std::move(calls));
      all.push_back({mine->all, mine->latest, mine->blocks});
    }
    for (auto const& one : all) {
      one.all->progress(held);
      // Calls of the next communicator must follow those that another thread is about to put into
      // streams.
      home.wait(held, [&] { return !one.all->is_busy(); }, [] {});
    }
    home.notify();
    outcome how;
    for (auto const& one : all) {
      if (one.blocks) {
        home.wait(
            held, [&] { return one.calls->is_over; },
            [&] { one.all->expect_progress(*one.calls); });
      }
      keep_first(how, one.calls->is_over
                          ? one.calls->ending
                          : outcome{result::in_progress, "not all ranks have called yet"});
    }
    return how;
  }

  int depth_ = 0;
  bool is_open_there_ = false;
  outcome trouble_;
  std::vector<call_of> calls_;
  std::vector<beginning> beginnings_;
};

}  // namespace blink_nccl
