// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

// Parts of a buffer and rates with few bits, so that long sums of them fit into 64 bits.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The steps of which the parts below are multiples, in a buffer.
inline constexpr std::int64_t steps_of_buffer = std::int64_t{1} << 20;

/// The nearest part, the smallest that is not below, and the largest that is not above.
[[nodiscard]] inline rational nearest_part(double part) {
  return {std::llround(part * static_cast<double>(steps_of_buffer)), steps_of_buffer};
}
[[nodiscard]] inline rational part_from(double part) {
  return {static_cast<std::int64_t>(std::ceil(part * static_cast<double>(steps_of_buffer))),
          steps_of_buffer};
}
[[nodiscard]] inline rational part_up_to(double part) {
  return {static_cast<std::int64_t>(std::floor(part * static_cast<double>(steps_of_buffer))),
          steps_of_buffer};
}

/// The largest rate of 20 bits that is not above this one.
[[nodiscard]] inline rational rate_up_to(double rate) {
  constexpr int bits = 20;
  int exponent = 0;
  auto const mantissa = std::frexp(rate, &exponent);  // in [0.5, 1)
  auto const whole = rational(static_cast<std::int64_t>(std::ldexp(mantissa, bits)));
  auto const power = rational(std::int64_t{1} << std::min(std::abs(exponent - bits), 40));
  return exponent > bits ? whole * power : whole / power;
}

}}}  // namespace blink::BLINK_ABI::detail
