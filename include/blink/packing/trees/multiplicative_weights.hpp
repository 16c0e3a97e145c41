// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/work_budget.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/packing/trees/tree_oracle.hpp>
#include <blink/packing/trees/weighted_tree.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The step of the prices and the conditions under which `multiplicative_weights` ends.
struct multiplicative_weights_options {
  double epsilon = 0.1;  ///< step of the prices, in (0, 1); smaller is slower and closer
  double gap = 0;        ///< ends once min(bound, known_bound) / rate - 1 is at most this
  /// no packing has a higher rate, for other reasons than prices
  double known_bound = std::numeric_limits<double>::infinity();
  std::size_t max_iterations = 10'000'000;
};

/// The reason why `multiplicative_weights` ended.
enum class packing_stop : std::uint8_t {
  gap_reached,  ///< the requested gap is proven
  /// the algorithm is complete: the rate is near (1 - epsilon) of the optimum or better
  prices_grown,
  iteration_limit,  ///< `max_iterations` were not enough
  budget_spent,     ///< the budget of the thread is spent
};

/// The edges of a tree and its weight in a packing.
struct packed_tree {
  double weight = 0;
  std::vector<int> edges;  ///< positions in `edges(graph)`, ascending
};

/// A fractional packing of trees, and the prices that bound every packing.
struct packing_solution {
  double rate = 0;                 ///< sum of the weights
  std::vector<packed_tree> trees;  ///< distinct, heaviest first
  double bound = 0;                ///< no packing has a higher rate
  /// by edge: each tree costs at least 1; price * capacity sums to `bound`
  std::vector<double> prices;
  double gap = 0;              ///< bound / rate - 1
  std::size_t iterations = 0;  ///< calls of the oracle; repeated trees count again
  packing_stop stopped_because = packing_stop::prices_grown;
};

namespace detail {

/// A lower bound of the cost of every tree. An oracle whose trees are only nearly cheapest provides
/// it.
template <class Oracle>
[[nodiscard]] double cost_of_cheapest(Oracle const& oracle, double cost_of_found) {
  if constexpr (requires { oracle.least_cost(); }) return oracle.least_cost();
  return cost_of_found;
}

}  // namespace detail

