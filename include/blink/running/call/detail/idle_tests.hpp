// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/call/world_options.hpp>

#include <cstdint>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// For how long a call has been tested again and again while nothing of it moved.
///
/// The time from one such test to the next counts, but each time at most a sixteenth of the deadline: who
/// computes for longer between two tests has not waited. So a call that does not move is given up after so
/// many tests or more, however far they are apart, and never at the first one after a long computation.
class idle_tests {
 public:
  void after_progress() { *this = {}; }
  /// Nothing moved; `time` is in nanoseconds. Returns whether it is time to look why, which costs more
  /// than a test and is done as often as by ranks that wait.
  [[nodiscard]] bool after_none(std::uint64_t time, patience_options const& limits) {
    if (last_ == 0) last_ = looked_ = time;
    std::uint64_t const most = static_cast<std::uint64_t>(limits.deadline.count()) / 16 + 1;
    waited_ += time - last_ < most ? time - last_ : most;
    last_ = time;
    if (time - looked_ < longest_nap(limits)) return false;
    looked_ = time;
    has_looked_ = true;
    return true;
  }
  [[nodiscard]] std::uint64_t waited() const { return waited_; }  ///< nanoseconds
  [[nodiscard]] bool has_looked() const { return has_looked_; }

 private:
  std::uint64_t last_ = 0;  // 0: none since something moved
  std::uint64_t looked_ = 0;
  std::uint64_t waited_ = 0;
  bool has_looked_ = false;
};

}}}  // namespace blink::BLINK_ABI::detail
