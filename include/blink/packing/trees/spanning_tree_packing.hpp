// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/max_flow.hpp>
#include <blink/packing/lp/simplex.hpp>
#include <blink/packing/trees/arborescence_packing.hpp>
#include <blink/packing/trees/detail/arborescence_growth.hpp>
#include <blink/packing/trees/detail/tree_decomposition.hpp>
#include <blink/packing/trees/detail/undirected_edges.hpp>
#include <blink/packing/trees/weighted_tree.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

// From approximate loads of an optimal packing of spanning trees to exact trees.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The loads of an optimal packing in exact numbers: integers in units of 1 / `denominator`.
struct exact_tree_loads {
  std::int64_t denominator = 1;
  std::int64_t rate = 0;            ///< number of unit trees
  std::vector<std::int64_t> loads;  ///< by edge; they sum to rate * (V - 1)
};

/// Guesses the exact loads. Checks that they fit and that their sum is that of the trees.
[[nodiscard]] inline std::optional<exact_tree_loads> exact_loads(
    std::vector<double> const& loads, int vertex_count, std::vector<std::int64_t> const& capacity,
    rational const& rate, std::int64_t largest_denominator) {
  auto const denominator = common_denominator(loads, rate.denominator(), largest_denominator);
  if (!denominator) return std::nullopt;
  exact_tree_loads result{*denominator, (rate * *denominator).numerator(), {}};
  std::int64_t sum = 0;
  for (std::size_t e = 0; e < loads.size(); ++e) {
    result.loads.push_back(std::llround(loads[e] * static_cast<double>(*denominator)));
    if (result.loads[e] > rational(capacity[e]) * *denominator) return std::nullopt;
    sum += result.loads[e];
  }
  if (sum != result.rate * (vertex_count - 1)) return std::nullopt;
  return result;
}

/// Splits loads into spanning trees. A flow directs every unit of load towards one of its ends, so
/// that `rate` units enter each vertex but the root. Then as many arborescences fit.
///
/// Source: A. Frank, "On the orientation of graphs", J. Combinatorial Theory B 28, 1980.
/// Post:   nothing if the loads are not those of trees.
[[nodiscard]] inline std::optional<std::vector<packed_arborescence>> split_into_trees(
    arc_list const& graph, exact_tree_loads const& loads) {
  auto const n = graph.vertex_count;
  auto const m = static_cast<int>(graph.arcs.size());
  // Edge e of the graph becomes the arcs 2e (forward) and 2e + 1 (reversed).
  arc_list both{n, {}};
  for (auto const& a : graph.arcs) {
    both.arcs.push_back(a);
    both.arcs.push_back({a.head, a.tail});
  }
  int root = 0;
  std::vector<std::int64_t> const everywhere(both.arcs.size(), 1);
  int least = eccentricity(both, everywhere, root);
  for (int v = 1; v < n; ++v) {
    int const steps = eccentricity(both, everywhere, v);
    if (steps < least) {
      least = steps;
      root = v;
    }
  }
  // Vertices, then edges, then source and sink.
  arc_list network{n + m + 2, {}};
  std::vector<std::int64_t> room;
  int const from = n + m, to = n + m + 1;
  for (int e = 0; e < m; ++e) {
    auto const load = loads.loads[static_cast<std::size_t>(e)];
    auto const [tail, head] = graph.arcs[static_cast<std::size_t>(e)];
    for (arc const a : {arc{n + e, head}, arc{n + e, tail}, arc{from, n + e}}) {
      network.arcs.push_back(a);
      room.push_back(load);
    }
  }
  for (int v = 0; v < n; ++v) {
    if (v == root) continue;
    network.arcs.push_back({v, to});
    room.push_back(loads.rate);
  }
  auto const flow = max_flow(network, from, to, room);
  std::vector<std::int64_t> oriented;
  for (std::size_t e = 0; e < static_cast<std::size_t>(m); ++e) {
    oriented.push_back(flow.flow[3 * e]);
    oriented.push_back(flow.flow[3 * e + 1]);
  }
  std::vector<packed_arborescence> trees;
  try {
    trees = pack_arborescences(both, oriented, {{root, loads.rate}});
  } catch (planning_error const&) {  // the guess was wrong
    return std::nullopt;
  }
  for (auto& tree : trees) {
    for (int& e : tree.edges) e /= 2;
  }
  return trees;
}

}}}  // namespace blink::BLINK_ABI::detail

