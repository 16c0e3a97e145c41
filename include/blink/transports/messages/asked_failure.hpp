// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The failures that any thread may ask for, of a communicator that one thread at a time uses.
///
/// That thread is inside between `enter` and `exit`. It reports what was asked for while it waits.
/// If no thread is inside, the one that asks reports.
class asked_failure {
 public:
  /// Waits while another thread reports.
  void enter() {
    for (auto now = state_.load();
         now == state::reporting || !state_.compare_exchange_weak(now, state::inside);
         now = state_.load()) {
      std::this_thread::yield();
    }
    user_.store(std::this_thread::get_id());
  }
  /// report: (std::string const& why) -> void, called if a failure was asked for
  template <class Report>
  void exit(Report const& report) {
    user_.store({});
    state_.store(state::idle);
    report_if_free(report);
  }
  template <class Report>
  void ask(std::string const& why, Report const& report) {
    if (user_.load() == std::this_thread::get_id()) return report(why);
    {
      std::lock_guard const held(mutex_);
      why_ = why;
    }
    is_asked_.store(true);
    report_if_free(report);
  }
  /// Called by the thread that is inside. Returns why, if a failure was asked for.
  [[nodiscard]] std::optional<std::string> take() {
    if (!is_asked_.load() || !is_asked_.exchange(false)) return std::nullopt;
    std::lock_guard const held(mutex_);
    return why_;
  }

 private:
  enum class state : unsigned char { idle, inside, reporting };

  template <class Report>
  void report_if_free(Report const& report) {
    while (is_asked_.load()) {
      auto now = state::idle;
      if (!state_.compare_exchange_strong(now, state::reporting)) return;
      if (auto const why = take()) report(*why);
      state_.store(state::idle);
    }
  }

  std::atomic<state> state_ = state::idle;
  std::atomic<std::thread::id> user_{};  // that is inside
  std::atomic<bool> is_asked_ = false;
  std::mutex mutex_;
  std::string why_;
};

}}}  // namespace blink::BLINK_ABI::detail
