// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/detail/arborescence_search.hpp>
#include <blink/packing/joint/detail/joint_assembly.hpp>
#include <blink/packing/joint/detail/joint_optimum.hpp>
#include <blink/packing/joint/detail/joint_program.hpp>
#include <blink/packing/trees/arborescence_packing.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// An in-tree and an out-tree with the same root, and how much of the pair is packed.
struct joint_tree {
  int root = 0;
  rational weight;
  std::vector<int> in_edges;   ///< positions in `edges(graph)`: out of each vertex but the root
  std::vector<int> out_edges;  ///< positions in `edges(graph)`: into each vertex but the root
};

/// A maximum packing of pairs of trees, and the prices that prove it maximum.
struct joint_packing {
  rational rate;                  ///< sum of the weights
  rational bound;                 ///< sum of price * capacity; the rate, if that is optimal
  std::vector<joint_tree> trees;  ///< heaviest first
  std::vector<rational> prices;   ///< by edge; every pair costs at least 1
  std::size_t pivots = 0;
};

struct joint_packing_options {
  /// Largest toll of a pair, which picks one of many optima; the next is tried if that one has no
  /// small denominators, or tolls were too large to keep the optimum.
  std::vector<double> perturbations{1e-4, 1e-3, 1e-5};
  std::int64_t largest_denominator = 100'000;  ///< of the numbers that are guessed
  std::size_t max_pivots = 1'000'000;
  double max_work = 1e11;  ///< entries of the tableau that pivots go over: a minute
  /// `arborescence_packing_options::max_work` of the trees of each direction.
  double max_growth_work = std::numeric_limits<double>::infinity();
  /// If no exact optimum is found, take one that is proven to miss it by at most this share.
  double gap = 0;
  std::uint64_t seed = 1;  ///< of the tolls
};

namespace detail {

/// The edges of a graph that can carry anything.
struct edges_with_capacity {
  std::vector<int> name;     ///< position in the graph, by position in the problem
  std::int64_t divisor = 0;  ///< the unit in which the problem counts capacities
};

/// Puts them into a problem, each with a capacity of its own.
template <class Capacities>
[[nodiscard]] edges_with_capacity usable_edges(arc_list const& graph, Capacities const& capacities,
                                               joint_problem& problem) {
  edges_with_capacity result;
  problem.graph.vertex_count = graph.vertex_count;
  for (std::size_t e = 0; e < graph.arcs.size(); ++e) {
    auto const c = static_cast<std::int64_t>(capacities[e]);
    expects(c >= 0, "joint packing: a capacity is negative");
    if (c == 0 || graph.arcs[e].tail == graph.arcs[e].head) continue;
    problem.resource.push_back(static_cast<int>(result.name.size()));
    problem.graph.arcs.push_back(graph.arcs[e]);
    problem.capacity.push_back(c);
    result.name.push_back(static_cast<int>(e));
    result.divisor = std::gcd(result.divisor, c);
  }
  for (auto& c : problem.capacity) c /= result.divisor;
  return result;
}

}  // namespace detail

