// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/detail/switch_splitter.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A route between two ranks over switches, with its capacity.
struct route_arc {
  int tail = 0;
  int head = 0;
  std::int64_t capacity = 0;
  std::vector<int> path;  ///< vertices from tail to head, both included; switches between
};

/// A graph of ranks alone, with the useful capacity of the graph with switches.
struct split_graph {
  std::vector<route_arc> routes;  ///< by tail, then head; distinct paths
  std::int64_t scale = 1;         ///< routes count capacities in 1/scale of the given unit
};

/// An amount that is to flow from a root to every rank.
struct root_supply {
  int root = 0;
  std::int64_t amount = 0;
};

/// Replaces switches by routes between ranks. Switches forward data and neither copy nor combine
/// it. Spanning trees of routes can still carry the supplies, because the sum of all supplies still
/// flows into every rank. No link is loaded above its capacity if no route is.
///
/// The routes over a switch pair capacity into it with capacity out of it. If its ports are equal,
/// closed forms are tried first, those with the lowest trees before others. They pair each port
/// with the ports at the same place in other groups, or with all ports of other groups, or with all
/// others. A form is taken if every rank still receives all supplies. Otherwise pairs are split off
/// one after the other, each as far as the supplies allow. This always succeeds if no switch has
/// more capacity out than in. From a switch with egress excess, capacity is removed first, as far
/// as the supplies allow.
///
/// is_switch: by vertex; all others are ranks
/// group:     by vertex: the server that it belongs to; routes between groups are preferred where a
///            switch joins several. Empty: one group
/// Source:    L. Lovász, "On two minimax theorems in graph theory", 1976; W. Mader, "Konstruktion
///            aller n-fach kantenzusammenhängenden Digraphen", 1982; J. Bang-Jensen, A. Frank, B.
///            Jackson, "Preserving and increasing local edge-connectivity in mixed graphs", 1995.
///            The amounts and the order: L. Zhao et al., "ForestColl", 2024.
/// Time:      N maximum flows for a closed form that fits; for others up to (ports in) * (ports
///            out) * N maximum flows a switch.
/// Pre:       capacities and amounts are not negative; the supplies flow into every rank.
/// Throws:    precondition_error if a precondition does not hold; unsplittable_switch that names a
///            switch with egress excess; overflow_error if capacities and supplies exceed 61 bits.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] split_graph split_off_switches(Graph const& graph, Capacities const& capacities,
                                             std::vector<bool> const& is_switch,
                                             std::vector<root_supply> const& supplies,
                                             std::vector<int> const& group = {}) {
  arc_list const& arcs = to_arc_list(graph);
  expects(static_cast<std::size_t>(capacities.size()) == arcs.arcs.size(),
          "split_off_switches: the capacities do not match the edges, expected one for each edge");
  auto const n = static_cast<std::size_t>(arcs.vertex_count);
  expects(is_switch.size() == n,
          "split_off_switches: is_switch does not match the vertices, expected one entry for each");
  expects(group.empty() || group.size() == n,
          "split_off_switches: the groups do not match the vertices, expected one for each vertex");
  std::vector<std::int64_t> supply(n, 0);
  for (auto const& s : supplies) {
    expects(
        0 <= s.root && s.root < arcs.vertex_count && !is_switch[static_cast<std::size_t>(s.root)],
        "split_off_switches: a root is not a rank, expected ranks as roots");
    expects(s.amount >= 0, "split_off_switches: an amount is negative, expected at least 0");
    supply[static_cast<std::size_t>(s.root)] += s.amount;
  }
  detail::switch_splitter splitter(is_switch, std::move(supply), group);
  for (std::size_t e = 0; e < arcs.arcs.size(); ++e) {
    auto const capacity = static_cast<std::int64_t>(capacities[e]);
    expects(capacity >= 0, "split_off_switches: a capacity is negative, expected at least 0");
    splitter.add(arcs.arcs[e].tail, arcs.arcs[e].head, capacity);
  }
  splitter.run();
  split_graph result{{}, splitter.scale()};
  for (auto& r : splitter.take_routes()) {
    result.routes.push_back({r.tail, r.head, r.capacity, std::move(r.path)});
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
