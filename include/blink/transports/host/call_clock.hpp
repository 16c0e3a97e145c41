// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace blink { inline namespace BLINK_ABI {

/// How many calls of other communicators a process had made when it made a call: a vector clock. Two
/// processes have made the calls of two communicators in the same order if and only if, at each of
/// them, both had made as many of the other one.
///
/// Source: C. Fidge, "Timestamps in message-passing systems that preserve the partial ordering", 1988;
///         F. Mattern, "Virtual time and global states of distributed systems", 1989.
struct call_clock {
  /// More are left out: a difference with them is not found.
  static constexpr std::size_t most = 32;

  struct mark {
    std::uint64_t communicator = 0;  ///< a number that all its processes know it by
    std::uint64_t calls = 0;
    std::uint32_t ordinal = 0;  ///< which of its process's communicators it is, counted from 1
  };

  std::uint64_t own = 0;  ///< calls of its own communicator, with this one; 0: it is not compared
  std::uint32_t count = 0;
  std::array<mark, most> marks{};

  void add(mark const& one) {
    if (count < most) marks[count++] = one;
  }

  /// What is known of that communicator; null: nothing.
  [[nodiscard]] mark const* find(std::uint64_t communicator) const {
    auto const end = marks.begin() + count;
    auto const found = std::find_if(
        marks.begin(), end, [&](mark const& one) { return one.communicator == communicator; });
    return found == end ? nullptr : &*found;
  }

  /// Where this process's order is not that of another one, in words: for the same call of a communicator.
  /// Empty: among the communicators that both have, all is in order.
  ///
  /// name, other: how the processes are called
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
  /// The same of a process that has not made this call, but one of another communicator: its `mark` is what this
  /// process had made of that when it made its own.
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
