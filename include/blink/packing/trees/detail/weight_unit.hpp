// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The unit to begin with: the greatest common divisor of the capacities if they are all equal or
/// if `bound` is at most `most_units` of it; else the least capacity, if that is so; else a plain
/// part of the bound.
[[nodiscard]] inline std::int64_t first_unit(std::vector<std::int64_t> const& capacity,
                                             double bound, std::int64_t most_units) {
  std::int64_t divisor = 0, most = 0, least = std::numeric_limits<std::int64_t>::max();
  for (auto const c : capacity) {
    if (c == 0) continue;
    divisor = std::gcd(divisor, c);
    least = std::min(least, c);
    most = std::max(most, c);
  }
  auto const units = static_cast<double>(most_units);
  if (divisor == most || bound <= units * static_cast<double>(divisor)) return divisor;
  if (bound <= units * static_cast<double>(least)) return least;
  return static_cast<std::int64_t>(std::ceil(bound / units));
}

}}}  // namespace blink::BLINK_ABI::detail
