// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/graph/concepts.hpp>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

// Trees by their definition: slow, and independent of the library's searches.

namespace blink::test {

/// True if the edges at `positions` reach every vertex from `root`, with one edge into each other
/// vertex.
inline bool is_arborescence(arc_list const& graph, int root, std::vector<int> const& positions) {
  auto const n = static_cast<std::size_t>(graph.vertex_count);
  std::vector<int> parent(n, -1);
  for (int const e : positions) {
    if (e < 0 || static_cast<std::size_t>(e) >= graph.arcs.size()) return false;
    auto const [tail, head] = graph.arcs[static_cast<std::size_t>(e)];
    if (head == root || parent[static_cast<std::size_t>(head)] >= 0) return false;
    parent[static_cast<std::size_t>(head)] = tail;
  }
  if (positions.size() + 1 != n) return false;
  for (int v = 0; v < graph.vertex_count; ++v) {
    int steps = 0;
    for (int at = v; at != root; at = parent[static_cast<std::size_t>(at)]) {
      if (++steps > graph.vertex_count) return false;
    }
  }
  return true;
}

/// True if the edges at `positions`, read both ways, join all vertices without a cycle.
inline bool is_spanning_tree(arc_list const& graph, std::vector<int> const& positions) {
  if (positions.size() + 1 != static_cast<std::size_t>(graph.vertex_count)) return false;
  std::vector<int> colour(static_cast<std::size_t>(graph.vertex_count));
  std::iota(colour.begin(), colour.end(), 0);
  for (int const e : positions) {
    if (e < 0 || static_cast<std::size_t>(e) >= graph.arcs.size()) return false;
    auto const [tail, head] = graph.arcs[static_cast<std::size_t>(e)];
    int const from = colour[static_cast<std::size_t>(tail)];
    int const to = colour[static_cast<std::size_t>(head)];
    if (from == to) return false;
    for (int& c : colour) c = c == from ? to : c;
  }
  return true;
}

/// Calls `visit(positions)` for each arborescence at `root`.
template <class Visit>
void for_each_arborescence(arc_list const& graph, int root, Visit visit) {
  std::vector<int> chosen;
  auto const pick = [&](auto const& self, int v) -> void {
    if (v == graph.vertex_count) {
      if (is_arborescence(graph, root, chosen)) visit(chosen);
      return;
    }
    if (v == root) return self(self, v + 1);
    for (std::size_t e = 0; e < graph.arcs.size(); ++e) {
      if (graph.arcs[e].head != v) continue;
      chosen.push_back(static_cast<int>(e));
      self(self, v + 1);
      chosen.pop_back();
    }
  };
  pick(pick, 0);
}

/// Calls `visit(positions)` for each spanning tree, edges read both ways.
template <class Visit>
void for_each_spanning_tree(arc_list const& graph, Visit visit) {
  std::vector<int> chosen;
  auto const pick = [&](auto const& self, std::size_t first) -> void {
    if (chosen.size() + 1 == static_cast<std::size_t>(graph.vertex_count)) {
      if (is_spanning_tree(graph, chosen)) visit(chosen);
      return;
    }
    for (std::size_t e = first; e < graph.arcs.size(); ++e) {
      chosen.push_back(static_cast<int>(e));
      self(self, e + 1);
      chosen.pop_back();
    }
  };
  pick(pick, 0);
}

/// A random graph of `edge_count` edges between any vertices, including parallel edges and loops.
/// If `spanned`, a path from vertex 0 through all other vertices comes first.
inline arc_list random_arcs(std::mt19937& random, int vertex_count, int edge_count, bool spanned) {
  arc_list graph{vertex_count, {}};
  std::uniform_int_distribution<int> vertex(0, vertex_count - 1);
  if (spanned) {
    for (int v = 1; v < vertex_count; ++v) {
      graph.arcs.push_back({std::uniform_int_distribution<int>(0, v - 1)(random), v});
    }
  }
  while (static_cast<int>(graph.arcs.size()) < edge_count) {
    graph.arcs.push_back({vertex(random), vertex(random)});
  }
  return graph;
}

}  // namespace blink::test
