// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/packing/detail/forest_state.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace blink::inline BLINK_ABI::detail {

/// Edges on the longest of the shortest paths from a vertex over edges with capacity.
/// Time: O(V E).
template <class Capacities>
[[nodiscard]] int eccentricity(arc_list const& graph, Capacities const& capacities, int from) {
  std::vector<int> distance(static_cast<std::size_t>(graph.vertex_count), -1);
  distance[static_cast<std::size_t>(from)] = 0;
  int farthest = 0;
  for (bool changed = true; changed; ++farthest) {
    changed = false;
    for (std::size_t e = 0; e < graph.arcs.size(); ++e) {
      auto const& a = graph.arcs[e];
      if (distance[static_cast<std::size_t>(a.tail)] != farthest || !(capacities[e] > 0) ||
          distance[static_cast<std::size_t>(a.head)] >= 0) {
        continue;
      }
      distance[static_cast<std::size_t>(a.head)] = farthest + 1;
      changed = true;
    }
  }
  return farthest - 1;
}

/// In which order trees grow.
struct growth_order {
  bool level_by_level = true;  ///< all trees together; otherwise one after the other
  bool split_late = false;     ///< go a level deeper rather than split a tree
};

/// Grows all trees to the end.
/// edges_by_tail: without loops.
/// Pre: the forest can be finished.
inline void grow(forest_state& forest, arc_list const& graph,
                 std::vector<std::vector<int>> const& edges_by_tail, growth_order const& order,
                 std::mt19937_64& random) {
  auto const n = static_cast<std::size_t>(graph.vertex_count);
  auto const reach = [&](growing_tree& t, int vertex) {
    auto const level_of = [&](int e) {
      return t.depth[static_cast<std::size_t>(graph.arcs[static_cast<std::size_t>(e)].tail)];
    };
    auto place = t.frontier.end();
    while (place != t.frontier.begin() &&
           level_of(place[-1]) > t.depth[static_cast<std::size_t>(vertex)]) {
      --place;
    }
    auto const& edges = edges_by_tail[static_cast<std::size_t>(vertex)];
    t.frontier.insert(place, edges.begin(), edges.end());
  };
  for (auto& t : forest.trees) reach(t, t.root);
  for (;;) {
    // The unfinished tree that reached least so far, equals in random order; or the first one.
    std::size_t position = forest.trees.size();
    std::size_t equals = 0;
    for (std::size_t i = 0; i < forest.trees.size(); ++i) {
      auto const reached = forest.trees[i].reached;
      if (reached == n) continue;
      if (equals > 0 && reached > forest.trees[position].reached) continue;
      if (equals > 0 && reached < forest.trees[position].reached) equals = 0;
      if (random() % ++equals == 0) position = i;
      if (!order.level_by_level) break;
    }
    if (position == forest.trees.size()) return;

    // The lowest edge that takes the whole multiplicity; failing that (split_late: on any level),
    // the one that takes most.
    auto& frontier = forest.trees[position].frontier;
    auto const& depth = forest.trees[position].depth;
    auto const wanted = forest.trees[position].multiplicity;
    std::int64_t most = 0;
    int best = -1;
    int best_level = 0;
    std::size_t kept = 0;
    std::size_t i = 0;
    for (; i < frontier.size(); ++i) {
      int const e = frontier[i];
      auto const& a = graph.arcs[static_cast<std::size_t>(e)];
      if (depth[static_cast<std::size_t>(a.head)] >= 0) continue;
      int const level = depth[static_cast<std::size_t>(a.tail)];
      if (best >= 0 && level > best_level && !order.split_late) break;
      auto const possible = forest.largest_multiplicity(position, e);
      if (possible == 0) continue;  // and never again: no later step makes room
      frontier[kept++] = e;
      if (possible > most) {
        most = possible;
        best = e;
        best_level = level;
        if (most == wanted) {
          ++i;
          break;
        }
      }
    }
    frontier.erase(frontier.begin() + static_cast<std::ptrdiff_t>(kept),
                   frontier.begin() + static_cast<std::ptrdiff_t>(i));
    expects(best >= 0, "pack_arborescences: no edge extends a tree, though the demand is feasible");
    if (most < wanted) forest.split(position, most);
    forest.join(position, best);
    reach(forest.trees[position], graph.arcs[static_cast<std::size_t>(best)].head);
  }
}

}  // namespace blink::inline BLINK_ABI::detail
