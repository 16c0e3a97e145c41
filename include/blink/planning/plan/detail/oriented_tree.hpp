// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The pairs of opposite edges of a graph with equal capacities both ways, as undirected edges.
struct undirected_graph {
  arc_list graph;                      ///< tail < head
  std::vector<std::int64_t> capacity;  ///< of one direction
};

/// The undirected graph; nothing if some link has no opposite link of the same capacity.
[[nodiscard]] inline std::optional<undirected_graph> to_undirected(rank_graph const& ranks) {
  auto const n = ranks.ids.size();
  std::vector<std::int64_t> matrix(n * n, 0);
  for (std::size_t e = 0; e < ranks.capacity.size(); ++e) {
    auto const& a = ranks.graph.arcs[e];
    matrix[static_cast<std::size_t>(a.tail) * n + static_cast<std::size_t>(a.head)] =
        ranks.capacity[e];
  }
  undirected_graph result{{ranks.graph.vertex_count, {}}, {}};
  for (std::size_t u = 0; u < n; ++u) {
    for (std::size_t v = u + 1; v < n; ++v) {
      if (matrix[u * n + v] != matrix[v * n + u]) return std::nullopt;
      if (matrix[u * n + v] == 0) continue;
      result.graph.arcs.push_back({static_cast<int>(u), static_cast<int>(v)});
      result.capacity.push_back(matrix[u * n + v]);
    }
  }
  return result;
}

/// Parents by breadth-first search in a tree of undirected edges, and the order of visits.
struct tree_walk {
  std::vector<int> parent;  ///< by vertex; -1 at the root
  std::vector<int> order;   ///< vertices, nearest first
  int height = 0;
};

[[nodiscard]] inline tree_walk walk_from(int root, arc_list const& graph,
                                         std::vector<int> const& edges) {
  auto const n = static_cast<std::size_t>(graph.vertex_count);
  tree_walk result{std::vector<int>(n, -1), {root}, 0};
  std::vector<int> depth(n, 0);
  for (std::size_t next = 0; next < result.order.size(); ++next) {
    int const at = result.order[next];
    for (int const e : edges) {
      auto const& a = graph.arcs[static_cast<std::size_t>(e)];
      if (a.tail != at && a.head != at) continue;
      int const other = a.tail == at ? a.head : a.tail;
      if (other == result.parent[static_cast<std::size_t>(at)]) continue;
      result.parent[static_cast<std::size_t>(other)] = at;
      depth[static_cast<std::size_t>(other)] = depth[static_cast<std::size_t>(at)] + 1;
      result.height = std::max(result.height, depth[static_cast<std::size_t>(other)]);
      result.order.push_back(other);
    }
  }
  return result;
}

/// An undirected spanning tree as one tree of an all-reduce, with the root that gives the smallest
/// height.
[[nodiscard]] inline tree oriented_tree(undirected_graph const& both, rank_graph const& ranks,
                                        std::vector<int> const& edges, rational const& weight) {
  tree_walk best = walk_from(0, both.graph, edges);
  for (int root = 1; root < both.graph.vertex_count; ++root) {
    auto walk = walk_from(root, both.graph, edges);
    if (walk.height < best.height) best = std::move(walk);
  }
  tree result{ranks.ids[static_cast<std::size_t>(best.order.front())], weight, {}, {}};
  for (std::size_t i = 1; i < best.order.size(); ++i) {
    auto const v = static_cast<std::size_t>(best.order[i]);
    int const child = ranks.ids[v];
    int const parent = ranks.ids[static_cast<std::size_t>(best.parent[v])];
    result.broadcast.push_back({parent, child, {parent, child}});
    result.reduce.push_back({child, parent, {child, parent}});
  }
  std::reverse(result.reduce.begin(), result.reduce.end());  // leaves first, as they run
  return result;
}

/// Adds a path of nodes between two ranks to `trees`.
///
/// The first rank sends, the last receives, ranks between them forward, and switches are inside
/// paths. A path whose edges equal those of a tree of the same pair adds its weight to that tree.
///
/// path: positions in `machine.nodes`.
/// Pre: the trees of one pair are added one after the other.
inline void add_path(std::vector<tree>& trees, topology const& machine,
                     std::vector<int> const& path, rational const& weight) {
  auto const id = [&](std::size_t i) {
    return machine.nodes[static_cast<std::size_t>(path[i])].id;
  };
  tree result{id(0), weight, {}, {}, {id(0), id(path.size() - 1)}};
  auto const is_end = [&](int at) {
    return machine.nodes[static_cast<std::size_t>(at)].kind != node_kind::switch_node;
  };
  result.broadcast.reserve(
      static_cast<std::size_t>(std::count_if(path.begin() + 1, path.end(), is_end)));
  std::vector<int> nodes{id(0)};  // of the next edge
  for (std::size_t i = 1; i < path.size(); ++i) {
    nodes.push_back(id(i));
    if (!is_end(path[i])) continue;
    result.broadcast.push_back({nodes.front(), id(i), nodes});
    nodes = {id(i)};
  }
  for (auto i = trees.rbegin(); i != trees.rend() && i->members == result.members; ++i) {
    if (i->broadcast != result.broadcast) continue;
    i->weight += weight;
    return;
  }
  trees.push_back(std::move(result));
}

}}}  // namespace blink::BLINK_ABI::detail