namespace blink { inline namespace BLINK_ABI {

/// A maximum fractional packing of spanning trees, and the partition that proves it maximum.
struct spanning_tree_packing {
  rational rate;                     ///< sum of the weights
  std::vector<weighted_tree> trees;  ///< heaviest first
  std::vector<int> part;             ///< by vertex: parts 0, 1, … of a tight partition
};

/// The choice between the two algorithms of `pack_spanning_trees`, and their effort.
struct spanning_tree_packing_options {
  /// up to this number (at most 20), trees are chosen by considering all vertex sets
  int decomposition_vertices = 9;
  /// random decompositions, of which the one with the fewest trees wins
  std::size_t max_tries = 8;
  std::uint64_t seed = 1;  ///< of the choices
  // For larger graphs:
  double perturbation = 1e-4;                 ///< the largest perturbation of a tree, which selects
                                              ///< one of many optima
  std::int64_t largest_denominator = 10'000;  ///< of the guessed loads
  simplex_options simplex{};                  ///< its `exact_weights` is ignored
};

/// Packs spanning trees into the capacities of an undirected graph at the highest rate, with few
/// trees.
///
/// For small graphs, repeated greedy filling finds the rate. Then trees are removed one by one,
/// each as heavy as possible while the rest is still fully packable. The try with the fewest trees,
/// then with the lowest trees, is returned. For larger graphs, linear programming generates trees
/// by price, and its loads are split into trees.
///
/// Source: W. Tutte, "On the problem of decomposing a graph into n connected factors", J. London
///         Math. Soc. 36, 1961; C. Nash-Williams, "Edge-disjoint spanning trees of finite graphs",
///         ibid. (the partition); W. Cunningham, "Optimal attack and reinforcement of a network",
///         J. ACM 32, 1985 (greedy filling).
/// Time:   O(max_tries * E * 2^V) up to `decomposition_vertices`; otherwise a few times E pivots of
///         `simplex`.
/// Pre:    at least two vertices; one integer capacity for each edge, none negative.
/// Post:   for each edge the weights of the trees that use it sum to at most its capacity; rate =
///         sum of the weights = capacity between the parts of `part` / (parts - 1). Exact. Every
///         tree crosses at least parts - 1 times, so no packing has a higher rate.
/// Throws: precondition_error if a precondition does not hold; planning_error that names two
///         unconnected vertices; overflow_error if the exact result needs more than 61 bits.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] spanning_tree_packing pack_spanning_trees(
    Graph const& graph, Capacities const& capacities,
    spanning_tree_packing_options const& options = {}) {
  expects(static_cast<std::size_t>(capacities.size()) == static_cast<std::size_t>(num_edges(graph)),
          "pack_spanning_trees: the capacities do not match the edges, expected one for each edge");
  detail::undirected_edges const plain(to_arc_list(graph), capacities);
  spanning_tree_packing result;
  auto const keep = [&](rational const& weight, std::span<int const> edges) {
    weighted_tree tree{weight * plain.divisor, {}};
    for (int const e : edges) tree.edges.push_back(plain.name[static_cast<std::size_t>(e)]);
    std::ranges::sort(tree.edges);
    result.trees.push_back(std::move(tree));
  };
  if (plain.graph.vertex_count <= options.decomposition_vertices) {
    detail::tree_decomposition peeling(plain.graph, plain.capacity, options.seed);
    result.rate = peeling.rate() * plain.divisor;
    result.part = peeling.part();
    for (auto const& [weight, edges] : peeling.fewest(options.max_tries)) keep(weight, edges);
  } else {
    detail::priced_spanning_trees oracle(plain.graph, options.perturbation, options.seed);
    auto simplex_choice = options.simplex;
    simplex_choice.exact_weights = false;
    auto solution = simplex(plain.capacity, oracle, simplex_choice);
    auto const require = [&](bool possible) {
      if (!possible)
        throw overflow_error(
            "pack_spanning_trees: no exact optimum found in 61 bits, expected one");
    };
    require(solution.stopped_because == simplex_stop::optimal_prices);
    result.rate = solution.rate * plain.divisor;
    result.part = detail::tight_partition(plain.graph, plain.capacity, solution.prices);
    std::vector<double> loads(plain.capacity.size(), 0.0);
    for (auto const& column : solution.columns) {
      for (int const e : column.rows) {
        loads[static_cast<std::size_t>(e)] += column.approximate_weight;
      }
    }
    auto const exact = detail::exact_loads(loads, plain.graph.vertex_count, plain.capacity,
                                           solution.rate, options.largest_denominator);
    if (auto const trees = exact ? detail::split_into_trees(plain.graph, *exact) : std::nullopt) {
      for (auto const& tree : *trees) {
        keep(rational(tree.multiplicity, exact->denominator), tree.edges);
      }
    } else {  // the weights of the basis may still be exact in 61 bits
      simplex_choice.exact_weights = true;
      solution = simplex(plain.capacity, oracle, simplex_choice);
      require(solution.stopped_because == simplex_stop::optimal);
      for (auto const& column : solution.columns) keep(column.weight, column.rows);
    }
  }
  std::sort(result.trees.begin(), result.trees.end(),
            [](weighted_tree const& a, weighted_tree const& b) {
              return a.weight != b.weight ? a.weight > b.weight : a.edges < b.edges;
            });
  return result;
}

/// Finds vertex sets that partition the ranks and have exactly the capacity into them that they
/// need. Every rank sends at `rate` to all other ranks.
///
/// If such sets exist, all-reduce cannot be faster than reduce-scatter followed by all-gather. An
/// in-tree and an out-tree each enter P sets at least P - 1 times. The capacities into the sets sum
/// to rate * N * (P - 1). Such sets exist on machines whose parts are equal (servers, tori), and
/// seldom on others.
///
/// rate:   of each root, from `all_gather_rate`
/// Source: the sets are minimum cuts; the bound is that of C. St. J. A. Nash-Williams,
///         "Edge-disjoint spanning trees of finite graphs", J. London Math. Soc. 36, 1961, for
///         directed links.
/// Time:   N maximum flows.
/// Pre:    as for `all_gather_rate`.
/// Post:   sets of vertices, each with a rank, every rank in one of them; nothing if the cuts
///         around single ranks do not form a partition.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] std::optional<std::vector<std::vector<bool>>> tight_partition(
    Graph const& graph, Capacities const& capacities, std::vector<int> const& ranks,
    rational const& rate) {
  arc_list const& arcs = to_arc_list(graph);
  auto const n = static_cast<std::size_t>(arcs.vertex_count);
  std::vector<std::int64_t> scaled;
  for (std::size_t e = 0; e < arcs.arcs.size(); ++e) {
    scaled.push_back(
        (rational(static_cast<std::int64_t>(capacities[e])) * rate.denominator()).numerator());
  }
  auto network = detail::to_flow_network(arcs, scaled, 1);
  int const super_source = arcs.vertex_count;
  for (int const rank : ranks) network.add(super_source, rank, rate.numerator());
  auto const wanted =
      (rational(rate.numerator()) * static_cast<std::int64_t>(ranks.size())).numerator();
  // The smallest set around each rank with no more capacity into it than it needs.
  std::vector<std::vector<bool>> sets;
  for (int const rank : ranks) {
    network.run(super_source, rank, wanted);
    sets.push_back(network.sink_side());
    sets.back().pop_back();  // removes the super source
  }
  auto const ranks_in = [&](std::vector<bool> const& set) {
    return std::count_if(ranks.begin(), ranks.end(),
                         [&](int r) { return set[static_cast<std::size_t>(r)]; });
  };
  std::vector<std::pair<std::ptrdiff_t, std::size_t>> order;
  for (std::size_t i = 0; i < sets.size(); ++i) order.emplace_back(-ranks_in(sets[i]), i);
  std::sort(order.begin(), order.end());
  if (-order.front().first == std::ssize(ranks)) return std::nullopt;  // not tight
  std::vector<bool> covered(n, false);
  std::vector<std::vector<bool>> result;
  for (auto const& [size, i] : order) {
    if (covered[static_cast<std::size_t>(ranks[i])]) continue;
    for (int const r : ranks) {
      auto const v = static_cast<std::size_t>(r);
      if (!sets[i][v]) continue;
      if (covered[v]) return std::nullopt;
      covered[v] = true;
    }
    result.push_back(std::move(sets[i]));
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