/// Packs pairs of an in-tree and an out-tree with a common root into shared capacities, at the
/// highest rate: all-reduce on directed links, every piece being reduced at some root and spread
/// from it.
///
/// Unlike reduce-scatter followed by all-gather, both directions share every link at the same time,
/// and links differ in which direction they serve more.
///
/// Source: linear programming over loads and cuts (`detail::joint_program`), then J. Edmonds,
///         "Edge-disjoint branchings", 1973, for each direction.
/// Time:   a few times E pivots of a dense simplex over 2 E variables: a millisecond for 16 ranks, 50
///         for 64; then `pack_arborescences` twice.
/// Pre:    at least two vertices; one integer capacity for each edge, none negative; roots are
///         vertices, and distinct.
/// Post:   for each edge the weights of the trees that use it (twice, if both trees of a pair do)
///         sum to at most its capacity; by `prices`, none negative, every pair with an allowed root
///         costs at least 1; rate = sum of price * capacity = sum of the weights. Exact.
/// Throws: precondition_error if a precondition does not hold; planning_error that names two
///         vertices between which there is no way; overflow_error if no optimum with 61-bit numbers
///         is found, the pivot limit was hit, or the trees take more than `max_growth_work`.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] joint_packing pack_joint_trees(Graph const& graph, Capacities const& capacities,
                                             std::vector<int> roots,
                                             joint_packing_options const& options = {}) {
  arc_list const plain = to_arc_list(graph);
  expects(static_cast<std::size_t>(capacities.size()) == plain.arcs.size(),
          "pack_joint_trees: one capacity for each edge");
  expects(plain.vertex_count >= 2, "pack_joint_trees: at least two vertices");
  expects(!roots.empty(), "pack_joint_trees: at least one root");
  for (int const root : roots) {
    expects(0 <= root && root < plain.vertex_count, "pack_joint_trees: a root is not a vertex");
    expects(std::ranges::count(roots, root) == 1, "pack_joint_trees: a root is named twice");
  }
  detail::joint_problem problem;
  auto const edge = detail::usable_edges(plain, capacities, problem);
  problem.is_switch.assign(static_cast<std::size_t>(plain.vertex_count), false);
  problem.roots = std::move(roots);
  auto reversed = problem.graph;
  for (auto& a : reversed.arcs) std::swap(a.tail, a.head);
  for (auto const* way : {&problem.graph, &reversed}) {  // throws if a vertex is out of reach
    static_cast<void>(detail::arborescence_search<double>(*way, problem.roots.front()));
  }

  auto const optimum = detail::find_joint_optimum(
      problem, {options.perturbations, options.largest_denominator, options.max_pivots,
                options.max_work, options.gap, options.seed});
  std::vector<detail::multiple_tree<std::vector<int>>> in, out;
  arborescence_packing_options growth;
  growth.max_work = options.max_growth_work;
  for (auto const& [layer, load, demands] : optimum.layers) {
    for (auto& packed :
         pack_arborescences(layer.inward ? reversed : problem.graph, load, demands, growth)) {
      if (layer.inward) std::ranges::reverse(packed.edges);
      (layer.inward ? in : out).push_back({packed.root, packed.multiplicity, packed.edges});
    }
  }
  joint_packing result{
      optimum.rate * edge.divisor, optimum.bound * edge.divisor, {}, {}, optimum.pivots};
  auto const unit = rational(edge.divisor) / optimum.denominator;
  for (auto const& pair : detail::paired_trees(std::move(in), std::move(out))) {
    joint_tree tree{pair.root, unit * pair.multiplicity, {}, {}};
    for (int const e : pair.in) tree.in_edges.push_back(edge.name[static_cast<std::size_t>(e)]);
    for (int const e : pair.out) tree.out_edges.push_back(edge.name[static_cast<std::size_t>(e)]);
    result.trees.push_back(std::move(tree));
  }
  result.prices.resize(plain.arcs.size());
  for (std::size_t i = 0; i < edge.name.size(); ++i) {
    result.prices[static_cast<std::size_t>(edge.name[i])] = optimum.prices[i];
  }
  std::sort(result.trees.begin(), result.trees.end(), [](joint_tree const& a, joint_tree const& b) {
    return std::pair(b.weight, a.root) < std::pair(a.weight, b.root);
  });
  return result;
}

/// The same with every vertex allowed as a root.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] joint_packing pack_joint_trees(Graph const& graph, Capacities const& capacities) {
  std::vector<int> roots(static_cast<std::size_t>(num_vertices(graph)));
  std::iota(roots.begin(), roots.end(), 0);
  return pack_joint_trees(graph, capacities, std::move(roots));
}

}}  // namespace blink::BLINK_ABI
