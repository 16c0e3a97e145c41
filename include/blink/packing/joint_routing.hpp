// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/splitting_off.hpp>
#include <blink/packing/arborescence_packing.hpp>
#include <blink/packing/detail/joint_assembly.hpp>
#include <blink/packing/detail/joint_optimum.hpp>
#include <blink/packing/detail/joint_program.hpp>
#include <blink/packing/joint_packing.hpp>
#include <blink/rational.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace blink::inline BLINK_ABI {

/// An in-tree and an out-tree with the same root whose edges are routes over relays.
struct routed_tree_pair {
  int root = 0;
  rational weight;
  std::vector<std::vector<int>>
      in;  ///< paths of vertices, from a child to its parent; leaves first
  std::vector<std::vector<int>> out;  ///< from a parent to its child; root first
};

/// A maximum packing of pairs of trees over relays, and the prices that prove it maximum.
struct routed_joint_packing {
  rational rate;                        ///< sum of the weights
  std::vector<routed_tree_pair> pairs;  ///< heaviest first
  std::vector<rational> prices;         ///< by edge; every pair costs at least 1
  std::size_t pivots = 0;
};

namespace detail {

/// Trees of one direction that fill the loads, over routes.
struct routed_trees {
  std::vector<packed_arborescence> trees;  // edges are positions in `routes`
  std::vector<route_arc> routes;
  std::int64_t scale = 1;  // multiplicities are in 1/scale of the loads

  routed_trees(arc_list const& graph, std::vector<std::int64_t> const& loads,
               std::vector<root_demand> const& demands, std::vector<bool> const& is_relay,
               std::vector<int> const& group) {
    std::vector<root_supply> supplies;
    for (auto const& d : demands) supplies.push_back({d.root, d.multiplicity});
    auto split = split_off_relays(graph, loads, is_relay, supplies, group);
    routes = std::move(split.routes);
    scale = split.scale;
    // Vertices of the trees are the ranks.
    std::vector<int> number(is_relay.size(), -1);
    arc_list joined;
    for (std::size_t v = 0; v < is_relay.size(); ++v) {
      if (!is_relay[v]) number[v] = joined.vertex_count++;
    }
    std::vector<std::int64_t> capacity;
    std::int64_t divisor = 0;
    for (auto const& r : routes) {
      joined.arcs.push_back(
          {number[static_cast<std::size_t>(r.tail)], number[static_cast<std::size_t>(r.head)]});
      capacity.push_back(r.capacity);
      divisor = std::gcd(divisor, r.capacity);
    }
    std::vector<root_demand> wanted;
    for (auto const& d : demands) {
      wanted.push_back({number[static_cast<std::size_t>(d.root)], d.multiplicity * scale});
    }
    trees = pack_arborescences(joined, capacity, wanted);
  }
};

/// Throws planning_error naming two ranks unless every rank reaches every other.
inline void expects_connected(arc_list const& graph, std::vector<bool> const& is_relay) {
  auto const first = static_cast<std::size_t>(std::find(is_relay.begin(), is_relay.end(), false) -
                                              is_relay.begin());
  for (bool const turned : {false, true}) {
    std::vector<bool> reached(is_relay.size(), false);
    reached[first] = true;
    for (bool more = true; more;) {
      more = false;
      for (auto [tail, head] : graph.arcs) {
        if (turned) std::swap(tail, head);
        if (!reached[static_cast<std::size_t>(tail)] || reached[static_cast<std::size_t>(head)]) {
          continue;
        }
        reached[static_cast<std::size_t>(head)] = more = true;
      }
    }
    for (std::size_t v = 0; v < reached.size(); ++v) {
      if (reached[v] || is_relay[v]) continue;
      throw planning_error("pack_joint_routes: vertex " + std::to_string(turned ? first : v) +
                           " cannot be reached from " + std::to_string(turned ? v : first));
    }
  }
}

}  // namespace detail