/// Packs trees into capacities, approximately and with a proven gap, by multiplicative weights.
///
/// Every edge has a price, initially 1 / capacity. The oracle's cheapest tree is packed up to its
/// smallest capacity. The prices of its edges rise in proportion to the packed share of their
/// capacity. This repeats. At the end, the sum is scaled down by its true congestion. That is much
/// better than the worst case by which the theory divides.
///
/// Source: N. Garg and J. Koenemann, "Faster and simpler algorithms for multicommodity flow and
///         other fractional packing problems", SIAM J. Computing 37, 2007. C. Chekuri and K.
///         Quanrud, "Near-linear time approximation schemes for some implicit fractional packing
///         problems", SODA 2017, make its steps cheaper on large graphs.
/// Time:   O(E log(E) / epsilon^2) calls of the oracle at most.  Space: O(V) for each distinct
///         tree.
/// Pre:    0 < epsilon < 1; no capacity is negative; the trees of the oracle are not empty and use
///         only edges with capacity.
/// Post:   for each edge, the weights of the trees that use it sum to at most its capacity (up to
///         rounding); rate <= optimum <= bound, and `prices` prove the bound.
/// Throws: precondition_error if a precondition does not hold.
template <tree_oracle Oracle, class Capacities>
[[nodiscard]] packing_solution multiplicative_weights(
    Oracle&& cheapest_tree, Capacities const& capacities,
    multiplicative_weights_options const& options = {}) {
  expects(0 < options.epsilon && options.epsilon < 1,
          "multiplicative_weights: epsilon is out of range, expected a number in (0, 1)");
  auto const edge_count = static_cast<std::size_t>(capacities.size());
  std::vector<double> capacity(edge_count), price(edge_count, 0.0), load(edge_count, 0.0);
  std::vector<int> uses(edge_count, 0);  // by the current tree
  std::size_t used_edges = 0;
  for (std::size_t e = 0; e < edge_count; ++e) {
    capacity[e] = static_cast<double>(capacities[e]);
    expects(capacity[e] >= 0 && std::isfinite(capacity[e]),
            "multiplicative_weights: a capacity is negative or not finite, expected a finite one");
    if (capacity[e] == 0) continue;
    price[e] = 1 / capacity[e];
    ++used_edges;
  }
  // Initially, price * capacity sums to E. The algorithm ends when that sum has grown by this
  // factor.
  double const log_growth =
      std::log((1 + options.epsilon) * static_cast<double>(used_edges)) / options.epsilon -
      std::log(1 + options.epsilon) - std::log(static_cast<double>(used_edges));
  double value = static_cast<double>(used_edges);  // sum of price * capacity
  double log_scale = -std::log(value);             // logarithm of the factor removed by rescaling,
                                                   // less that of the initial sum
  double total = 0;                                // sum of the weights, before scaling
  double congestion = 0;                           // largest load / capacity
  packing_solution result;
  result.bound = std::numeric_limits<double>::infinity();
  detail::tree_set trees;
  std::vector<double> weights;

  result.stopped_because = packing_stop::iteration_limit;
  // Work after the search copies the trees.
  std::optional<detail::budget_scope> most(detail::budget_scope::part(0.8, 0.4));
  while (result.iterations < options.max_iterations) {
    std::span<int const> tree;
    try {
      detail::budget_scope::poll();
      tree = cheapest_tree(std::span<double const>(price));
    } catch (detail::budget_spent const&) {
      if (result.iterations == 0) throw;
      result.stopped_because = packing_stop::budget_spent;
      break;
    }
    ++result.iterations;
    expects(!tree.empty(),
            "multiplicative_weights: the oracle found a tree without edges, expected edges");
    double cost = 0;
    double smallest = std::numeric_limits<double>::infinity();
    for (int const edge : tree) {
      auto const e = static_cast<std::size_t>(edge);
      cost += price[e];
      smallest = std::min(smallest, capacity[e] / ++uses[e]);
    }
    expects(smallest > 0,
            "multiplicative_weights: the oracle used an edge without capacity, expected capacity");
    // These prices, scaled so that the cheapest tree costs 1, bound every packing.
    double const least = detail::cost_of_cheapest(cheapest_tree, cost);
    if (least > 0 && value / least < result.bound) {
      result.bound = value / least;
      result.prices.assign(price.begin(), price.end());
      for (double& p : result.prices) p /= least;
    }
    // Pack the tree.
    auto const position = trees.insert(tree);
    if (position == weights.size()) weights.push_back(0);
    weights[position] += smallest;
    total += smallest;
    for (int const edge : tree) {
      auto const e = static_cast<std::size_t>(edge);
      if (uses[e] == 0) continue;
      double const packed = smallest * std::exchange(uses[e], 0);
      load[e] += packed;
      congestion = std::max(congestion, load[e] / capacity[e]);
      // The price rises in proportion to the packed share.
      double const raise = price[e] * options.epsilon * packed / capacity[e];
      price[e] += raise;
      value += raise * capacity[e];
    }
    if (std::min(result.bound, options.known_bound) <= (1 + options.gap) * total / congestion) {
      result.stopped_because = packing_stop::gap_reached;
      break;
    }
    if (std::log(value) + log_scale >= log_growth) {
      result.stopped_because = packing_stop::prices_grown;
      break;
    }
    if (value > 1e100) {  // only the ratios of the prices matter, so keep them in range
      for (double& p : price) p /= value;
      log_scale += std::log(value);
      value = 0;
      for (std::size_t e = 0; e < edge_count; ++e) value += price[e] * capacity[e];
    }
  }

  most.reset();
  for (std::size_t t = 0; t < weights.size(); ++t) {
    auto const members = trees[t];
    result.trees.push_back({weights[t] / congestion, {members.begin(), members.end()}});
  }
  std::ranges::sort(result.trees, [](auto const& a, auto const& b) {
    return a.weight != b.weight ? b.weight < a.weight : a.edges < b.edges;
  });
  result.rate = congestion > 0 ? total / congestion : 0;
  result.gap = result.bound / result.rate - 1;
  return result;
}

/// Packs spanning arborescences from `root` approximately. See `multiplicative_weights`.
///
/// Pre:    also, the graph has two or more vertices.
/// Throws: also planning_error if a vertex cannot be reached over edges with capacity.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] packing_solution pack_arborescences_approximately(
    Graph const& graph, int root, Capacities const& capacities,
    multiplicative_weights_options const& options = {}) {
  return multiplicative_weights(arborescence_oracle(graph, root, capacities), capacities, options);
}

/// Packs spanning trees of undirected edges approximately. See `multiplicative_weights`.
///
/// Pre:    also, the graph has two or more vertices.
/// Throws: also planning_error if the edges with capacity do not join all vertices.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] packing_solution pack_spanning_trees_approximately(
    Graph const& graph, Capacities const& capacities,
    multiplicative_weights_options const& options = {}) {
  return multiplicative_weights(spanning_tree_oracle(graph, capacities), capacities, options);
}

}}  // namespace blink::BLINK_ABI
