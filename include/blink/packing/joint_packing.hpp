// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/detail/arborescence_search.hpp>
#include <blink/packing/simplex.hpp>
#include <blink/rational.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace blink::inline BLINK_ABI {

/// An in-tree and an out-tree with the same root, and how much of the pair is packed.
struct joint_tree {
  int root = 0;
  rational weight;
  std::vector<int> in_edges;   ///< positions in `edges(graph)`: out of each vertex but the root,
                               ///< in the order of the vertices
  std::vector<int> out_edges;  ///< positions in `edges(graph)`: into each vertex but the root, in
                               ///< the order of the vertices
};

/// A maximum packing of pairs of trees, and the prices that prove it maximum.
struct joint_packing {
  rational rate;                  ///< sum of the weights
  std::vector<joint_tree> trees;  ///< heaviest first
  std::vector<rational> prices;   ///< by edge; every pair costs at least 1
  std::size_t pivots = 0;
};

namespace detail {

/// Prices pairs of trees: for each root a cheapest in-tree and a cheapest out-tree. A column lists
/// the edges of the in-tree, then those of the out-tree.
class joint_tree_oracle {
 public:
  joint_tree_oracle(arc_list graph, std::span<int const> roots)
      : graph_(std::move(graph)), roots_(roots.begin(), roots.end()) {
    reversed_ = graph_;
    for (auto& a : reversed_.arcs) std::swap(a.tail, a.head);
    for (int const root : roots_) {
      in_.emplace_back(reversed_, root);
      out_.emplace_back(graph_, root);
    }
  }

  void operator()(std::span<double const> prices, std::vector<packing_column>& columns) {
    for (std::size_t r = 0; r < roots_.size(); ++r) {
      columns.push_back(pair(in_[r].solve(prices), out_[r].solve(prices)));
    }
  }
  void operator()(std::span<std::int64_t const> prices, std::vector<packing_column>& columns) {
    for (int const root : roots_) {
      arborescence_search<std::int64_t> in(reversed_, root), out(graph_, root);
      columns.push_back(pair(in.solve(prices), out.solve(prices)));
    }
  }

 private:
  static packing_column pair(std::span<int const> in, std::span<int const> out) {
    packing_column result(in.begin(), in.end());
    result.insert(result.end(), out.begin(), out.end());
    return result;
  }

  arc_list graph_, reversed_;
  std::vector<int> roots_;
  std::vector<arborescence_search<double>> in_, out_;  // by position in roots_
};
static_assert(pricing_oracle<joint_tree_oracle>);

/// The vertex that no edge enters.
[[nodiscard]] inline int root_of_out_tree(arc_list const& graph, std::span<int const> edges) {
  std::vector<bool> entered(static_cast<std::size_t>(graph.vertex_count));
  for (int const e : edges) {
    entered[static_cast<std::size_t>(graph.arcs[static_cast<std::size_t>(e)].head)] = true;
  }
  return static_cast<int>(std::find(entered.begin(), entered.end(), false) - entered.begin());
}

}  // namespace detail

/// Packs pairs of an in-tree and an out-tree with a common root into shared capacities, at the
/// highest rate: all-reduce on directed links, every piece being reduced at some root and spread
/// from it.
///
/// Unlike reduce-scatter followed by all-gather, both directions share every link at the same time,
/// and links differ in which direction they serve more.
///
/// Source: linear programming over pairs of arborescences, priced by J. Edmonds, "Optimum
///         branchings", J. Res. Nat. Bureau of Standards 71B, 1967.
/// Time:   a few times E pivots of `simplex`; 2 * roots cheapest arborescences for each new price.
/// Pre:    at least two vertices; one integer capacity for each edge, none negative; roots are
///         vertices.
/// Post:   for each edge the weights of the trees that use it (twice, if both trees of a pair do)
///         sum to at most its capacity; by `prices`, none negative, every pair with an allowed root
///         costs at least 1; rate = sum of price * capacity = sum of the weights. Exact.
/// Throws: precondition_error if a precondition does not hold; planning_error that names two
///         vertices between which there is no way; overflow_error if the exact optimum that was
///         found has no 61-bit numbers, or the pivot limit was hit.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] joint_packing pack_joint_trees(Graph const& graph, Capacities const& capacities,
                                             std::vector<int> roots,
                                             simplex_options const& options = {}) {
  arc_list const plain = to_arc_list(graph);
  expects(static_cast<std::size_t>(capacities.size()) == plain.arcs.size(),
          "pack_joint_trees: one capacity for each edge");
  expects(plain.vertex_count >= 2, "pack_joint_trees: at least two vertices");
  expects(!roots.empty(), "pack_joint_trees: at least one root");
  for (int const root : roots) {
    expects(0 <= root && root < plain.vertex_count, "pack_joint_trees: a root is not a vertex");
  }
  // Rows are the edges that can carry anything.
  arc_list usable{plain.vertex_count, {}};
  std::vector<int> edge;  // by row
  std::vector<std::int64_t> capacity;
  std::int64_t divisor = 0;
  for (std::size_t e = 0; e < plain.arcs.size(); ++e) {
    auto const c = static_cast<std::int64_t>(capacities[e]);
    expects(c >= 0, "pack_joint_trees: a capacity is negative");
    if (c == 0 || plain.arcs[e].tail == plain.arcs[e].head) continue;
    usable.arcs.push_back(plain.arcs[e]);
    edge.push_back(static_cast<int>(e));
    capacity.push_back(c);
    divisor = std::gcd(divisor, c);
  }
  for (auto& c : capacity) c /= divisor;
  detail::joint_tree_oracle oracle(usable, roots);
  auto const solution = simplex(capacity, oracle, options);
  if (solution.stopped_because != simplex_stop::optimal) {
    throw overflow_error(solution.stopped_because == simplex_stop::pivot_limit
                             ? "pack_joint_trees: no optimum within " +
                                   std::to_string(solution.pivots) + " pivots"
                             : "pack_joint_trees: the exact optimum needs numbers over 61 bits");
  }

  joint_packing result;
  result.rate = solution.rate * divisor;
  result.pivots = solution.pivots;
  result.prices.resize(plain.arcs.size());
  for (std::size_t row = 0; row < edge.size(); ++row) {
    result.prices[static_cast<std::size_t>(edge[row])] = solution.prices[row];
  }
  auto const half = static_cast<std::ptrdiff_t>(plain.vertex_count) - 1;
  for (auto const& [weight, rows] : solution.columns) {
    joint_tree tree{0, weight * divisor, {}, {}};
    for (auto at = rows.begin(); at != rows.end(); ++at) {
      auto& edges = at - rows.begin() < half ? tree.in_edges : tree.out_edges;
      edges.push_back(edge[static_cast<std::size_t>(*at)]);
    }
    tree.root = detail::root_of_out_tree(plain, tree.out_edges);
    result.trees.push_back(std::move(tree));
  }
  std::ranges::stable_sort(result.trees, std::ranges::greater{}, &joint_tree::weight);
  return result;
}

/// The same with every vertex allowed as a root.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] joint_packing pack_joint_trees(Graph const& graph, Capacities const& capacities) {
  std::vector<int> roots(static_cast<std::size_t>(num_vertices(graph)));
  std::iota(roots.begin(), roots.end(), 0);
  return pack_joint_trees(graph, capacities, std::move(roots));
}

}  // namespace blink::inline BLINK_ABI
