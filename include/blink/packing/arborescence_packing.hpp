// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/max_flow.hpp>
#include <blink/packing/detail/arborescence_growth.hpp>
#include <blink/packing/detail/lower_trees.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace blink::inline BLINK_ABI {

/// So many arborescences are wanted at this root.
struct root_demand {
  int root = 0;
  std::int64_t multiplicity = 0;
};

/// An arborescence that is packed several times.
struct packed_arborescence {
  int root = 0;
  std::int64_t multiplicity = 0;
  std::vector<int> edges;  ///< positions in `edges(graph)`; each edge after the one above it
};

/// How hard `pack_arborescences` looks for low and few trees.
struct arborescence_packing_options {
  int tries = 2;           ///< packings made, of which the best is kept; at least one
  int kicks = 48;          ///< random exchanges of edges between trees, in each try
  std::uint64_t seed = 1;  ///< of the orders in which edges are looked at, and of the exchanges
};

/// Packs spanning arborescences into integer capacities: as many at each root as demanded, exactly.
///
/// Trees grow edge by edge. An edge x -> y may join a tree with multiplicity up to the room that the
/// tightest cut between x and y leaves after what all other unfinished trees still need to bring
/// across, which one maximum flow tells; a tree whose multiplicity is larger is split. So no choice
/// is ever taken back, and there are few trees. All trees grow level by level, the lowest vertices
/// first; then trees exchange edges as long as that lowers them. The try with the lowest, then the
/// fewest trees is kept; trying ends when distances and demands allow no lower and no fewer.
///
/// Source: J. Edmonds, "Edge-disjoint branchings", 1973; L. Lovász, "On two minimax theorems in graph
///         theory", J. Combinatorial Theory B 21, 1976 (the growing proof); K. Bérczi, A. Frank,
///         "Packing arborescences", 2009 (many roots); L. Zhao et al., "ForestColl", 2024 (the test
///         by one flow).
/// Time:   tries * O(T V E) maximum flows for T trees at worst; usually 1 to 2 flows for each tree
///         edge.
/// Pre:    capacities and multiplicities are not negative; roots are vertices.
/// Post:   each arborescence spans all vertices; for each root the multiplicities sum to its demand;
///         for each edge, the multiplicities of the trees that use it sum to at most its capacity.
/// Throws: precondition_error if a precondition does not hold; overflow_error if capacities and
///         demands sum to more than 62 bits; planning_error if the demand cannot be met, naming a
///         vertex set that too little enters.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] std::vector<packed_arborescence> pack_arborescences(
    Graph const& graph, Capacities const& capacities, std::vector<root_demand> const& demands,
    arborescence_packing_options const& options = {}) {
  arc_list const& arcs = to_arc_list(graph);
  expects(options.tries >= 1, "pack_arborescences: at least one try");
  detail::growing_forest forest(arcs, capacities);
  for (auto const& demand : demands) {
    detail::expects_vertex(arcs, demand.root);
    expects(demand.multiplicity >= 0, "pack_arborescences: a multiplicity is negative");
    forest.demand(demand.root, demand.multiplicity);
  }
  forest.require_feasible();

  int least_height = 0;
  for (auto const& demand : demands) {
    least_height = std::max(least_height, detail::eccentricity(arcs, capacities, demand.root));
  }
  std::vector<detail::growing_tree> best;
  std::pair<int, std::size_t> best_score;
  std::mt19937_64 random(options.seed);
  for (int attempt = 0; attempt < options.tries; ++attempt) {
    auto trees = forest.grow({attempt % 2 == 0, attempt % 4 >= 2, attempt < 4 ? 0 : random()});
    detail::tree_lowering(arcs, forest.capacity(), trees).run(options.kicks, least_height, random);
    int height = 0;
    for (auto const& t : trees) height = std::max(height, t.height);
    std::pair const score(height, trees.size());
    if (attempt == 0 || score < best_score) {
      best_score = score;
      best = std::move(trees);
    }
    if (best_score <= std::pair(least_height, demands.size())) break;
  }
  std::vector<packed_arborescence> result;
  for (auto& t : best) result.push_back({t.root, t.multiplicity, std::move(t.edges)});
  return result;
}

}  // namespace blink::inline BLINK_ABI
