// SPDX-License-Identifier: Apache-2.0
// Spans of time that do not need <chrono>.

#include <blink/core/duration.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <ratio>

namespace duration_test { namespace {

using blink::nanoseconds;

TEST(nanoseconds, are_made_of_durations_without_loss) {
  EXPECT_EQ(nanoseconds(std::chrono::nanoseconds(7)).count(), 7);
  EXPECT_EQ(nanoseconds(std::chrono::microseconds(-7)).count(), -7'000);
  EXPECT_EQ(nanoseconds(std::chrono::milliseconds(200)).count(), 200'000'000);
  EXPECT_EQ(nanoseconds(std::chrono::hours(2)).count(), 7'200'000'000'000);
  using thirds = std::chrono::duration<int, std::ratio<1'000'000, 3>>;  // of a megasecond
  static_assert(!std::convertible_to<thirds, nanoseconds>);
  using halves = std::chrono::duration<int, std::ratio<1, 2>>;
  EXPECT_EQ(nanoseconds(halves(3)).count(), 1'500'000'000);
  static_assert(!std::convertible_to<std::chrono::duration<double>, nanoseconds>);
  static_assert(!std::convertible_to<std::chrono::duration<std::int64_t, std::pico>, nanoseconds>);
  static_assert(!std::convertible_to<std::int64_t, nanoseconds>, "the unit would be unknown");
}

TEST(nanoseconds, become_those_of_chrono_and_no_others) {
  std::chrono::nanoseconds const same = nanoseconds(1'234);
  EXPECT_EQ(same.count(), 1'234);
  static_assert(!std::convertible_to<nanoseconds, std::chrono::milliseconds>);
  auto const later =
      std::chrono::steady_clock::time_point() + std::chrono::nanoseconds(nanoseconds(5));
  EXPECT_EQ(later.time_since_epoch().count(), 5);
}

TEST(nanoseconds, are_ordered) {
  EXPECT_LT(nanoseconds(-1), nanoseconds());
  EXPECT_EQ(nanoseconds(), nanoseconds(0));
  EXPECT_GT(nanoseconds(std::chrono::seconds(1)), nanoseconds(std::chrono::milliseconds(999)));
}

}}  // namespace duration_test
