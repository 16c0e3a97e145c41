// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/detail/route_search.hpp>
#include <blink/packing/flows/detail/flow_problem.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

// Flows and bounds that need no optimization. They are equal on symmetric machines.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The flows of each source over all its cheapest routes at once.
class cheapest_routes {
 public:
  /// costs: by edge, positive
  cheapest_routes(flow_problem const& problem, std::span<std::int64_t const> costs)
      : problem_(problem),
        costs_(costs),
        search_(problem.graph),
        into_(static_cast<std::size_t>(problem.graph.vertex_count)) {
    for (std::size_t e = 0; e < costs.size(); ++e) into_[head_of(e)].push_back(e);
  }

  /// Brings `each` to each sink. Returns the flow by edge.
  ///
  /// share: `share(amount, count, k)`: the part that comes over the last edge k of `count`
  template <class Amount, class Share>
  [[nodiscard]] std::vector<Amount> spread(flow_source const& from, Amount each, Share share) {
    search_.run(from.vertex, costs_);
    std::vector<Amount> part(costs_.size(), Amount{0}), comes(into_.size(), Amount{0});
    for (int const sink : from.sinks) comes[static_cast<std::size_t>(sink)] = each;
    auto const order = search_.order();
    for (auto i = order.rbegin(); i != order.rend(); ++i) {
      auto const v = static_cast<std::size_t>(*i);
      if (*i == from.vertex || comes[v] == Amount{0}) continue;
      last_.clear();
      for (auto const e : into_[v]) {
        int const tail = problem_.graph.arcs[e].tail;
        if (search_.is_reached(tail) && search_.cost(tail) + costs_[e] == search_.cost(*i)) {
          last_.push_back(e);
        }
      }
      for (std::size_t k = 0; k < last_.size(); ++k) {
        auto const amount = share(comes[v], last_.size(), k);
        part[last_[k]] = amount;
        comes[static_cast<std::size_t>(problem_.graph.arcs[last_[k]].tail)] += amount;
      }
    }
    return part;
  }

 private:
  [[nodiscard]] std::size_t head_of(std::size_t e) const {
    return static_cast<std::size_t>(problem_.graph.arcs[e].head);
  }

  flow_problem const& problem_;
  std::span<std::int64_t const> costs_;
  route_search<std::int64_t> search_;
  std::vector<std::vector<std::size_t>> into_;  // edges by head
  std::vector<std::size_t> last_;
};

/// Routes every flow over all its cheapest routes at once. The flow into a vertex is split equally
/// among all last edges of cheapest routes to it. Vertices that a symmetry of the graph exchanges
/// get equal flows. If the parts have no common denominator of 40 bits, they are rounded.
///
/// costs: by edge, positive
[[nodiscard]] inline whole_flows spread_flows(flow_problem const& problem,
                                              std::span<std::int64_t const> costs) {
  constexpr std::int64_t largest = std::int64_t{1} << 40;
  cheapest_routes routes(problem, costs);
  std::vector<std::vector<rational>> parts;
  std::int64_t denominator = 1;
  for (auto const& from : problem.sources) {
    parts.push_back(
        routes.spread(from, rational(1), [&](rational const& all, std::size_t count, std::size_t) {
          auto const each = all / static_cast<std::int64_t>(count);
          if (denominator <= largest) denominator = std::lcm(denominator, each.denominator());
          return denominator <= largest ? each : rational(0);
        }));
    if (denominator > largest) break;
  }
  whole_flows result{denominator, {}};
  if (denominator > largest) {
    result.per_sink = fine_parts;
    for (auto const& from : problem.sources) {
      result.flow.push_back(
          routes.spread(from, fine_parts, [](std::int64_t all, std::size_t count, std::size_t k) {
            auto const among = static_cast<std::int64_t>(count);
            return all / among + (static_cast<std::int64_t>(k) < all % among ? 1 : 0);
          }));
    }
    return result;
  }
  for (auto const& part : parts) {
    auto& flow = result.flow.emplace_back();
    for (auto const& amount : part) flow.push_back((amount * denominator).numerator());
  }
  return result;
}

/// The best bound of a few simple prices: equal for all edges; inverse to the capacity; 1 on the
/// edges out of or into one vertex.
[[nodiscard]] inline proven_flow_bound simple_bound(flow_problem const& problem) {
  auto const edges = problem.capacity.size();
  std::optional<proven_flow_bound> best;
  auto const consider = [&](std::vector<std::int64_t> const& prices) {
    auto found = bound_of_prices(problem, prices);
    if (found && (!best || found->bound < best->bound)) best = std::move(found);
  };
  consider(std::vector<std::int64_t>(edges, 1));
  auto const largest = *std::max_element(problem.capacity.begin(), problem.capacity.end());
  std::vector<std::int64_t> prices;
  for (auto const c : problem.capacity) prices.push_back(std::max<std::int64_t>(1, largest / c));
  consider(prices);

  // The edges around the vertex whose capacity is scarcest for its pairs get the price 1.
  std::vector<std::int64_t> out(static_cast<std::size_t>(problem.graph.vertex_count), 0);
  auto in = out, sends = out, receives = out;
  for (std::size_t e = 0; e < edges; ++e) {
    out[static_cast<std::size_t>(problem.graph.arcs[e].tail)] += problem.capacity[e];
    in[static_cast<std::size_t>(problem.graph.arcs[e].head)] += problem.capacity[e];
  }
  for (auto const& from : problem.sources) {
    sends[static_cast<std::size_t>(from.vertex)] += static_cast<std::int64_t>(from.sinks.size());
    for (int const sink : from.sinks) ++receives[static_cast<std::size_t>(sink)];
  }
  std::optional<rational> least;
  std::pair<int, bool> around{-1, false};  // (a vertex, true for its edges out)
  for (int v = 0; v < problem.graph.vertex_count; ++v) {
    auto const i = static_cast<std::size_t>(v);
    for (bool const leaving : {true, false}) {
      auto const pairs = leaving ? sends[i] : receives[i];
      if (pairs == 0) continue;
      rational const ratio(leaving ? out[i] : in[i], pairs);
      if (least && ratio >= *least) continue;
      least = ratio;
      around = {v, leaving};
    }
  }
  for (std::size_t e = 0; e < edges; ++e) {
    auto const& a = problem.graph.arcs[e];
    prices[e] = (around.second ? a.tail : a.head) == around.first ? 1 : 0;
  }
  consider(prices);
  if (!best)
    throw overflow_error("concurrent_flow: capacities times pairs exceed 61 bits, expected less");
  return *best;
}

/// The bound by a price of 1 on the edges that the flows fill when scaled to fit.
[[nodiscard]] inline std::optional<proven_flow_bound> bound_of_full_edges(
    flow_problem const& problem, whole_flows const& flows) {
  std::vector<rational> room;  // by edge; 0 without load
  rational least;
  for (std::size_t e = 0; e < problem.capacity.size(); ++e) {
    std::int64_t load = 0;
    for (auto const& flow : flows.flow) load += flow[e];
    room.push_back(load > 0 ? rational(problem.capacity[e], load) : rational(0));
    if (load > 0 && (least == rational(0) || room[e] < least)) least = room[e];
  }
  std::vector<std::int64_t> prices;
  for (auto const& r : room) prices.push_back(r == least ? 1 : 0);
  return bound_of_prices(problem, prices);
}

}}}  // namespace blink::BLINK_ABI::detail
