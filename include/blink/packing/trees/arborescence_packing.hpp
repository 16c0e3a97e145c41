// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/work_budget.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/max_flow.hpp>
#include <blink/packing/trees/detail/arborescence_growth.hpp>
#include <blink/packing/trees/detail/forest_state.hpp>
#include <blink/packing/trees/detail/reduce_tree_heights.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The number of arborescences that are wanted at a root.
struct root_demand {
  int root = 0;
  std::int64_t multiplicity = 0;
};

/// An arborescence that is packed several times.
struct packed_arborescence {
  int root = 0;
  std::int64_t multiplicity = 0;
  std::vector<int> edges;  ///< positions in `edges(graph)`; each edge follows the one above it
};

/// The effort of `pack_arborescences` to find low and few trees.
struct arborescence_packing_options {
  int preferred_height = 0;  ///< up to this height, trees are low enough and the fewest win; 0: the
                             ///< distance from a root to its farthest vertex, plus `height_slack`
  int height_slack = 2;      ///< see above
  int tries = 6;             ///< number of packings, of which the best is kept; at least 1
  int more_tries = 54;       ///< further packings while the trees are higher than preferred
  int kicks = 20;  ///< random exchanges of edges between trees, in each of the first tries
  std::size_t large = 1'000;  ///< number of tree edges of a packing above which only the fastest
                              ///< growth is tried
  std::size_t work_for_height = 16'000'000;  ///< limit of the sum of squared numbers of tree edges;
                                             ///< beyond it no further try starts
  std::size_t work_for_number = 1'000'000;   ///< the same once the trees are low enough
  /// limit of the edges and trees that one try visits
  double max_work = std::numeric_limits<double>::infinity();
  std::uint64_t seed = 14;  ///< of the orders in which trees and edges are visited; this one finds
                            ///< few trees on all known machines
};

namespace detail {

/// The demanded roots as trees without edges, with checked capacities.
template <class Capacities>
[[nodiscard]] forest_state demanded_forest(arc_list const& graph, Capacities const& capacities,
                                           std::vector<root_demand> const& demands) {
  expects(static_cast<std::size_t>(capacities.size()) == graph.arcs.size(),
          "pack_arborescences: the capacities do not match the edges, expected one for each edge");
  constexpr std::int64_t limit = std::int64_t{1} << 62;
  std::int64_t sum = 0;
  auto const counted = [&](std::int64_t amount, char const* negative) {
    expects(amount >= 0, negative);
    if (amount >= limit - sum) {
      throw overflow_error(
          "pack_arborescences: the sum of capacities and demands exceeds 62 bits, expected less");
    }
    sum += amount;
    return amount;
  };
  std::vector<std::int64_t> room;
  for (std::size_t e = 0; e < graph.arcs.size(); ++e) {
    room.push_back(counted(static_cast<std::int64_t>(capacities[e]),
                           "pack_arborescences: a capacity is negative, expected at least 0"));
  }
  forest_state forest(graph, std::move(room));
  for (auto const& demand : demands) {
    expects_vertex(graph, demand.root);
    if (counted(demand.multiplicity,
                "pack_arborescences: a multiplicity is negative, expected at least 0") == 0) {
      continue;
    }
    growing_tree t{demand.root, demand.multiplicity, {}, {}, {}, 1, 0};
    t.depth.assign(static_cast<std::size_t>(graph.vertex_count), -1);
    t.depth[static_cast<std::size_t>(demand.root)] = 0;
    forest.add(std::move(t));
  }
  return forest;
}

/// Throws planning_error if the capacity into some vertex set is less than the demand of the roots
/// outside it.
inline void require_feasible(arc_list const& graph, forest_state& forest) {
  auto const short_set = forest.use_tight_sets();
  if (!short_set.empty()) {
    std::vector<bool> inside(static_cast<std::size_t>(graph.vertex_count), false);
    for (int const u : short_set) inside[static_cast<std::size_t>(u)] = true;
    std::string names;
    for (int u = 0; u < graph.vertex_count; ++u) {
      if (inside[static_cast<std::size_t>(u)]) {
        names += (names.empty() ? "" : " ") + std::to_string(u);
      }
    }
    std::int64_t wanted = 0;
    for (auto const& t : forest.trees) {
      if (!inside[static_cast<std::size_t>(t.root)]) wanted += t.multiplicity;
    }
    std::int64_t got = 0;
    for (std::size_t e = 0; e < graph.arcs.size(); ++e) {
      auto const& a = graph.arcs[e];
      if (!inside[static_cast<std::size_t>(a.tail)] && inside[static_cast<std::size_t>(a.head)]) {
        got += forest.room[e];
      }
    }
    throw planning_error("pack_arborescences: " + std::to_string(wanted) +
                         " trees are wanted from outside, but the cut around the vertices {" +
                         names + "} lets " + std::to_string(got) + " through, expected all");
  }
}

}  // namespace detail

