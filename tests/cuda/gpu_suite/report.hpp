// SPDX-License-Identifier: Apache-2.0
#pragma once

// The results of the suite, as text and as JSON.

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace gpu_suite {

[[nodiscard]] inline std::string quoted(std::string const& text) {
  std::string result = "\"";
  for (char const c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return result + "\"";
}

/// One part of the suite: cases, and figures by name.
class part {
 public:
  part(std::string name, double seconds)
      : name_(std::move(name)), begin_(clock::now()), seconds_(seconds) {}

  /// True if there is time for another case. Otherwise the case counts as left out.
  [[nodiscard]] bool has_time() {
    if (elapsed() < seconds_ * share_) return true;
    ++left_out_;
    return false;
  }
  /// Runs works one after the other. Each ends by its equal share of the time, and time that one
  /// leaves goes to the next.
  template <class... Works>
  void in_equal_shares(Works const&... works) {
    double ended = 0;
    ((share_ = ++ended / sizeof...(works), works()), ...);
  }
  /// what: empty if the case passed
  void add(std::string const& where, std::string const& what) {
    ++cases_;
    if (what.empty()) return;
    ++failed_;
    if (failures_.size() < 20) failures_.push_back(where + ": " + what);
    std::printf("  %s: %s: %s\n", name_.c_str(), where.c_str(), what.c_str());
  }
  void figure(std::string const& name, double value) { figures_.emplace_back(name, value); }
  /// Adds a figure with a lower limit; a note reports if it is missed.
  void at_least(std::string const& name, double bar, double value) {
    compare(name, " (at least ", bar, value, value >= bar);
  }
  void at_most(std::string const& name, double bar, double value) {
    compare(name, " (at most ", bar, value, value <= bar);
  }
  void note(std::string const& text) { notes_.push_back(text); }
  void end() {
    took_ = elapsed();
    std::printf("%-10s %6zu cases, %zu wrong, %zu left out, %.1f s\n", name_.c_str(), cases_,
                failed_, left_out_, took_);
    for (auto const& [name, value] : figures_) std::printf("  %-48s %.6g\n", name.c_str(), value);
    for (auto const& text : notes_) std::printf("  %s\n", text.c_str());
    std::fflush(stdout);
  }
  [[nodiscard]] std::size_t failed() const { return failed_; }
  [[nodiscard]] std::string json() const {
    std::string text = quoted(name_) + ": {\"cases\": " + std::to_string(cases_) +
                       ", \"wrong\": " + std::to_string(failed_) +
                       ", \"left_out\": " + std::to_string(left_out_) +
                       ", \"seconds\": " + std::to_string(took_);
    for (auto const& [name, value] : figures_) {
      char number[64];
      std::snprintf(number, sizeof number, "%.9g", value);
      text += ", " + quoted(name) + ": " + number;
    }
    auto const list = [&](char const* name, std::vector<std::string> const& all) {
      text += std::string(", \"") + name + "\": [";
      for (std::size_t k = 0; k < all.size(); ++k) text += (k == 0 ? "" : ", ") + quoted(all[k]);
      text += "]";
    };
    list("failures", failures_);
    list("notes", notes_);
    return text + "}";
  }

 private:
  using clock = std::chrono::steady_clock;
  void compare(std::string const& name, char const* way, double bar, double value, bool is_met) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", bar);
    figure(name + way + text + ")", value);
    if (!is_met) note(name + way + text + "): missed");
  }
  [[nodiscard]] double elapsed() const {
    return std::chrono::duration<double>(clock::now() - begin_).count();
  }

  std::string name_;
  clock::time_point begin_;
  double seconds_;
  double share_ = 1;  // of `seconds_`, at which the present work ends
  double took_ = 0;
  std::size_t cases_ = 0, failed_ = 0, left_out_ = 0;
  std::vector<std::string> failures_, notes_;
  std::vector<std::pair<std::string, double>> figures_;
};

}  // namespace gpu_suite
