// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/detail/route_search.hpp>
#include <blink/packing/lp/detail/exact_solve.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

// Concurrent flows: the problem, loads, and the bounds that prices prove.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The sinks of one source. Each is to receive the same amount as all other sinks.
struct flow_source {
  int vertex = 0;
  std::vector<int> sinks;  ///< distinct, without `vertex`
};

/// A concurrent flow problem, restricted to edges with capacity.
struct flow_problem {
  arc_list graph;
  std::vector<std::int64_t> capacity;  ///< positive
  std::vector<flow_source> sources;

  [[nodiscard]] std::int64_t pair_count() const {
    std::int64_t result = 0;
    for (auto const& s : sources) result += static_cast<std::int64_t>(s.sinks.size());
    return result;
  }
};

/// Integer flows, which bring `per_sink` from each source into each of its sinks. Scaled by some
/// factor they fit the capacities.
struct whole_flows {
  std::int64_t per_sink = 0;
  std::vector<std::vector<std::int64_t>> flow;  ///< by source and edge
};

/// Parts of the amount of a sink, where they have no other reason. Divisible by 1 to 16, so that
/// equal shares stay equal.
inline constexpr std::int64_t coarse_parts = 720'720, fine_parts = 64 * coarse_parts;

/// The amount that each sink receives if the flows are scaled to just fit. Returns nothing if the
/// numerator exceeds 61 bits.
[[nodiscard]] inline std::optional<rational> rate_of(flow_problem const& problem,
                                                     whole_flows const& flows) {
  std::optional<rational> least;  // the least capacity / load
  for (std::size_t e = 0; e < problem.capacity.size(); ++e) {
    std::int64_t load = 0;
    for (auto const& flow : flows.flow) load += flow[e];
    if (load == 0) continue;
    rational const room(problem.capacity[e], load);
    if (!least || room < *least) least = room;
  }
  if (!least) return std::nullopt;
  auto const common = std::gcd(flows.per_sink, least->denominator());
  auto const numerator = wide_integer{least->numerator()} * (flows.per_sink / common);
  if (numerator >= wide_integer{1} << 61) return std::nullopt;
  return rational(static_cast<std::int64_t>(numerator), least->denominator() / common);
}

/// Calls `add(edge, sinks behind it)` for each edge on the search's paths to the sinks. That is its
/// load if each sink receives 1.
///
/// Pre: the search ran from the source and reached the sinks.
template <class Search, class Add>
void for_each_load(flow_problem const& problem, flow_source const& from, Search const& search,
                   std::vector<std::int64_t>& behind, Add add) {
  behind.assign(static_cast<std::size_t>(problem.graph.vertex_count), 0);
  for (int const sink : from.sinks) behind[static_cast<std::size_t>(sink)] = 1;
  auto const order = search.order();
  for (auto i = order.rbegin(); i != order.rend(); ++i) {
    int const e = search.edge_into(*i);
    auto const count = behind[static_cast<std::size_t>(*i)];
    if (e < 0 || count == 0) continue;
    add(static_cast<std::size_t>(e), count);
    behind[static_cast<std::size_t>(problem.graph.arcs[static_cast<std::size_t>(e)].tail)] += count;
  }
}

/// A bound and its proof: prices of the edges by which the cheapest routes of all pairs cost 1
/// together.
struct proven_flow_bound {
  /// on the amount that each sink receives: sum of price * capacity
  rational bound;
  std::vector<std::int64_t> numerators;  ///< of the prices, by edge
  std::int64_t denominator = 1;
};

/// The bound that integer prices prove. Returns nothing if its numbers exceed 61 bits or all routes
/// are free.
[[nodiscard]] inline std::optional<proven_flow_bound> bound_of_prices(
    flow_problem const& problem, std::vector<std::int64_t> const& prices) {
  constexpr wide_integer largest = wide_integer{1} << 61;
  wide_integer value = 0, sum = 0;
  for (std::size_t e = 0; e < prices.size(); ++e) {
    value += wide_integer{prices[e]} * problem.capacity[e];
    sum += prices[e];
  }
  if (value >= largest || sum * problem.pair_count() >= largest) return std::nullopt;
  route_search<std::int64_t> search(problem.graph);
  std::int64_t cost = 0;
  for (auto const& from : problem.sources) {
    search.run(from.vertex, prices);
    for (int const sink : from.sinks) cost += search.cost(sink);
  }
  if (cost == 0) return std::nullopt;
  return proven_flow_bound{rational(static_cast<std::int64_t>(value), cost), prices, cost};
}

}}}  // namespace blink::BLINK_ABI::detail
