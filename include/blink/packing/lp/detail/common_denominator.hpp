// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The least denominator up to `most` that makes all values (nearly) integers, found by continued
/// fractions; nothing if there is none.
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
