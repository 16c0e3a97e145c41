// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/packing/joint_routing.hpp>
#include <blink/planning/detail/rank_graph.hpp>
#include <blink/planning/forest.hpp>
#include <blink/planning/plan_request.hpp>
#include <blink/rational.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace blink::inline BLINK_ABI {
namespace detail {

/// All nodes of a machine and its links, parallel ones added up.
struct node_graph {
  arc_list graph;                      ///< vertices are positions of nodes
  std::vector<std::int64_t> capacity;  ///< by edge, in capacity steps of the machine
  std::vector<bool> is_relay;          ///< by vertex
  std::vector<int> box;                ///< by vertex
};

[[nodiscard]] inline node_graph to_node_graph(topology const& machine) {
  node_graph result;
  result.graph.vertex_count = static_cast<int>(machine.nodes.size());
  for (auto const& n : machine.nodes) {
    result.is_relay.push_back(n.kind == node_kind::relay);
    result.box.push_back(n.box);
  }
  std::map<std::pair<int, int>, std::int64_t> total;
  for (auto const& l : machine.links) total[{l.tail, l.head}] += l.capacity;
  for (auto const& [ends, capacity] : total) {
    result.graph.arcs.push_back({ends.first, ends.second});
    result.capacity.push_back(capacity);
  }
  return result;
}

}  // namespace detail

/// Plans all-reduce optimally on any machine whose switches forward and neither copy nor reduce: pairs
/// of an in-tree and an out-tree, packed jointly.
///
/// Source: `pack_joint_routes`.
/// Time:   see there; milliseconds for 16 ranks.
/// Post:   rate = bound, proven by prices.
/// Throws: planning_error if the collective is another one or the ranks are not connected;
///         overflow_error if the optimum has no 61-bit numbers.
[[nodiscard]] inline plan plan_joint(topology const& machine, plan_request const& request) {
  if (request.collective != collective::all_reduce) {
    throw planning_error("joint packing plans all_reduce, not " +
                         std::string(to_text(request.collective)));
  }
  plan result = detail::empty_plan(machine, request.collective, "exact");
  if (result.ranks.size() == 1) return result;
  auto const nodes = detail::to_node_graph(machine);
  auto const id = [&](int at) { return machine.nodes[static_cast<std::size_t>(at)].id; };
  auto const edge_over = [&](std::vector<int> path) {
    for (int& at : path) at = id(at);
    return tree_edge{path.front(), path.back(), std::move(path)};
  };
  auto const packed = pack_joint_routes(nodes.graph, nodes.capacity, nodes.is_relay, nodes.box);
  for (auto const& pair : packed.pairs) {
    tree t{id(pair.root), machine.in_units(pair.weight), {}, {}};
    for (auto const& path : pair.in) t.reduce.push_back(edge_over(path));
    for (auto const& path : pair.out) t.broadcast.push_back(edge_over(path));
    result.trees.push_back(std::move(t));
  }
  price_certificate prices;
  for (std::size_t e = 0; e < packed.prices.size(); ++e) {
    auto const& a = nodes.graph.arcs[e];
    if (packed.prices[e] != rational(0)) {
      prices.prices.push_back({id(a.tail), id(a.head), packed.prices[e]});
    }
  }
  result.rate = result.bound = machine.in_units(packed.rate);
  result.proof = std::move(prices);
  return result;
}

}  // namespace blink::inline BLINK_ABI
