// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// Views of a machine that planners use.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The ranks of a machine as a graph: vertices are rank numbers, edges are links, or routes over
/// switches. Edges of equal paths are one.
struct rank_graph {
  arc_list graph;
  std::vector<std::int64_t> capacity;   ///< by edge
  rational step;                        ///< one capacity step, in the machine's unit
  std::vector<int> ids;                 ///< node id by vertex
  std::vector<std::vector<int>> paths;  ///< node ids by edge; empty: all edges are links

  [[nodiscard]] tree_edge edge(std::size_t position) const {
    auto const& a = graph.arcs[position];
    int const from = ids[static_cast<std::size_t>(a.tail)];
    int const to = ids[static_cast<std::size_t>(a.head)];
    if (paths.empty()) return {from, to, {from, to}};
    return {from, to, paths[position]};
  }
  [[nodiscard]] std::vector<int> ids_where(std::vector<bool> const& inside) const {
    std::vector<int> result;
    for (std::size_t v = 0; v < ids.size(); ++v) {
      if (inside[v]) result.push_back(ids[v]);
    }
    return result;
  }
  [[nodiscard]] int vertex_of(int id) const {
    auto const found = std::find(ids.begin(), ids.end(), id);
    return found == ids.end() ? -1 : static_cast<int>(found - ids.begin());
  }
};

/// All nodes of a machine and its links, parallel ones added up.
struct node_graph {
  arc_list graph;                      ///< vertices are positions of nodes
  std::vector<std::int64_t> capacity;  ///< by edge, in capacity steps of the machine
};

[[nodiscard]] inline node_graph to_node_graph(topology const& machine) {
  node_graph result;
  result.graph.vertex_count = static_cast<int>(machine.nodes.size());
  std::map<std::pair<int, int>, std::int64_t> total;
  for (auto const& l : machine.links) total[{l.tail, l.head}] += l.capacity;
  for (auto const& [ends, capacity] : total) {
    result.graph.arcs.push_back({ends.first, ends.second});
    result.capacity.push_back(capacity);
  }
  return result;
}

/// prices: by edge of the graph
[[nodiscard]] inline price_certificate to_certificate(topology const& machine,
                                                      node_graph const& nodes,
                                                      std::vector<rational> const& prices) {
  price_certificate result;
  for (std::size_t e = 0; e < prices.size(); ++e) {
    if (prices[e] == rational(0)) continue;
    auto const& a = nodes.graph.arcs[e];
    result.prices.push_back({machine.nodes[static_cast<std::size_t>(a.tail)].id,
                             machine.nodes[static_cast<std::size_t>(a.head)].id, prices[e]});
  }
  return result;
}

/// The positions of the switches that some link touches.
[[nodiscard]] inline std::vector<int> used_switches(topology const& machine) {
  std::vector<bool> touched(machine.nodes.size());
  for (auto const& l : machine.links) {
    touched[static_cast<std::size_t>(l.tail)] = touched[static_cast<std::size_t>(l.head)] = true;
  }
  std::vector<int> result;
  for (std::size_t i = 0; i < machine.nodes.size(); ++i) {
    if (touched[i] && machine.nodes[i].kind == node_kind::switch_node) {
      result.push_back(static_cast<int>(i));
    }
  }
  return result;
}

/// The graph of a machine without used switches. Capacities are divided by their greatest common
/// divisor.
/// Pre: no used switch.
[[nodiscard]] inline rank_graph to_rank_graph(topology const& machine) {
  rank_graph result;
  std::vector<int> vertex(machine.nodes.size(), -1);
  for (std::size_t i = 0; i < machine.nodes.size(); ++i) {
    if (machine.nodes[i].kind != node_kind::rank) continue;
    vertex[i] = static_cast<int>(result.ids.size());
    result.ids.push_back(machine.nodes[i].id);
  }
  auto const n = result.ids.size();
  std::vector<std::int64_t> matrix(n * n, 0);
  for (auto const& l : machine.links) {
    int const tail = vertex[static_cast<std::size_t>(l.tail)];
    int const head = vertex[static_cast<std::size_t>(l.head)];
    expects(tail >= 0 && head >= 0, "to_rank_graph: a link ends at a switch");
    matrix[static_cast<std::size_t>(tail) * n + static_cast<std::size_t>(head)] += l.capacity;
  }
  std::int64_t divisor = 0;
  for (auto const c : matrix) divisor = std::gcd(divisor, c);
  result.graph.vertex_count = static_cast<int>(n);
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    if (matrix[i] == 0) continue;
    result.graph.arcs.push_back({static_cast<int>(i / n), static_cast<int>(i % n)});
    result.capacity.push_back(matrix[i] / divisor);
  }
  result.step = rational(divisor == 0 ? 1 : divisor, machine.steps_per_unit);
  return result;
}

