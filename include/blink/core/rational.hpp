// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>

#include <charconv>
#include <cmath>
#include <compare>
#include <concepts>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace blink { inline namespace BLINK_ABI {

/// An exact fraction of two 64-bit integers, in lowest terms, with a positive denominator.
///
/// Weights, rates and bounds are fractions, because a decimal number such as 3.4286 is not 24/7.
/// Every operation is exact. `overflow_error` is thrown if a result does not fit;
/// `boost::rational<std::int64_t>` would wrap around. Intermediate values have 128 bits.
class rational {
 public:
  constexpr rational() = default;

  template <std::integral I>
  constexpr rational(I value) : numerator_(static_cast<std::int64_t>(value)) {  // NOLINT: a number
    if (!std::in_range<std::int64_t>(value))
      throw overflow_error("rational: the value exceeds 64 bits, expected at most 64");
  }

  /// Pre: denominator != 0.
  constexpr rational(std::int64_t numerator, std::int64_t denominator)
      : rational(reduced(numerator, denominator)) {}

  [[nodiscard]] constexpr std::int64_t numerator() const { return numerator_; }
  [[nodiscard]] constexpr std::int64_t denominator() const { return denominator_; }
  [[nodiscard]] constexpr double to_double() const {
    return static_cast<double>(numerator_) / static_cast<double>(denominator_);
  }
  /// The number as text: "24/7", or "6" for an integer.
  [[nodiscard]] std::string to_text() const {
    return denominator_ == 1 ? std::to_string(numerator_)
                             : std::to_string(numerator_) + "/" + std::to_string(denominator_);
  }

  /// Reads the output of `to_text`, and plain decimals such as "12.5". Returns nothing for any
  /// other text.
  [[nodiscard]] static std::optional<rational> from_text(std::string_view text);

  friend constexpr rational operator+(rational const& a, rational const& b) {
    if (a.denominator_ == b.denominator_) {
      return reduced(wide{a.numerator_} + b.numerator_, a.denominator_);
    }
    return reduced(wide{a.numerator_} * b.denominator_ + wide{b.numerator_} * a.denominator_,
                   wide{a.denominator_} * b.denominator_);
  }
  friend constexpr rational operator-(rational const& a) { return rational{} - a; }
  friend constexpr rational operator-(rational const& a, rational const& b) {
    return reduced(wide{a.numerator_} * b.denominator_ - wide{b.numerator_} * a.denominator_,
                   wide{a.denominator_} * b.denominator_);
  }
  friend constexpr rational operator*(rational const& a, rational const& b) {
    return reduced(wide{a.numerator_} * b.numerator_, wide{a.denominator_} * b.denominator_);
  }
  /// Pre: b != 0.
  friend constexpr rational operator/(rational const& a, rational const& b) {
    return reduced(wide{a.numerator_} * b.denominator_, wide{a.denominator_} * b.numerator_);
  }
  constexpr rational& operator+=(rational const& b) { return *this = *this + b; }
  constexpr rational& operator-=(rational const& b) { return *this = *this - b; }
  constexpr rational& operator*=(rational const& b) { return *this = *this * b; }
  constexpr rational& operator/=(rational const& b) { return *this = *this / b; }

  friend constexpr bool operator==(rational const&, rational const&) = default;
  friend constexpr std::strong_ordering operator<=>(rational const& a, rational const& b) {
    return wide{a.numerator_} * b.denominator_ <=> wide{b.numerator_} * a.denominator_;
  }

 private:
  __extension__ typedef __int128 wide;

  // Divisions of 64 bits take a tenth of the time of those of 128.
  static constexpr wide common_divisor(wide a, wide b) {
    for (; a > INT64_MAX || b > INT64_MAX; std::swap(a, b)) {
      if (a == 0) return b;
      b %= a;
    }
    return std::gcd(static_cast<std::int64_t>(a), static_cast<std::int64_t>(b));
  }

