// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/packing/lp/simplex.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A pricing oracle over a fixed list of columns.
struct listed_columns {
  std::span<packing_column const> columns;

  template <class Cost>
  void operator()(std::span<Cost const> prices, std::vector<packing_column>& result) const {
    packing_column const* cheapest = nullptr;
    Cost least{};
    for (auto const& column : columns) {
      Cost cost{};
      for (int const row : column) cost += prices[static_cast<std::size_t>(row)];
      if (cheapest == nullptr || cost < least) {
        cheapest = &column;
        least = cost;
      }
    }
    if (cheapest != nullptr) result.push_back(*cheapest);
  }
};
static_assert(pricing_oracle<listed_columns>);

}}}  // namespace blink::BLINK_ABI::detail
