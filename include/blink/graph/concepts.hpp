// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>

#include <concepts>
#include <cstddef>
#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

// The graphs that `graph/` and `packing/` compute on. Their functions are those of Boost.Graph: an
// edge list graph whose vertices are 0 … n-1. So `boost::adjacency_list<vecS, vecS, directedS>` is
// a model; its headers are not needed here.

namespace blink { inline namespace BLINK_ABI {

/// A directed edge from `tail` to `head`.
struct arc {
  int tail = 0;
  int head = 0;
  friend bool operator==(arc const&, arc const&) = default;
};

/// The simplest graph: the number of vertices, and the edges in order. Parallel edges are allowed.
struct arc_list {
  int vertex_count = 0;
  std::vector<arc> arcs;

  friend std::size_t num_vertices(arc_list const& graph) {
    return static_cast<std::size_t>(graph.vertex_count);
  }
  friend std::size_t num_edges(arc_list const& graph) { return graph.arcs.size(); }
  friend auto edges(arc_list const& graph) {
    return std::pair(graph.arcs.begin(), graph.arcs.end());
  }
  friend int source(arc const& edge, arc_list const&) { return edge.tail; }
  friend int target(arc const& edge, arc_list const&) { return edge.head; }
};

/// The type of a graph's edges.
template <class Graph>
using edge_t = std::iter_value_t<decltype(edges(std::declval<Graph const&>()).first)>;

/// A directed graph that lists its edges, always in the same order. Vertices are integers from 0.
///
/// Semantics beyond the syntax: an edge is named by its position in `edges(graph)`. Capacities,
/// flows and trees are indexed by it.
template <class Graph>
concept directed_edge_list = requires(Graph const& graph, edge_t<Graph> const& edge) {
  { num_vertices(graph) } -> std::convertible_to<std::size_t>;
  { num_edges(graph) } -> std::convertible_to<std::size_t>;
  { source(edge, graph) } -> std::convertible_to<std::size_t>;
  { target(edge, graph) } -> std::convertible_to<std::size_t>;
};
static_assert(directed_edge_list<arc_list>);
static_assert(!directed_edge_list<std::vector<arc>>);

/// A value for each edge, by position in `edges(graph)`.
template <class Weights, class Graph>
concept edge_weights =
    directed_edge_list<Graph> && requires(Weights const& weights, std::size_t i) {
      weights[i];
      { weights.size() } -> std::convertible_to<std::size_t>;
    };

/// The type of the values that `Weights` holds.
template <class Weights>
using mapped_t = std::remove_cvref_t<decltype(std::declval<Weights const&>()[std::size_t{}])>;

/// Returns the edges of any graph as plain arcs, in order. The algorithms work on these.
///
/// Time:   O(V + E).
/// Throws: precondition_error if an end of an edge is not a vertex.
template <directed_edge_list Graph>
[[nodiscard]] arc_list to_arc_list(Graph const& graph) {
  arc_list result{static_cast<int>(num_vertices(graph)), {}};
  result.arcs.reserve(num_edges(graph));
  auto const [first, last] = edges(graph);
  for (auto edge = first; edge != last; ++edge) {
    arc const a{static_cast<int>(source(*edge, graph)), static_cast<int>(target(*edge, graph))};
    expects(
        0 <= a.tail && a.tail < result.vertex_count && 0 <= a.head && a.head < result.vertex_count,
        "to_arc_list: an edge ends outside the graph, expected vertices as ends");
    result.arcs.push_back(a);
  }
  return result;
}
/// Returns the graph itself, without a copy.
[[nodiscard]] inline arc_list const& to_arc_list(arc_list const& graph) {
  return graph;
}

/// Returns the graph with every edge reversed. Edges keep their positions. Paths from a root become
/// paths towards it.
///
/// Time:   O(V + E).
/// Throws: precondition_error if an end of an edge is not a vertex.
template <directed_edge_list Graph>
[[nodiscard]] arc_list reversed(Graph const& graph) {
  arc_list result = to_arc_list(graph);
  for (auto& a : result.arcs) std::swap(a.tail, a.head);
  return result;
}

}}  // namespace blink::BLINK_ABI
