// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/max_flow.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The largest value that can flow from a root to every terminal, and a cut that limits it.
struct rooted_connectivity_result {
  std::int64_t value = 0;         ///< the smallest maximum flow from the root to a terminal
  std::vector<bool> source_side;  ///< by vertex: true on the root's side, which misses a terminal
};

/// Finds the smallest cut between a root and any terminal. Without switches its value is the rate
/// of an optimal broadcast: so many edge-disjoint arborescences exist. Capacities count as
/// multiplicities of edges.
///
/// terminals: vertices; the root among them is ignored
/// Source:    J. Edmonds, "Edge-disjoint branchings", Combinatorial Algorithms, 1973; L. Lovász,
///            "On two minimax theorems in graph theory", J. Combinatorial Theory B 21, 1976.
/// Time:      one maximum flow for each terminal, stopped at the smallest value so far.
/// Pre:       capacities are not negative; a terminal other than the root exists.
/// Post:      the capacities of the edges that leave `source_side` sum to `value`.
/// Throws:    precondition_error if a precondition does not hold; overflow_error as `max_flow`.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] rooted_connectivity_result rooted_connectivity(Graph const& graph,
                                                             Capacities const& capacities, int root,
                                                             std::vector<int> const& terminals) {
  arc_list const& arcs = to_arc_list(graph);
  detail::expects_vertex(arcs, root);
  auto network = detail::to_flow_network(arcs, capacities);
  rooted_connectivity_result result{detail::flow_network::unlimited, {}};
  for (int const terminal : terminals) {
    detail::expects_vertex(arcs, terminal);
    if (terminal == root) continue;
    auto const value = network.run(root, terminal, result.value);
    if (value >= result.value) continue;
    result.value = value;
    result.source_side.clear();
    for (int v = 0; v < arcs.vertex_count; ++v) {
      result.source_side.push_back(network.source_side(v));
    }
  }
  expects(!result.source_side.empty(),
          "rooted_connectivity: no terminal but the root, expected another terminal");
  return result;
}

}}  // namespace blink::BLINK_ABI
