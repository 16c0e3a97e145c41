// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/packing/lp/detail/listed_columns.hpp>
#include <blink/packing/lp/simplex.hpp>
#include <blink/packing/trees/multiplicative_weights.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Packs some columns of a packing again, drawn at random by weight. There is at most one for each
/// row in the result, because a basis has no more. Returns the same packing if that would lose more
/// than `most_lost` of its rate.
///
/// capacity: by row
/// seed:     of the random draw
/// Time:     that of `simplex` over a few columns for each row, each priced at every pivot.
/// Post:     weights are within the capacities, up to rounding.
[[nodiscard]] inline std::vector<weighted_column> fewer_columns(
    std::vector<std::int64_t> const& capacity, packing_solution const& packing, double most_lost,
    std::uint64_t seed) {
  constexpr std::size_t drawn_per_row = 6;
  std::vector<weighted_column> result;
  for (auto const& t : packing.trees) result.push_back({{}, t.weight, t.edges});
  if (result.size() <= capacity.size()) return result;
  std::mt19937_64 random(seed);
  std::vector<double> up_to;
  double sum = 0;
  for (auto const& t : packing.trees) up_to.push_back(sum += t.weight);
  std::vector<bool> drawn(result.size(), false);
  for (std::size_t i = 0; i < drawn_per_row * capacity.size(); ++i) {
    double const at = static_cast<double>(random() >> 11) * 0x1p-53 * sum;
    auto const place = std::upper_bound(up_to.begin(), up_to.end() - 1, at) - up_to.begin();
    drawn[static_cast<std::size_t>(place)] = true;
  }
  std::vector<packing_column> pool;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    if (drawn[i]) pool.push_back(packing.trees[i].edges);
  }
  simplex_options search;
  search.gap = most_lost / 4;
  auto solution = simplex(capacity, listed_columns{pool}, search);
  double rate = 0;
  for (auto const& c : solution.columns) rate += c.approximate_weight;
  if (rate < (1 - most_lost) * packing.rate) return result;
  return std::move(solution.columns);
}

}}}  // namespace blink::BLINK_ABI::detail