/// A machine that is one switch and has no other link. Each rank has a port that is equal in both
/// directions.
struct star {
  int center = 0;               ///< node id of the switch
  std::vector<int> ids;         ///< node id by rank number
  std::vector<rational> ports;  ///< capacities by rank number, in the machine's unit
};

/// The machine as a star, or nothing if it is not a star.
[[nodiscard]] inline std::optional<star> to_star(topology const& machine) {
  auto const switches = used_switches(machine);
  if (switches.size() != 1) return std::nullopt;
  star result;
  result.center = machine.nodes[static_cast<std::size_t>(switches.front())].id;
  std::map<std::pair<int, bool>, std::int64_t> port;  // (rank position, towards the switch)
  for (auto const& l : machine.links) {
    if (l.head == switches.front()) {
      port[{l.tail, true}] += l.capacity;
    } else if (l.tail == switches.front()) {
      port[{l.head, false}] += l.capacity;
    } else {
      return std::nullopt;
    }
  }
  auto const ranks = machine.rank_positions();
  for (int const rank : ranks) {
    auto const up = port.find({rank, true}), down = port.find({rank, false});
    if (up == port.end() || down == port.end() || up->second != down->second) return std::nullopt;
    result.ids.push_back(machine.nodes[static_cast<std::size_t>(rank)].id);
    result.ports.push_back(machine.in_units(up->second));
  }
  if (ranks.empty()) return std::nullopt;
  return result;
}

/// The capacities of the links, in the order of the links.
[[nodiscard]] inline std::vector<std::int64_t> capacities_of(topology const& machine) {
  std::vector<std::int64_t> result;
  for (auto const& l : machine.links) result.push_back(l.capacity);
  return result;
}

/// The certificate of the cut around the nodes that `inside` marks.
[[nodiscard]] inline cut_certificate cut_at(topology const& machine,
                                            std::vector<bool> const& inside) {
  cut_certificate cut;
  for (std::size_t i = 0; i < inside.size(); ++i) {
    if (inside[i]) cut.nodes.push_back(machine.nodes[i].id);
  }
  return cut;
}

/// The machine with every link reversed.
[[nodiscard]] inline topology reversed(topology machine) {
  for (auto& l : machine.links) std::swap(l.tail, l.head);
  return machine;
}

/// Converts a plan for the reversed machine into a plan for the machine.
///
/// Broadcast becomes reduce, and all-gather becomes reduce-scatter. Every edge and every price is
/// reversed, and the cut becomes its complement.
[[nodiscard]] inline plan reversed(plan p, topology const& machine) {
  p.collective = blink::reversed(p.collective);
  for (auto& t : p.trees) {
    t.reduce = std::move(t.broadcast);
    t.broadcast.clear();
    for (auto& e : t.reduce) {
      std::swap(e.from, e.to);
      std::reverse(e.path.begin(), e.path.end());
    }
  }
  if (auto* cut = std::get_if<cut_certificate>(&p.proof)) {
    std::vector<int> other;
    for (auto const& n : machine.nodes) {
      if (std::find(cut->nodes.begin(), cut->nodes.end(), n.id) == cut->nodes.end()) {
        other.push_back(n.id);
      }
    }
    cut->nodes = std::move(other);
  }
  if (auto* prices = std::get_if<price_certificate>(&p.proof)) {
    for (auto& price : prices->prices) std::swap(price.from, price.to);
  }
  return p;
}

/// An empty plan with the fields that all planners fill in alike.
[[nodiscard]] inline plan empty_plan(topology const& machine, plan_request const& request) {
  plan result;
  result.collective = request.collective;
  result.planner = request.planner;
  result.unit = machine.unit;
  for (int const at : machine.rank_positions()) {
    result.ranks.push_back(machine.nodes[static_cast<std::size_t>(at)].id);
  }
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