  static constexpr rational reduced(wide numerator, wide denominator) {
    expects(denominator != 0, "rational: the denominator is zero, expected another value");
    if (denominator < 0) {
      numerator = -numerator;
      denominator = -denominator;
    }
    wide const divisor = common_divisor(numerator < 0 ? -numerator : numerator, denominator);
    numerator /= divisor;
    denominator /= divisor;
    constexpr wide largest = INT64_MAX;
    if (numerator > largest || numerator < -largest || denominator > largest) {
      throw overflow_error("rational: the result exceeds 64 bits, expected at most 64");
    }
    rational result;
    result.numerator_ = static_cast<std::int64_t>(numerator);
    result.denominator_ = static_cast<std::int64_t>(denominator);
    return result;
  }

  std::int64_t numerator_ = 0;
  std::int64_t denominator_ = 1;
};

/// The quotient in floating point, also where that of `/` would exceed 64 bits.
///
/// Pre: b is not 0.
[[nodiscard]] constexpr double ratio(rational const& a, rational const& b) {
  return a.to_double() / b.to_double();
}

inline std::optional<rational> rational::from_text(std::string_view text) {
  auto const integer = [](std::string_view digits) -> std::optional<std::int64_t> {
    std::int64_t value = 0;
    auto const [end, failure] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (failure != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
    return value;
  };
  auto const all_digits = [](std::string_view digits) {
    return digits.find_first_not_of("0123456789") == std::string_view::npos;
  };
  try {
    if (auto const slash = text.find('/'); slash != std::string_view::npos) {
      auto const below = text.substr(slash + 1);
      auto const top = integer(text.substr(0, slash));
      auto const bottom = integer(below);
      if (!top || !bottom || !all_digits(below) || *bottom == 0) return std::nullopt;
      return rational(*top, *bottom);
    }
    if (auto const point = text.find('.'); point != std::string_view::npos) {
      auto const whole = text.substr(0, point);
      auto const decimals = text.substr(point + 1);
      if (decimals.empty() || decimals.size() > 15 || !all_digits(decimals)) return std::nullopt;
      auto const front = integer(whole);
      auto const behind = integer(decimals);
      if (!front || !behind) return std::nullopt;
      std::int64_t scale = 1;
      for (std::size_t i = 0; i < decimals.size(); ++i) scale *= 10;
      rational const fraction(*behind, scale);
      return whole.front() == '-' ? rational(*front) - fraction : rational(*front) + fraction;
    }
    if (auto const value = integer(text)) return rational(*value);
  } catch (overflow_error const&) {  // a number that does not fit is treated as invalid text
  }
  return std::nullopt;
}

}}  // namespace blink::BLINK_ABI

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The least common multiple of positive numbers.
/// Throws: overflow_error if it exceeds 64 bits.
[[nodiscard]] constexpr std::int64_t common_multiple(std::int64_t a, std::int64_t b) {
  return (rational(a) * (b / std::gcd(a, b))).numerator();
}

/// The least denominator up to `most` that makes all values nearly integers, found by continued
/// fractions. It is a multiple of `first`. Returns nothing if there is none.
[[nodiscard]] inline std::optional<std::int64_t> common_denominator(std::span<double const> values,
                                                                    std::int64_t first,
                                                                    std::int64_t most) {
  constexpr double closeness = 1e-6;
  std::int64_t result = first;
  for (double const value : values) {
    double const scaled = value * static_cast<double>(result);
    double rest = std::abs(scaled - std::round(scaled));
    // Denominators of the convergents of the fractional part.
    std::int64_t before = 0, denominator = 1;
    while (std::abs(scaled * static_cast<double>(denominator) -
                    std::round(scaled * static_cast<double>(denominator))) > closeness) {
      if (rest < closeness) return std::nullopt;
      double const inverse = 1 / rest;
      auto const digit = static_cast<std::int64_t>(inverse);
      rest = inverse - static_cast<double>(digit);
      before = std::exchange(denominator, digit * denominator + before);
      if (denominator > most / result) return std::nullopt;
    }
    result *= denominator;
  }
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