/// Packs spanning arborescences into integer capacities, exactly as many at each root as demanded.
///
/// Trees grow edge by edge. One flow determines how often an edge may join a tree such that all
/// trees can still be finished. A tree with a larger multiplicity is split. So no choice is ever
/// reversed, and there are few trees. Trees grow by levels, the lowest vertices first, or one after
/// the other, in turn. Then they exchange edges as long as that lowers them. Of all tries, the one
/// with the lowest trees, then with the fewest, is kept.
///
/// Source: J. Edmonds, "Edge-disjoint branchings", 1973; L. Lovász, "On two minimax theorems in
///         graph theory", J. Combinatorial Theory B 21, 1976 (the constructive proof); K. Bérczi,
///         A. Frank, "Packing arborescences", 2009 (many roots).
/// Time:   usually a few flows for each tree edge, each of O(T) paths of O(V + E + T) at worst, for
///         T trees; most flows are over single edges.
/// Pre:    capacities and multiplicities are not negative; roots are vertices.
/// Post:   each arborescence spans all vertices; for each root the multiplicities sum to its
///         demand; for each edge, the multiplicities of the trees that use it sum to at most its
///         capacity. Equal calls return equal packings, as long as no budget is spent.
/// Throws: precondition_error if a precondition does not hold; overflow_error if capacities and
///         demands sum to more than 62 bits, or the first try takes more than `max_work`;
///         planning_error if the demand cannot be met, with the vertices of a set that has too
///         little capacity into it.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] std::vector<packed_arborescence> pack_arborescences(
    Graph const& graph, Capacities const& capacities, std::vector<root_demand> const& demands,
    arborescence_packing_options const& options = {}) {
  arc_list const& arcs = to_arc_list(graph);
  expects(options.tries >= 1, "pack_arborescences: there is no try, expected at least one");
  auto start = detail::demanded_forest(arcs, capacities, demands);
  detail::require_feasible(arcs, start);
  auto edges_by_tail = start.edges_by_tail();
  int preferred = options.preferred_height;
  if (preferred == 0) {
    for (auto const& t : start.trees) {
      preferred = std::max(preferred, detail::eccentricity(arcs, start.room, t.root));
    }
    preferred += options.height_slack;
  }

  std::vector<detail::growing_tree> best;
  std::tuple<int, std::size_t, int> best_score;  // (height unless preferred, trees, height)
  std::mt19937_64 random(options.seed);
  std::size_t work = 0;
  bool large = false;
  std::optional<detail::budget_scope> most(detail::budget_scope::part(0.9));
  for (int attempt = 0; attempt < options.tries + options.more_tries; ++attempt) {
    auto forest = start;
    detail::growth_order const order{large || attempt % 2 == 0, attempt % 4 != 0};
    bool has_grown = false;
    try {
      has_grown = detail::grow(forest, arcs, edges_by_tail, order, options.max_work, random);
    } catch (detail::budget_spent const&) {
      if (attempt == 0) throw;
    }
    if (!has_grown) {
      if (attempt > 0) break;
      throw overflow_error("pack_arborescences: growing at least " +
                           std::to_string(forest.trees.size()) +
                           " trees takes more than max_work, expected at most that");
    }
    auto& trees = forest.trees;
    int const hopeless = attempt == 0 ? 0 : std::get<2>(best_score);
    auto const tree_edges = trees.size() * static_cast<std::size_t>(arcs.vertex_count);
    large = tree_edges > options.large;
    work += tree_edges * tree_edges;
    bool const kick = attempt < options.tries && !large;
    detail::height_reduction(arcs, start.room, trees)
        .run(kick ? options.kicks : 0, preferred, random, hopeless);
    int height = 0;
    for (auto const& t : trees) height = std::max(height, t.height);
    std::tuple const score(std::max(height, preferred), trees.size(), height);
    if (attempt == 0 || score < best_score) {
      best_score = score;
      best = std::move(trees);
    }
    if (best_score <= std::tuple(preferred, start.trees.size(), preferred)) break;
    bool const low = std::get<2>(best_score) <= preferred;
    if (low && attempt + 1 >= options.tries) break;
    if (work > (low ? options.work_for_number : options.work_for_height)) break;
    for (auto& edges : edges_by_tail) std::shuffle(edges.begin(), edges.end(), random);
  }
  most.reset();
  std::vector<packed_arborescence> result;
  for (auto& t : best) result.push_back({t.root, t.multiplicity, std::move(t.edges)});
  return result;
}

}}  // namespace blink::BLINK_ABI
