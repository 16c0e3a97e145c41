// SPDX-License-Identifier: Apache-2.0
// Texts joined from pieces.

#include <blink/core/text.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <string_view>

namespace text_test { namespace {

using blink::detail::text_of;

TEST(text, has_pieces_in_their_order) {
  std::string const name = "sum";
  std::string_view const part = std::string_view("all_reduce, and more").substr(0, 10);
  EXPECT_EQ(text_of({"rank ", 3, " calls ", part, " of ", name, ""}),
            "rank 3 calls all_reduce of sum");
  EXPECT_EQ(text_of({}), "");
}

TEST(text, writes_numbers_as_the_standard_library_does) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 2000; ++round) {
    auto const bits = random() >> random() % 64;
    EXPECT_EQ(text_of({bits}), std::to_string(bits));
    EXPECT_EQ(text_of({static_cast<std::int64_t>(bits)}),
              std::to_string(static_cast<std::int64_t>(bits)));
    EXPECT_EQ(text_of({static_cast<int>(bits)}), std::to_string(static_cast<int>(bits)));
    EXPECT_EQ(text_of({static_cast<unsigned>(bits)}), std::to_string(static_cast<unsigned>(bits)));
    double const real = static_cast<double>(bits) * 1e-9;
    EXPECT_EQ(text_of({real}), std::to_string(real));
  }
  for (double const real :
       {0.0, -1.5, std::numeric_limits<double>::max(), std::numeric_limits<double>::lowest(),
        std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(text_of({real}), std::to_string(real));
  }
}

}}  // namespace text_test
