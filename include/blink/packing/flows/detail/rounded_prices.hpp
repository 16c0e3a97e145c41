// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Prices as whole numbers, the largest of them `largest_step`. Any prices prove a bound, also
/// rounded ones.
[[nodiscard]] inline std::vector<std::int64_t> rounded_prices(std::span<double const> prices,
                                                              double largest_step) {
  double largest = 0;
  for (double const p : prices) largest = std::max(largest, p);
  std::vector<std::int64_t> result;
  for (double const p : prices) {
    result.push_back(largest > 0 ? std::llround(std::max(p, 0.0) / largest * largest_step) : 0);
  }
  return result;
}

/// Calls `visit` for prices rounded in a few ways. If they are near fractions with a small
/// denominator, these are among them.
template <class Visit>
void for_each_rounding(std::vector<double> prices, Visit visit) {
  double const largest = *std::max_element(prices.begin(), prices.end());
  if (!(largest > 0)) return;
  for (double& p : prices) p = p < 1e-9 * largest ? 0 : p / largest;
  if (auto const steps = common_denominator(prices, 1, 100'000)) {
    visit(rounded_prices(prices, static_cast<double>(*steps)));
  }
  visit(rounded_prices(prices, 1e8));
  for (double const least : {0.5, 0.2, 0.05}) {  // scarce edges all get one price, the others are
                                                 // free
    auto alike = prices;
    for (double& p : alike) p = p > least ? 1 : 0;
    visit(rounded_prices(alike, 1));
  }
}

}}}  // namespace blink::BLINK_ABI::detail
