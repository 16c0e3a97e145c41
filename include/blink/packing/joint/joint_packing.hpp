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

/// An in-tree and an out-tree with the same root, and the weight of the pair.
struct joint_tree {
  int root = 0;
  rational weight;
  /// positions in `edges(graph)`: the edge out of each vertex but the root
  std::vector<int> in_edges;
  /// positions in `edges(graph)`: the edge into each vertex but the root
  std::vector<int> out_edges;
};

/// A maximum packing of pairs of trees, and the prices that prove it maximum.
struct joint_packing {
  rational rate;                  ///< sum of the weights
  rational bound;                 ///< sum of price * capacity; equals the rate if that is optimal
  std::vector<joint_tree> trees;  ///< heaviest first
  std::vector<rational> prices;   ///< by edge; every pair costs at least 1
  std::size_t pivots = 0;
};

/// Limits and tolerances of `pack_joint_trees` and `pack_joint_routes`.
struct joint_packing_options {
  /// The largest perturbation of a pair's value, which selects one of many optima. The next is
  /// tried if an optimum has no small denominators, or the perturbation was too large to keep it.
  std::vector<double> perturbations{1e-4, 1e-3, 1e-5};
  std::int64_t largest_denominator = 100'000;  ///< of guessed fractions
  std::size_t max_pivots = 1'000'000;
  double max_work = 1e11;  ///< tableau entries that pivots touch
  /// Becomes `arborescence_packing_options::max_work` for the trees of each direction.
  double max_growth_work = std::numeric_limits<double>::infinity();
  /// If no exact optimum is found, accepts one that is proven to miss it by at most this share.
  double gap = 0;
  std::uint64_t seed = 1;  ///< of the perturbations
};

namespace detail {

/// The edges of a graph that have capacity.
struct edges_with_capacity {
  std::vector<int> name;     ///< position in the graph, by position in the problem
  std::int64_t divisor = 0;  ///< the unit in which the problem counts capacities
};

/// Adds the edges with capacity to a problem, each as a resource of its own.
template <class Capacities>
[[nodiscard]] edges_with_capacity usable_edges(arc_list const& graph, Capacities const& capacities,
                                               joint_problem& problem) {
  edges_with_capacity result;
  problem.graph.vertex_count = graph.vertex_count;
  for (std::size_t e = 0; e < graph.arcs.size(); ++e) {
    auto const c = static_cast<std::int64_t>(capacities[e]);
    expects(c >= 0, "joint packing: a capacity is negative, expected at least 0");
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
/// highest rate. This is all-reduce on directed links: every piece is reduced at some root and
/// broadcast from it.
///
/// Unlike in reduce-scatter followed by all-gather, both directions share every link at the same
/// time. Links differ in the direction that they serve more.
///
/// Source: linear programming over loads and cuts (`detail::joint_program`), then J. Edmonds,
///         "Edge-disjoint branchings", 1973, for each direction.
/// Time:   a few times E pivots of a dense simplex over 2 E variables; then `pack_arborescences`
///         twice.
/// Pre:    at least two vertices; one integer capacity for each edge, none negative; roots are
///         vertices, and distinct.
/// Post:   for each edge the weights of the trees that use it sum to at most its capacity; a pair
///         counts twice if both of its trees do. By `prices`, none negative, every pair with an
///         allowed root costs at least 1; rate = sum of price * capacity = sum of the weights.
///         Exact.
/// Throws: precondition_error if a precondition does not hold; planning_error that names two
///         vertices without a path; overflow_error if no optimum with 61-bit numbers is found, the
///         pivot limit is reached, or the trees take more than `max_growth_work`.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] joint_packing pack_joint_trees(Graph const& graph, Capacities const& capacities,
                                             std::vector<int> roots,
                                             joint_packing_options const& options = {}) {
  arc_list const plain = to_arc_list(graph);
  expects(static_cast<std::size_t>(capacities.size()) == plain.arcs.size(),
          "pack_joint_trees: the capacities do not match the edges, expected one for each edge");
  expects(plain.vertex_count >= 2,
          "pack_joint_trees: there are fewer than two vertices, expected at least two");
  expects(!roots.empty(), "pack_joint_trees: there is no root, expected at least one");
  for (int const root : roots) {
    expects(0 <= root && root < plain.vertex_count,
            "pack_joint_trees: a root is not a vertex, expected one of the graph");
    expects(std::ranges::count(roots, root) == 1,
            "pack_joint_trees: a root is named twice, expected distinct roots");
  }
  detail::joint_problem problem;
  auto const edge = detail::usable_edges(plain, capacities, problem);
  problem.is_switch.assign(static_cast<std::size_t>(plain.vertex_count), false);
  problem.roots = std::move(roots);
  auto reversed = problem.graph;
  for (auto& a : reversed.arcs) std::swap(a.tail, a.head);
  for (auto const* way : {&problem.graph, &reversed}) {  // throws if a vertex is unreachable
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

/// Packs pairs of trees with every vertex allowed as a root. See the overload with `roots`.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] joint_packing pack_joint_trees(Graph const& graph, Capacities const& capacities) {
  std::vector<int> roots(static_cast<std::size_t>(num_vertices(graph)));
  std::iota(roots.begin(), roots.end(), 0);
  return pack_joint_trees(graph, capacities, std::move(roots));
}

}}  // namespace blink::BLINK_ABI
