// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/detail/arborescence_search.hpp>
#include <blink/graph/detail/spanning_tree_search.hpp>

#include <concepts>
#include <cstddef>
#include <span>

namespace blink { inline namespace BLINK_ABI {

/// A search for a cheapest tree of some kind by given prices.
///
/// Semantics beyond the syntax: it takes one price, not negative, for each edge of its graph. It
/// returns the positions of a cheapest tree's edges, each as often as the tree uses it. The span is
/// valid until the next call. Equal prices give equal trees. An oracle whose trees are only nearly
/// cheapest has a member `least_cost()`. That is a lower bound of the cost of every tree by the
/// prices of the last call.
template <class Oracle>
concept tree_oracle = requires(Oracle& cheapest_tree, std::span<double const> prices) {
  { cheapest_tree(prices) } -> std::convertible_to<std::span<int const>>;
};

namespace detail {

/// The graph with every edge without capacity turned into a loop, which no tree uses. Edges keep
/// their positions.
template <class Graph, class Capacities>
arc_list without_idle_edges(Graph const& graph, Capacities const& capacities) {
  expects(static_cast<std::size_t>(capacities.size()) == static_cast<std::size_t>(num_edges(graph)),
          "tree oracle: the capacities do not match the edges, expected one for each edge");
  arc_list result = to_arc_list(graph);
  for (std::size_t e = 0; e < result.arcs.size(); ++e) {
    if (!(capacities[e] > mapped_t<Capacities>{})) result.arcs[e].head = result.arcs[e].tail;
  }
  return result;
}

}  // namespace detail

/// Cheapest arborescences from a root, over edges with capacity. A call allocates no memory.
class arborescence_oracle {
 public:
  /// Throws: precondition_error if `root` is not a vertex; planning_error if a vertex is
  ///         unreachable.
  template <directed_edge_list Graph, edge_weights<Graph> Capacities>
  arborescence_oracle(Graph const& graph, int root, Capacities const& capacities)
      : search_(detail::without_idle_edges(graph, capacities), root) {}

  /// Returns a cheapest arborescence: edges in the order of the vertices that they enter.
  std::span<int const> operator()(std::span<double const> prices) { return search_.solve(prices); }

 private:
  detail::arborescence_search<double> search_;
};
static_assert(tree_oracle<arborescence_oracle>);

/// Cheapest spanning trees of undirected edges with capacity.
class spanning_tree_oracle {
 public:
  /// Throws: precondition_error if there is no vertex; planning_error if the graph is disconnected.
  template <directed_edge_list Graph, edge_weights<Graph> Capacities>
  spanning_tree_oracle(Graph const& graph, Capacities const& capacities)
      : search_(detail::without_idle_edges(graph, capacities)) {}

  /// Returns a cheapest spanning tree, cheapest edge first.
  std::span<int const> operator()(std::span<double const> prices) { return search_.solve(prices); }

 private:
  detail::spanning_tree_search<double> search_;
};
static_assert(tree_oracle<spanning_tree_oracle>);
static_assert(!tree_oracle<arc_list>);

}}  // namespace blink::BLINK_ABI
