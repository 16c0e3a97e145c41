// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/packing/joint/detail/joint_assembly.hpp>
#include <blink/packing/joint/detail/joint_optimum.hpp>
#include <blink/packing/joint/detail/joint_program.hpp>
#include <blink/packing/joint/joint_packing.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// An in-tree and an out-tree with the same root, whose edges are routes over switches.
struct routed_tree_pair {
  int root = 0;
  rational weight;
  /// paths of vertices, from a child to its parent; leaves first
  std::vector<std::vector<int>> in;
  std::vector<std::vector<int>> out;  ///< from a parent to its child; root first
};

/// A maximum packing of pairs of trees over switches, and the prices that prove it maximum.
struct routed_joint_packing {
  rational rate;  ///< sum of the weights
  /// sum of price * capacity; equals the rate if that is optimal
  rational bound;
  std::vector<routed_tree_pair> pairs;  ///< heaviest first
  std::vector<rational> prices;         ///< by edge; every pair costs at least 1
  std::size_t pivots = 0;
};

/// The roles of the vertices of a graph. Entries are by vertex; an empty list means that no vertex
/// has the role.
struct routed_network {
  std::vector<bool> is_switch;     ///< all others are ranks
  std::vector<bool> copies = {};   ///< switches at which out-trees may branch
  std::vector<bool> reduces = {};  ///< switches at which in-trees may join
  std::vector<int> group = {};     ///< see `split_off_switches`
};

namespace detail {

/// Throws planning_error that names two ranks unless every rank reaches every other.
inline void expects_connected(arc_list const& graph, std::vector<bool> const& is_switch) {
  auto const first = static_cast<std::size_t>(std::find(is_switch.begin(), is_switch.end(), false) -
                                              is_switch.begin());
  for (bool const inward : {false, true}) {
    std::vector<bool> reached(is_switch.size(), false);
    reached[first] = true;
    for (bool more = true; more;) {
      more = false;
      for (auto [tail, head] : graph.arcs) {
        if (inward) std::swap(tail, head);
        if (!reached[static_cast<std::size_t>(tail)] || reached[static_cast<std::size_t>(head)]) {
          continue;
        }
        reached[static_cast<std::size_t>(head)] = more = true;
      }
    }
    for (std::size_t v = 0; v < reached.size(); ++v) {
      if (reached[v] || is_switch[v]) continue;
      throw planning_error("pack_joint_routes: vertex " + std::to_string(inward ? first : v) +
                           " cannot be reached, expected a path from " +
                           std::to_string(inward ? v : first));
    }
  }
}

/// A problem, with the positions of its edges in the caller's graph.
struct routed_problem : joint_problem {
  edges_with_capacity edges;

  template <class Capacities>
  routed_problem(arc_list const& plain, Capacities const& capacities,
                 routed_network const& network) {
    constexpr std::size_t most = 10;
    expects(static_cast<std::size_t>(capacities.size()) == plain.arcs.size(),
            "pack_joint_routes: the capacities do not match the edges, expected one for each edge");
    auto const vertices = static_cast<std::size_t>(plain.vertex_count);
    expects(
        network.is_switch.size() == vertices,
        "pack_joint_routes: is_switch does not match the vertices, expected one entry for each");
    edges = usable_edges(plain, capacities, *this);
    is_switch = network.is_switch;
    for (std::size_t v = 0; v < vertices; ++v) {
      if (!is_switch[v]) roots.push_back(static_cast<int>(v));
    }
    expects(roots.size() >= 2,
            "pack_joint_routes: there are fewer than two ranks, expected at least two");
    for (auto const& [able, switches] :
         {std::pair(&network.copies, &copying), std::pair(&network.reduces, &reducing)}) {
      expects(able->empty() || able->size() == vertices,
              "pack_joint_routes: copies or reduces does not match the vertices, expected one "
              "entry for each, or none");
      for (std::size_t v = 0; v < able->size(); ++v) {
        if (!(*able)[v]) continue;
        expects(is_switch[v],
                "pack_joint_routes: a rank copies or reduces, expected only switches to");
        switches->push_back(static_cast<int>(v));
      }
      if (switches->size() > most) {
        throw planning_error("pack_joint_routes: " + std::to_string(switches->size()) +
                             " switches copy or reduce, expected at most " + std::to_string(most));
      }
    }
    expects_connected(graph, is_switch);
    if (copying == reducing) use_symmetry();
  }

  /// Prices by edge of the caller's graph, from prices by resource.
  ///
  /// count: number of the edges of that graph
  [[nodiscard]] std::vector<rational> prices_of(std::vector<rational> const& by_resource,
                                                std::size_t count) const {
    std::vector<rational> result(count);
    for (std::size_t i = 0; i < edges.name.size(); ++i) {
      auto const& price = by_resource[static_cast<std::size_t>(resource[i])];
      result[static_cast<std::size_t>(edges.name[i])] = is_symmetric ? price / 2 : price;
    }
    return result;
  }

