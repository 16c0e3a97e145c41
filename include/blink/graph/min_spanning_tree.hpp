// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/detail/spanning_tree_search.hpp>

#include <cstddef>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A cheapest spanning tree.
template <class Cost>
struct min_spanning_tree_result {
  Cost cost{};
  std::vector<int> edges;  ///< positions in `edges(graph)`, cheapest first; V - 1 of them
};

/// Finds a cheapest spanning tree. Edges may be used in both directions. Of equally cheap edges the
/// first is taken.
///
/// Source: J. Kruskal, "On the shortest spanning subtree of a graph and the traveling salesman
///         problem", Proc. AMS 7, 1956.
/// Time:   O(E log E).  Space: O(V + E).
/// Pre:    the graph has a vertex; one cost for each edge.
/// Post:   every edge outside the tree costs at least as much as each edge of the tree's path
///         between its ends. This proves the tree cheapest.
/// Throws: precondition_error if a precondition does not hold; planning_error that names a vertex
///         without a path to vertex 0.
template <directed_edge_list Graph, edge_weights<Graph> Costs>
[[nodiscard]] auto min_spanning_tree(Graph const& graph, Costs const& costs)
    -> min_spanning_tree_result<mapped_t<Costs>> {
  using cost_type = mapped_t<Costs>;
  expects(static_cast<std::size_t>(costs.size()) == static_cast<std::size_t>(num_edges(graph)),
          "min_spanning_tree: the costs do not match the edges, expected one for each edge");
  detail::spanning_tree_search<cost_type> search(to_arc_list(graph));
  min_spanning_tree_result<cost_type> result;
  for (int const edge : search.solve(costs)) {
    result.edges.push_back(edge);
    result.cost = result.cost + costs[static_cast<std::size_t>(edge)];
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
