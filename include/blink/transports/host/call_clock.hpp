// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace blink { inline namespace BLINK_ABI {

/// The number of calls of other communicators that a process had made when it made a call: a vector
/// clock.
///
/// Two processes compare their counts at each call. Their calls of two communicators have the same
/// order if and only if the counts of the other communicator are equal.
///
/// Source: C. Fidge, "Timestamps in message-passing systems that preserve the partial ordering",
///         1988; F. Mattern, "Virtual time and global states of distributed systems", 1989.
struct call_clock {
  /// The most communicators that are compared. Differences with further ones are not found.
  static constexpr std::size_t most = 32;

  struct mark {
    std::uint64_t communicator = 0;  ///< a number that is the same in all its processes
    std::uint64_t calls = 0;
    /// its number among the communicators of its process, counted from 1
    std::uint32_t ordinal = 0;
  };

  /// calls of its own communicator, including this one; 0: it is not compared
  std::uint64_t own = 0;
  std::uint32_t count = 0;
  std::array<mark, most> marks{};

  void add(mark const& one) {
    if (count < most) marks[count++] = one;
  }

  /// Returns the mark of that communicator; null: none.
  [[nodiscard]] mark const* find(std::uint64_t communicator) const {
    auto const end = marks.begin() + count;
    auto const found = std::find_if(
        marks.begin(), end, [&](mark const& one) { return one.communicator == communicator; });
    return found == end ? nullptr : &*found;
  }

  /// Returns in words where this process's order differs from that of another one, for the same
  /// call of a communicator. Empty if the order of all common communicators is the same.
  ///
  /// name, other: the names of the processes
  [[nodiscard]] std::string difference(call_clock const& theirs, std::string const& name,
                                       std::string const& other) const {
    for (std::uint32_t k = 0; k < count; ++k) {
      auto const* const same = theirs.find(marks[k].communicator);
      if (same == nullptr || same->calls == marks[k].calls) continue;
      return name + " makes it after " + std::to_string(marks[k].calls) + of_another(marks[k]) +
             ", " + other + " after " + std::to_string(same->calls) + " (its number " +
             std::to_string(same->ordinal) + "): " + expected;
    }
    return "";
  }
  /// Returns the difference from a process that has not made this call, but a later call of another
  /// communicator. `at` holds the calls of that communicator that this process had made before this
  /// call.
  [[nodiscard]] static std::string overtaken(mark const& at, std::string const& other) {
    return other + " has made more than " + std::to_string(at.calls) + of_another(at) +
           ", which were made here before this one: " + expected;
  }

 private:
  static constexpr char const* expected = "expected the same order of their calls in all processes";

  [[nodiscard]] static std::string of_another(mark const& one) {
    return " calls of another communicator with a device in common (its number " +
           std::to_string(one.ordinal) + ")";
  }
};

}}  // namespace blink::BLINK_ABI
