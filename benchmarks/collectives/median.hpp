// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace blink_bench {

/// The median; of an even number of values the upper one in the middle.
///
/// Pre:    there is at least one value.
template <class T>
[[nodiscard]] T median(std::vector<T> values) {
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace blink_bench
