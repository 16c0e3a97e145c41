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
    for (std::thread::id none; !user_.compare_exchange_weak(none, std::this_thread::get_id());
         none = {}) {
      std::this_thread::yield();
    }
  }
  /// report: (std::string const& why) -> void, called if a failure was asked for
  template <class Report>
  void exit(Report const& report) {
    user_.store({});
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
  template <class Report>
  void report_if_free(Report const& report) {
    for (std::thread::id none;
         is_asked_.load() && user_.compare_exchange_strong(none, std::this_thread::get_id());
         user_.store({})) {
      if (auto const why = take()) report(*why);
    }
  }

  std::atomic<std::thread::id> user_{};
  std::atomic<bool> is_asked_ = false;
  std::mutex mutex_;
  std::string why_;
};

}}}  // namespace blink::BLINK_ABI::detail
