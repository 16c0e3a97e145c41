// SPDX-License-Identifier: Apache-2.0
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>

#include <gtest/gtest.h>

#include <cstdint>

using blink::rational;

TEST(rational, is_in_lowest_terms_with_a_positive_denominator) {
  EXPECT_EQ(rational(6, -4), rational(-3, 2));
  EXPECT_EQ(rational(6, -4).denominator(), 2);
  EXPECT_EQ(rational(0, -7), rational(0));
}

TEST(rational, computes_exactly) {
  EXPECT_EQ(rational(1, 3) + rational(1, 6), rational(1, 2));
  EXPECT_EQ(rational(24, 7) * rational(7, 24), rational(1));
  EXPECT_EQ(rational(25) / rational(7) - rational(25, 7), rational(0));
  EXPECT_LT(rational(33, 10), rational(24, 7));
}

TEST(rational, throws_instead_of_wrapping) {
  rational const large(INT64_MAX);
  EXPECT_THROW((void)(large * large), blink::overflow_error);
  EXPECT_THROW((void)(large + large), blink::overflow_error);
  EXPECT_THROW((void)(large * rational(2) / rational(2)), blink::overflow_error);
}

TEST(rational, refuses_a_zero_denominator) {
  EXPECT_THROW((void)rational(1, 0), blink::precondition_error);
  EXPECT_THROW((void)(rational(1) / rational(0)), blink::precondition_error);
}

TEST(rational, ratios_in_floating_point_take_any_numbers) {
  rational const a(147603456000, 1404788527), b(44478469224320, 423315577531);
  EXPECT_THROW((void)(a / b), blink::overflow_error);
  EXPECT_NEAR(ratio(a, b), 1, 1e-7);
  EXPECT_LT(ratio(a, b), 1);
  EXPECT_EQ(ratio(b, b), 1);
}

TEST(rational, text_round_trips) {
  for (auto const& value : {rational(24, 7), rational(-3, 2), rational(6), rational(0)}) {
    EXPECT_EQ(rational::from_text(value.to_text()), value);
  }
  EXPECT_EQ(rational::from_text("12.5"), rational(25, 2));
  EXPECT_EQ(rational::from_text("-0.5"), rational(-1, 2));
}

TEST(rational, refuses_other_text) {
  for (auto const* text : {"", "x", "1/0", "1/-2", "1/", "/2", "1.", "1.2.3", "1e3", "1 ", " 1",
                           "99999999999999999999", "nan"}) {
    EXPECT_FALSE(rational::from_text(text).has_value()) << text;
  }
}
