// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

namespace blink::tools {

/// The line of a bar after so many seconds.
///
/// total:  parts of the work; 0: not known, so there is no bar
/// budget: seconds that the work may take; 0: not known
[[nodiscard]] inline std::string progress_line(std::string const& about, std::size_t done,
                                               std::size_t total, double seconds, double budget) {
  constexpr std::size_t width = 24, longest = 60;
  auto const number = [](double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.0f s", value);
    return std::string(text);
  };
  std::string line;
  if (total > 0) {
    done = std::min(done, total);
    line.assign(width * done / total, '#');
    line.resize(width, '.');
    line = "[" + line + "] " + std::to_string(done) + "/" + std::to_string(total) + " ";
  }
  return line + about.substr(0, longest) + ", " + number(seconds) +
         (budget > 0 ? " of at most " + number(budget) : "");
}

/// A bar on a terminal for work of more than two seconds. Other outputs see nothing of it.
///
/// The bar is one line of standard error. A thread keeps its seconds going, on terminals only, and
/// it disappears with the object.
class progress {
 public:
  /// Parameters as of `progress_line`.
  explicit progress(std::string about, std::size_t total = 0, double budget = 0)
      : about_(std::move(about)), total_(total), budget_(budget) {
    if (::isatty(2) != 0) {
      thread_ = std::jthread([this](std::stop_token const& stop) { run(stop); });
    }
  }
  progress(progress const&) = delete;
  progress& operator=(progress const&) = delete;
  ~progress() {
    if (thread_.joinable()) {
      thread_.request_stop();
      thread_.join();
    }
    clear();
  }

  /// Begins another part of the work, with parts of its own.
  void begin(std::string about, std::size_t total) {
    std::lock_guard const lock(mutex_);
    about_ = std::move(about);
    total_ = total;
    done_ = 0;
    is_paused_ = false;
  }
  /// Counts a part that has ended.
  void step() {
    std::lock_guard const lock(mutex_);
    ++done_;
    is_paused_ = false;
  }
  /// Names the part that begins.
  void name(std::string about) {
    std::lock_guard const lock(mutex_);
    about_ = std::move(about);
    is_paused_ = false;
  }
  /// Removes the line until the next of the calls above, before something else is printed.
  void clear() {
    std::lock_guard const lock(mutex_);
    if (is_shown_) std::fputs("\r\033[K", stderr);
    is_shown_ = false;
    is_paused_ = true;
  }

 private:
  void run(std::stop_token const& stop) {
    using namespace std::chrono_literals;
    constexpr std::chrono::milliseconds least = 2s, between = 200ms;
    auto const begun = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      (void)woken_.wait_for(lock, stop, between, [] { return false; });
      auto const elapsed = std::chrono::steady_clock::now() - begun;
      if (stop.stop_requested() || is_paused_ || elapsed < least) continue;
      auto const seconds = std::chrono::duration<double>(elapsed).count();
      std::fprintf(stderr, "\r\033[K%s",
                   progress_line(about_, done_, total_, seconds, budget_).c_str());
      is_shown_ = true;
    }
  }

  std::string about_;
  std::size_t total_;
  double budget_;
  std::size_t done_ = 0;
  bool is_shown_ = false;
  bool is_paused_ = false;
  std::mutex mutex_;
  std::condition_variable_any woken_;
  std::jthread thread_;
};

}  // namespace blink::tools
