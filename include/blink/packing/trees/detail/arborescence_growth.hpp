// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/packing/trees/detail/forest_state.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The largest distance from a vertex over edges with capacity, in edges.
///
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

/// The order in which trees grow.
struct growth_order {
  bool level_by_level = true;  ///< true: all trees together; false: one after the other
  bool split_late = false;     ///< prefer a deeper level over a split of the tree
};

/// The first edge of a tree's frontier that may join it most often. Only the lowest level with such
/// an edge is considered, or all levels.
///
/// No later step increases room, so the former answer for an edge remains an upper bound. Edges are
/// evaluated in the order of their bounds until the largest bound is an answer. Most edges are
/// never evaluated again.
///
/// Source: M. Minoux, "Accelerated greedy algorithms for maximizing submodular set functions",
///         1978.
/// Pre:    the forest can be finished, and this tree is not finished.
[[nodiscard]] inline joining_edge most_joining(forest_state& forest, arc_list const& graph,
                                               std::size_t position, bool all_levels) {
  auto& tree = forest.trees[position];
  auto const depth_of = [&](int v) { return tree.depth[static_cast<std::size_t>(v)]; };
  auto const arc_of = [&](joining_edge const& j) {
    return graph.arcs[static_cast<std::size_t>(j.edge)];
  };
  std::erase_if(tree.frontier, [&](joining_edge const& j) {
    return j.most == 0 || depth_of(arc_of(j).head) >= 0;
  });
  for (auto first = tree.frontier.begin(); first != tree.frontier.end();) {
    auto last = tree.frontier.end();
    if (!all_levels) {
      int const level = depth_of(arc_of(*first).tail);
      last = std::find_if(first, last,
                          [&](joining_edge const& j) { return depth_of(arc_of(j).tail) > level; });
    }
    for (auto j = first; j != last; ++j) {
      auto const room = forest.room[static_cast<std::size_t>(j->edge)];
      *j = {j->edge, std::min({j->most, tree.multiplicity, room}), false};
    }
    for (;;) {
      auto const largest = std::max_element(
          first, last,
          [](joining_edge const& a, joining_edge const& b) { return a.most < b.most; });
      if (largest->most == 0) break;
      if (largest->is_answer) {
        auto const chosen = *largest;
        largest->most = 0;  // if the tree is split, the rest cannot take the edge
        return chosen;
      }
      *largest = {largest->edge, forest.largest_multiplicity(position, largest->edge), true};
    }
    first = last;
  }
  throw precondition_error(
      "pack_arborescences: no edge extends a tree, expected one because the demand is feasible");
}

/// Grows all trees to the end. Returns false if that would take more than `max_work`.
///
/// Trees split at the beginning, so the first edges take the most work. The total estimated from
/// the edges so far is usually less than twice the true total.
///
/// edges_by_tail: without loops
/// max_work:      see `forest_state::work`
/// Pre:           the forest can be finished.
[[nodiscard]] inline bool grow(forest_state& forest, arc_list const& graph,
                               std::vector<std::vector<int>> const& edges_by_tail,
                               growth_order const& order, double max_work,
                               std::mt19937_64& random) {
  constexpr double surely_more = 3;
  // share of `max_work` below which the estimate is ignored
  constexpr double ignored_share = 0.125;
  auto const n = static_cast<std::size_t>(graph.vertex_count);
  auto const reach = [&](growing_tree& t, int vertex) {
    auto const level_of = [&](int e) {
      return t.depth[static_cast<std::size_t>(graph.arcs[static_cast<std::size_t>(e)].tail)];
    };
    auto place = t.frontier.end();
    while (place != t.frontier.begin() &&
           level_of(place[-1].edge) > t.depth[static_cast<std::size_t>(vertex)]) {
      --place;
    }
    auto const& edges = edges_by_tail[static_cast<std::size_t>(vertex)];
    place = t.frontier.insert(place, edges.size(), {});
    for (int const e : edges) *place++ = {e, t.multiplicity, false};
  };
  for (auto& t : forest.trees) reach(t, t.root);
  auto const before = static_cast<double>(forest.work());
  std::size_t joined = 0;  // edges of all trees
  for (;;) {
    auto const work = static_cast<double>(forest.work()) - before;
    auto const share =
        static_cast<double>(joined) / static_cast<double>(forest.trees.size() * (n - 1));
    if (work > max_work ||
        (work > ignored_share * max_work && work > surely_more * max_work * share)) {
      return false;
    }
    // The unfinished tree that has reached the fewest vertices, ties broken at random; or the first
    // unfinished one.
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
    if (position == forest.trees.size()) return true;

    // The lowest edge that takes the whole multiplicity. Without one, or on any level if
    // `split_late`, the edge that takes most.
    auto const chosen = most_joining(forest, graph, position, order.split_late);
    if (chosen.most < forest.trees[position].multiplicity) {
      forest.split(position, chosen.most);
      joined += forest.trees[position].edges.size();
    }
    ++joined;
    forest.join(position, chosen.edge);
    reach(forest.trees[position], graph.arcs[static_cast<std::size_t>(chosen.edge)].head);
  }
}

}}}  // namespace blink::BLINK_ABI::detail
