// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/detail/route_search.hpp>
#include <blink/packing/flows/detail/flow_problem.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Flows near the optimum, and the best prices found.
struct weighed_flows {
  whole_flows flows;
  std::vector<double> prices;  ///< by edge
  double rate = 0;             ///< of each pair
  double bound = 0;
  std::size_t rounds = 0;
};

/// Routes all flows in rounds, each source over its cheapest tree. The price of an edge grows with
/// the share of its capacity that is used. The average of the rounds is near the optimum. Early
/// rounds are discarded because their prices are poor.
///
/// Source: N. Garg and J. Koenemann, "Faster and simpler algorithms for multicommodity flow and
///         other fractional packing problems", SIAM J. Computing 37, 2007 (maximum concurrent
///         flow).
/// Time:   a search from every source for each round; stops when bound / rate - 1 <= gap, or after
///         `most_rounds`.
/// Pre:    every sink can be reached.
[[nodiscard]] inline weighed_flows weigh_flows(flow_problem const& problem, double gap,
                                               std::size_t most_rounds) {
  auto const edges = problem.capacity.size();
  auto const sources = problem.sources.size();
  std::vector<double> capacity(problem.capacity.begin(), problem.capacity.end());
  std::vector<double> price(edges), load(edges, 0.0), whole(edges, 0.0);
  for (std::size_t e = 0; e < edges; ++e) price[e] = 1 / capacity[e];
  weighed_flows result;
  result.bound = std::numeric_limits<double>::infinity();
  route_search<double> search(problem.graph);
  std::vector<std::int64_t> behind;
  auto const restart = [&] {
    result.flows = {0, {sources, std::vector<std::int64_t>(edges, 0)}};
    std::fill(whole.begin(), whole.end(), 0.0);
  };
  restart();
  double step = 0.5;  // growth of the price of a full edge in one round
  double amount = 0;  // for each pair and round: about what fits
  std::size_t next_restart = 4;
  for (; result.rounds < most_rounds; ++result.rounds) {
    double cost = 0;
    std::vector<double> const asked = price;
    for (std::size_t s = 0; s < sources; ++s) {
      auto const& from = problem.sources[s];
      search.run(from.vertex, price);
      std::fill(load.begin(), load.end(), 0.0);
      for_each_load(problem, from, search, behind, [&](std::size_t e, std::int64_t count) {
        result.flows.flow[s][e] += count;
        whole[e] += static_cast<double>(count);
        load[e] = static_cast<double>(count);
      });
      // Prices only rise within the round, so these routes cost no more than at its end.
      for (std::size_t e = 0; e < edges; ++e) {
        if (load[e] == 0) continue;
        cost += price[e] * load[e];
        if (amount > 0) price[e] *= 1 + step * std::min(1.0, amount * load[e] / capacity[e]);
      }
    }
    ++result.flows.per_sink;
    double value = 0, largest = 0, congestion = 0;
    auto const& proof = amount > 0 ? price : asked;
    for (std::size_t e = 0; e < edges; ++e) {
      value += proof[e] * capacity[e];
      largest = std::max(largest, price[e]);
      congestion = std::max(congestion, whole[e] / capacity[e]);
    }
    if (value / cost < result.bound) {
      result.bound = value / cost;
      result.prices = proof;
    }
    result.rate = static_cast<double>(result.flows.per_sink) / congestion;
    amount = std::max(amount, result.rate);
    if (result.bound <= result.rate * (1 + gap)) break;
    if (result.rounds + 1 == next_restart && 3 * next_restart < most_rounds) {
      restart();
      next_restart *= 3;
      step *= 0.6;
    }
    for (double& p : price) p /= largest;
  }
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
