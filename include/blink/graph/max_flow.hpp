// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/detail/flow_network.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A maximum flow and the cut that proves it maximum.
struct max_flow_result {
  std::int64_t value = 0;          ///< in the unit of the capacities
  std::vector<std::int64_t> flow;  ///< by position in `edges(graph)`; 0 <= flow[i] <= capacity
  std::vector<bool> source_side;   ///< by vertex: true on the source's side of a minimum cut
};

namespace detail {

/// A flow network with checked capacities. Arc i is edge i of the graph.
template <class Capacities>
[[nodiscard]] flow_network to_flow_network(arc_list const& graph, Capacities const& capacities,
                                           int extra_vertices = 0) {
  expects(static_cast<std::size_t>(capacities.size()) == graph.arcs.size(),
          "maximum flow: the capacities do not match the edges, expected one for each edge");
  flow_network network(graph.vertex_count + extra_vertices);
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < graph.arcs.size(); ++i) {
    auto const capacity = static_cast<std::int64_t>(capacities[i]);
    expects(capacity >= 0, "maximum flow: a capacity is negative, expected at least 0");
    if (capacity >= flow_network::unlimited - sum) {
      throw overflow_error(
          "maximum flow: the capacities sum to more than 62 bits, expected at most 62");
    }
    sum += capacity;
    network.add(graph.arcs[i].tail, graph.arcs[i].head, capacity);
  }
  return network;
}

inline void expects_vertex(arc_list const& graph, int vertex) {
  expects(0 <= vertex && vertex < graph.vertex_count,
          "maximum flow: a vertex is not in the graph, expected one of the graph");
}

}  // namespace detail

/// Finds a maximum flow from `source_vertex` to `sink` by blocking flows.
///
/// Source: Y. Dinitz, "Algorithm for solution of a problem of maximum flow in networks with power
///         estimation", Soviet Math. Doklady 11, 1970.
/// Time:   O(V^2 E); O(min(V^(2/3), E^(1/2)) E) with unit capacities.  Space: O(V + E).
/// Pre:    capacities are not negative; source_vertex != sink.
/// Post:   the capacities of the edges that leave `source_side` sum to `value`.
/// Throws: precondition_error if a precondition does not hold; overflow_error if the capacities sum
///         to more than 62 bits.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] max_flow_result max_flow(Graph const& graph, int source_vertex, int sink,
                                       Capacities const& capacities) {
  arc_list const& arcs = to_arc_list(graph);
  detail::expects_vertex(arcs, source_vertex);
  detail::expects_vertex(arcs, sink);
  expects(source_vertex != sink, "max_flow: source and sink are the same vertex, expected two");
  auto network = detail::to_flow_network(arcs, capacities);
  max_flow_result result;
  result.value = network.run(source_vertex, sink);
  for (int e = 0; e < static_cast<int>(arcs.arcs.size()); ++e) {
    result.flow.push_back(network.flow(e));
  }
  for (int v = 0; v < arcs.vertex_count; ++v) result.source_side.push_back(network.source_side(v));
  return result;
}

/// The largest value that can flow from a root to every terminal, and a cut that limits it.
struct rooted_connectivity_result {
  std::int64_t value = 0;         ///< the smallest maximum flow from the root to a terminal
  std::vector<bool> source_side;  ///< by vertex: true on the root's side, which misses a terminal
};

/// Finds the smallest cut between a root and any terminal. Without switches its value is the rate
/// of an optimal broadcast: that many edge-disjoint arborescences exist. Capacities count as
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
