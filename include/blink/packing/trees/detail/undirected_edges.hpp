// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/detail/spanning_tree_search.hpp>
#include <blink/packing/lp/simplex.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The edges with capacity of a connected graph. Their capacities are divided by the common
/// divisor.
struct undirected_edges {
  arc_list graph;
  std::vector<std::int64_t> capacity;  ///< > 0
  std::vector<int> name;               ///< position in the original graph
  std::int64_t divisor = 0;            ///< the common divisor of the original capacities

  template <class Capacities>
  undirected_edges(arc_list const& from, Capacities const& capacities) {
    expects(from.vertex_count >= 2,
            "pack_spanning_trees: there are fewer than two vertices, expected at least two");
    graph.vertex_count = from.vertex_count;
    disjoint_sets sets(from.vertex_count);
    std::int64_t room = std::int64_t{1} << 62;
    for (std::size_t e = 0; e < from.arcs.size(); ++e) {
      auto const c = static_cast<std::int64_t>(capacities[e]);
      auto const a = from.arcs[e];
      expects(c >= 0, "pack_spanning_trees: a capacity is negative, expected at least 0");
      expects(c <= room,
              "pack_spanning_trees: the capacities sum to more than 62 bits, expected at most 62");
      room -= c;
      if (c == 0 || a.tail == a.head) continue;
      sets.join(a.tail, a.head);
      graph.arcs.push_back(a);
      capacity.push_back(c);
      name.push_back(static_cast<int>(e));
      divisor = std::gcd(divisor, c);
    }
    for (int v = 1; v < from.vertex_count; ++v) {
      if (sets.find(v) == sets.find(0)) continue;
      throw planning_error("pack_spanning_trees: vertices 0 and " + std::to_string(v) +
                           " are not connected, expected a connected graph");
    }
    for (auto& c : capacity) c /= divisor;
  }
};

/// A pricing oracle for spanning trees. Random perturbations of the edges select one optimal load
/// of the edges. It is a vertex of the polytope of optima, so it has small denominators.
class priced_spanning_trees {
 public:
  priced_spanning_trees(arc_list const& graph, double perturbation, std::uint64_t seed)
      : search_(graph), exact_search_(graph), costs_(graph.arcs.size()) {
    std::mt19937_64 random(seed);
    for (std::size_t e = 0; e < costs_.size(); ++e) {
      auto const share = static_cast<double>(random() >> 11) * 0x1p-53;
      perturbations_.push_back(perturbation * share / static_cast<double>(graph.vertex_count));
    }
  }

  void operator()(std::span<double const> prices, std::vector<packing_column>& columns) {
    for (std::size_t e = 0; e < costs_.size(); ++e) costs_[e] = prices[e] + perturbations_[e];
    auto const tree = search_.solve(costs_);
    columns.emplace_back(tree.begin(), tree.end());
  }
  void operator()(std::span<std::int64_t const> prices, std::vector<packing_column>& columns) {
    auto const tree = exact_search_.solve(prices);
    columns.emplace_back(tree.begin(), tree.end());
  }
  [[nodiscard]] double perturbation(packing_column const& rows) const {
    double sum = 0;
    for (int const row : rows) sum += perturbations_[static_cast<std::size_t>(row)];
    return sum;
  }

 private:
  spanning_tree_search<double> search_;
  spanning_tree_search<std::int64_t> exact_search_;
  std::vector<double> perturbations_, costs_;  // by edge
};
static_assert(pricing_oracle<priced_spanning_trees> && has_perturbations<priced_spanning_trees>);

/// The bound of a partition: capacity between the parts / (number of parts - 1).
[[nodiscard]] inline rational partition_bound(arc_list const& graph,
                                              std::vector<std::int64_t> const& capacity,
                                              std::vector<int> const& part) {
  std::int64_t crossing = 0;
  for (std::size_t e = 0; e < capacity.size(); ++e) {
    auto const [tail, head] = graph.arcs[e];
    if (part[static_cast<std::size_t>(tail)] != part[static_cast<std::size_t>(head)]) {
      crossing += capacity[e];
    }
  }
  return rational(crossing) / *std::ranges::max_element(part);
}

/// Numbers the sets of joined vertices 0, 1, … in the order of their first vertices. Returns the
/// part of each vertex.
[[nodiscard]] inline std::vector<int> numbered_parts(disjoint_sets& sets, int vertex_count) {
  std::vector<int> number(static_cast<std::size_t>(vertex_count), -1), part;
  int parts = 0;
  for (int v = 0; v < vertex_count; ++v) {
    auto& mine = number[static_cast<std::size_t>(sets.find(v))];
    if (mine < 0) mine = parts++;
    part.push_back(mine);
  }
  return part;
}

/// The best partition among those that the prices describe. Each consists of the pieces that edges
/// below some price connect. Optimal prices are a combination of optimal partitions, all of which
/// are found.
[[nodiscard]] inline std::vector<int> tight_partition(arc_list const& graph,
                                                      std::vector<std::int64_t> const& capacity,
                                                      std::vector<rational> const& prices) {
  auto levels = prices;
  std::ranges::sort(levels);
  levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
  std::vector<int> best;
  std::optional<rational> least;
  for (auto const& level : levels) {
    disjoint_sets sets(graph.vertex_count);
    for (std::size_t e = 0; e < prices.size(); ++e) {
      if (prices[e] < level) sets.join(graph.arcs[e].tail, graph.arcs[e].head);
    }
    auto part = numbered_parts(sets, graph.vertex_count);
    if (*std::ranges::max_element(part) == 0) break;
    auto const bound = partition_bound(graph, capacity, part);
    if (least && !(bound < *least)) continue;
    least = bound;
    best = std::move(part);
  }
  return best;
}

}}}  // namespace blink::BLINK_ABI::detail