/// Packs pairs of an in-tree and an out-tree with a common root, whose edges are routes over relays,
/// into shared capacities, at the highest rate: all-reduce on any machine whose switches forward and
/// neither copy nor reduce.
///
/// As `pack_joint_trees`, where relays let no more out than comes in; the loads of each direction are
/// then split into routes, which is always possible.
///
/// is_relay: by vertex; all others are ranks, each of which may be a root.
/// group:    see `split_off_relays`.
/// Source: linear programming over loads and cuts (`detail::joint_program`); J. Bang-Jensen,
///         A. Frank, B. Jackson, "Preserving and increasing local edge-connectivity in mixed graphs",
///         1995 (relays).
/// Time:   as `pack_joint_trees`, and `split_off_relays` twice.
/// Pre:    at least two ranks; one integer capacity for each edge, none negative.
/// Post:   for each edge the weights of the routes over it sum to at most its capacity; by `prices`,
///         none negative, every pair costs at least 1; rate = sum of price * capacity = sum of the
///         weights. Exact.
/// Throws: precondition_error if a precondition does not hold; planning_error that names two ranks
///         between which there is no way; overflow_error if no optimum with 61-bit numbers is found,
///         or the pivot limit was hit.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] routed_joint_packing pack_joint_routes(Graph const& graph,
                                                     Capacities const& capacities,
                                                     std::vector<bool> const& is_relay,
                                                     std::vector<int> const& group = {},
                                                     joint_packing_options const& options = {}) {
  arc_list const plain = to_arc_list(graph);
  expects(static_cast<std::size_t>(capacities.size()) == plain.arcs.size(),
          "pack_joint_routes: one capacity for each edge");
  expects(is_relay.size() == static_cast<std::size_t>(plain.vertex_count),
          "pack_joint_routes: is_relay has one entry for each vertex");
  detail::joint_problem problem;
  auto edge = detail::usable_edges(plain, capacities, problem);
  for (std::size_t v = 0; v < is_relay.size(); ++v) {
    problem.in.push_back(is_relay[v] ? detail::tree_part::forward : detail::tree_part::span);
    if (!is_relay[v]) problem.roots.push_back(static_cast<int>(v));
  }
  problem.out = problem.in;
  expects(problem.roots.size() >= 2, "pack_joint_routes: at least two ranks");
  detail::expects_connected(problem.graph, is_relay);

  auto const optimum = detail::find_joint_optimum(
      problem, {options.tolls, options.largest_denominator, options.max_pivots, options.seed});
  auto reversed = problem.graph;
  for (auto& a : reversed.arcs) std::swap(a.tail, a.head);
  auto const& loads = optimum.loads;
  detail::routed_trees in(reversed, loads.in, loads.demands, is_relay, group);
  detail::routed_trees out(problem.graph, loads.out, loads.demands, is_relay, group);
  auto const common = std::lcm(in.scale, out.scale);
  for (auto* trees : {&in, &out}) {
    for (auto& t : trees->trees) t.multiplicity *= common / trees->scale;
    for (auto& t : trees->trees) t.root = problem.roots[static_cast<std::size_t>(t.root)];
  }
  routed_joint_packing result{optimum.rate * edge.divisor, {}, {}, optimum.pivots};
  auto const unit = rational(edge.divisor, 1) / loads.denominator / common;
  for (auto const& pair : detail::paired_trees(std::move(in.trees), std::move(out.trees))) {
    routed_tree_pair routed{pair.root, unit * pair.multiplicity, {}, {}};
    for (int const e : pair.in_edges) {
      auto path = in.routes[static_cast<std::size_t>(e)].path;
      std::reverse(path.begin(), path.end());
      routed.in.push_back(std::move(path));
    }
    for (int const e : pair.out_edges) {
      routed.out.push_back(out.routes[static_cast<std::size_t>(e)].path);
    }
    result.pairs.push_back(std::move(routed));
  }
  result.prices.resize(plain.arcs.size());
  for (std::size_t i = 0; i < edge.name.size(); ++i) {
    result.prices[static_cast<std::size_t>(edge.name[i])] = optimum.prices[i];
  }
  std::sort(result.pairs.begin(), result.pairs.end(),
            [](routed_tree_pair const& a, routed_tree_pair const& b) {
              return std::pair(b.weight, a.root) < std::pair(a.weight, b.root);
            });
  return result;
}

}  // namespace blink::inline BLINK_ABI
