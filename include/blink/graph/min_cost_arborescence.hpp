// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/detail/arborescence_search.hpp>

#include <cstddef>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A price of a set of vertices without the root, charged to each edge that enters the set.
template <class Cost>
struct set_price {
  std::vector<int> vertices;  ///< ascending
  Cost value{};
};

/// A cheapest spanning arborescence and the prices that prove it cheapest.
template <class Cost>
struct min_cost_arborescence_result {
  Cost cost{};
  std::vector<int> edges;              ///< positions in `edges(graph)`: the edge into each vertex
                                       ///< but the root, in the order of the vertices
  std::vector<set_price<Cost>> duals;  ///< laminar; at most 2V - 3 sets
};

/// Finds a cheapest arborescence that reaches every vertex from `root`.
///
/// Costs may be negative. They need only +, -, < and ==, so integers, fractions and lexicographic
/// pairs are exact. With floating point, `duals` hold up to rounding. Among equally cheap edges
/// into a set, the edge whose tail has fewer hops from the root is taken. This tends to give
/// shallow trees.
///
/// Source: Y. Chu and T. Liu, "On the shortest arborescence of a directed graph", Scientia Sinica
///         14, 1965; J. Edmonds, "Optimum branchings", J. Res. Nat. Bureau of Standards 71B, 1967.
/// Time:   O(V E + E log E).  Space: O(V + E).
/// Pre:    `root` is a vertex; one cost for each edge; V times the largest cost does not overflow.
/// Post:   the values of `duals` sum to `cost`; they are not negative on sets of two or more
///         vertices. For each edge, the values of the sets that it enters sum to at most its cost.
///         Loops and edges into the root are exempt because no arborescence uses them. Every
///         arborescence enters each set at least once and each vertex exactly once, so it costs at
///         least `cost`.
/// Throws: precondition_error if a precondition does not hold; planning_error that names an
///         unreachable vertex.
template <directed_edge_list Graph, edge_weights<Graph> Costs>
[[nodiscard]] auto min_cost_arborescence(Graph const& graph, int root, Costs const& costs)
    -> min_cost_arborescence_result<mapped_t<Costs>> {
  using cost_type = mapped_t<Costs>;
  expects(static_cast<std::size_t>(costs.size()) == static_cast<std::size_t>(num_edges(graph)),
          "min_cost_arborescence: the costs do not match the edges, expected one for each edge");
  detail::arborescence_search<cost_type> search(to_arc_list(graph), root);
  min_cost_arborescence_result<cost_type> result;
  for (int const edge : search.solve(costs)) {
    result.edges.push_back(edge);
    result.cost = result.cost + costs[static_cast<std::size_t>(edge)];
  }
  search.for_each_dual([&](std::vector<int> const& vertices, cost_type const& value) {
    result.duals.push_back({vertices, value});
  });
  return result;
}

}}  // namespace blink::BLINK_ABI