 private:
  /// Makes the problem symmetric if every link has the same capacity in its other direction.
  ///
  /// Then an optimal packing and its reverse, half of each, form an optimal packing. Each of its
  /// pairs is a tree and its reverse. Such trees may have any root.
  void use_symmetry() {
    std::map<std::pair<int, int>, std::size_t> position;
    for (std::size_t e = 0; e < graph.arcs.size(); ++e) {
      if (!position.emplace(std::pair(graph.arcs[e].tail, graph.arcs[e].head), e).second) return;
    }
    std::vector<int> shared(graph.arcs.size(), -1);
    std::vector<std::int64_t> both;
    for (std::size_t e = 0; e < graph.arcs.size(); ++e) {
      auto const other = position.find({graph.arcs[e].head, graph.arcs[e].tail});
      if (other == position.end() || capacity[other->second] != capacity[e]) return;
      if (shared[e] >= 0) continue;
      shared[e] = shared[other->second] = static_cast<int>(both.size());
      both.push_back(capacity[e]);
    }
    resource = std::move(shared);
    capacity = std::move(both);
    roots.resize(1);
    is_symmetric = true;
  }
};

}  // namespace detail

/// Packs pairs of an in-tree and an out-tree with a common root into shared capacities, at the
/// highest rate. Their edges are routes over switches. This is all-reduce on any machine.
///
/// It works like `pack_joint_trees`, with the condition that the load out of a switch is at most
/// the load into it. The loads of each direction are then split into routes, which is always
/// possible. A switch that copies or reduces may also be a vertex of an out-tree or in-tree. Loads
/// of trees that span different switches are kept apart. If all links have equal capacities in both
/// directions, each pair is one tree in both directions, with the root that gives the lowest
/// height.
///
/// Source: linear programming over loads and cuts (`detail::joint_program`); J. Bang-Jensen, A.
///         Frank, B. Jackson, "Preserving and increasing local edge-connectivity in mixed graphs",
///         1995 (switches).
/// Time:   as `pack_joint_trees`, and `split_off_switches` twice; with k switches that copy or
///         reduce, also 2^k cheapest trees for each root and direction.
/// Pre:    at least two ranks; one integer capacity for each edge, none negative; only switches
///         copy or reduce.
/// Post:   for each edge the weights of the routes over it sum to at most its capacity; by
///         `prices`, none negative, every pair costs at least 1; rate = sum of price * capacity =
///         sum of the weights. Exact.
/// Throws: precondition_error if a precondition does not hold; planning_error that names two ranks
///         without a path, or if more than 10 switches copy, or reduce; overflow_error if no
///         optimum with 61-bit numbers is found, the pivot limit is reached, or the trees take more
///         than `max_growth_work`.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] routed_joint_packing pack_joint_routes(Graph const& graph,
                                                     Capacities const& capacities,
                                                     routed_network const& network,
                                                     joint_packing_options const& options = {}) {
  detail::routed_problem problem(to_arc_list(graph), capacities, network);
  auto const optimum = detail::find_joint_optimum(
      problem, {options.perturbations, options.largest_denominator, options.max_pivots,
                options.max_work, options.gap, options.seed});
  std::vector<detail::layer_trees> layers;
  std::int64_t common = 1;
  for (auto const& loads : optimum.layers) {
    layers.emplace_back(problem, loads, network.group, options.max_growth_work);
    common = std::lcm(common, layers.back().scale);
  }
  auto const divisor = problem.edges.divisor;
  auto const unit = rational(divisor) / optimum.denominator / common;
  routed_joint_packing result{
      optimum.rate * divisor, optimum.bound * divisor, {}, {}, optimum.pivots};
  std::vector<detail::multiple_tree<detail::path_list>> in, out;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    for (auto& [root, multiplicity, paths] : layers[l].trees) {
      multiplicity *= common / layers[l].scale;
      if (problem.is_symmetric) {
        std::tie(root, paths) = detail::rooted_lowest(std::move(paths), problem.is_switch);
        result.pairs.push_back(
            {root, unit * multiplicity, detail::reversed(paths), std::move(paths)});
      } else if (optimum.layers[l].layer.inward) {
        in.push_back({root, multiplicity, detail::reversed(std::move(paths))});
      } else {
        out.push_back({root, multiplicity, std::move(paths)});
      }
    }
  }
  for (auto& pair : detail::paired_trees(std::move(in), std::move(out))) {
    result.pairs.push_back(
        {pair.root, unit * pair.multiplicity, std::move(pair.in), std::move(pair.out)});
  }
  result.prices = problem.prices_of(optimum.prices, capacities.size());
  std::sort(result.pairs.begin(), result.pairs.end(),
            [](routed_tree_pair const& a, routed_tree_pair const& b) {
              return std::pair(b.weight, a.root) < std::pair(a.weight, b.root);
            });
  return result;
}

/// Finds only the highest rate and its prices, without trees. See `pack_joint_routes`.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] routed_joint_packing find_joint_rate(Graph const& graph, Capacities const& capacities,
                                                   routed_network const& network,
                                                   joint_packing_options const& options = {}) {
  detail::routed_problem const problem(to_arc_list(graph), capacities, network);
  auto const optimum = detail::find_joint_optimum(
      problem, {options.perturbations, options.largest_denominator, options.max_pivots,
                options.max_work, options.gap, options.seed});
  return {optimum.rate * problem.edges.divisor,
          optimum.bound * problem.edges.divisor,
          {},
          problem.prices_of(optimum.prices, capacities.size()),
          optimum.pivots};
}

}}  // namespace blink::BLINK_ABI
