// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/detail/arborescence_search.hpp>
#include <blink/packing/detail/joint_assembly.hpp>
#include <blink/packing/simplex.hpp>
#include <blink/rational.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace blink::inline BLINK_ABI {

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
  std::vector<joint_tree> trees;  ///< heaviest first
  std::vector<rational> prices;   ///< by edge; every pair costs at least 1
  std::size_t pivots = 0;
};

struct joint_packing_options {
  /// Largest toll of a pair, which picks one of many optima; the next is tried if that one has no
  /// small denominators, or tolls were too large to keep the optimum.
  std::vector<double> tolls{1e-4, 1e-3, 1e-5};
  std::int64_t largest_denominator = 10'000;  ///< of the loads that are guessed
  simplex_options simplex{};                  ///< its `exact_weights` is not looked at
};

namespace detail {

/// Prices pairs of trees: for each root a cheapest in-tree and a cheapest out-tree. A column lists
/// the edges of the in-tree, then those of the out-tree.
///
/// Random tolls on each use of an edge, by direction, single out one way to load the edges among
/// all optimal ones; being a corner, it has small denominators.
class joint_tree_oracle {
 public:
  joint_tree_oracle(arc_list graph, std::span<int const> roots, double toll, std::uint64_t seed)
      : graph_(std::move(graph)), roots_(roots.begin(), roots.end()) {
    reversed_ = graph_;
    for (auto& a : reversed_.arcs) std::swap(a.tail, a.head);
    for (int const root : roots_) {
      in_.emplace_back(reversed_, root);
      out_.emplace_back(graph_, root);
    }
    std::mt19937_64 random(seed);
    auto const per_tree = toll / static_cast<double>(2 * graph_.vertex_count);
    for (auto* tolls : {&in_toll_, &out_toll_}) {
      for (std::size_t e = 0; e < graph_.arcs.size(); ++e) {
        tolls->push_back(per_tree * static_cast<double>(random() >> 11) * 0x1p-53);
      }
    }
    costs_.resize(graph_.arcs.size());
  }

  void operator()(std::span<double const> prices, std::vector<packing_column>& columns) {
    auto const first = columns.size();
    add_tolls(prices, in_toll_);
    for (auto& search : in_) {
      auto const in = search.solve(costs_);
      columns.emplace_back(in.begin(), in.end());
    }
    add_tolls(prices, out_toll_);
    for (std::size_t r = 0; r < roots_.size(); ++r) {
      auto const out = out_[r].solve(costs_);
      columns[first + r].insert(columns[first + r].end(), out.begin(), out.end());
    }
  }
  void operator()(std::span<std::int64_t const> prices, std::vector<packing_column>& columns) {
    for (int const root : roots_) {
      arborescence_search<std::int64_t> search(reversed_, root);
      auto const in = search.solve(prices);
      columns.emplace_back(in.begin(), in.end());
      search = arborescence_search<std::int64_t>(graph_, root);
      auto const out = search.solve(prices);
      columns.back().insert(columns.back().end(), out.begin(), out.end());
    }
  }
  [[nodiscard]] double toll(packing_column const& rows) const {
    double sum = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      auto const& tolls = 2 * i < rows.size() ? in_toll_ : out_toll_;
      sum += tolls[static_cast<std::size_t>(rows[i])];
    }
    return sum;
  }

 private:
  void add_tolls(std::span<double const> prices, std::vector<double> const& tolls) {
    for (std::size_t e = 0; e < costs_.size(); ++e) costs_[e] = prices[e] + tolls[e];
  }

  arc_list graph_, reversed_;
  std::vector<int> roots_;
  std::vector<arborescence_search<double>> in_, out_;  // by position in roots_
  std::vector<double> in_toll_, out_toll_;             // by edge
  std::vector<double> costs_;
};
static_assert(pricing_oracle<joint_tree_oracle> && has_tolls<joint_tree_oracle>);

/// Throws: overflow_error unless prices and weights are proven.
inline void expects_optimal(simplex_solution const& solution) {
  if (solution.stopped_because == simplex_stop::optimal) return;
  throw overflow_error(solution.stopped_because == simplex_stop::pivot_limit
                           ? "pack_joint_trees: no optimum within " +
                                 std::to_string(solution.pivots) + " pivots"
                           : "pack_joint_trees: no optimum with 61-bit numbers found");
}

/// How the columns load the edges; the first `half` entries of a column are an in-tree.
[[nodiscard]] inline joint_loads loads_of(simplex_solution const& solution, std::size_t edge_count,
                                          std::size_t half) {
  joint_loads result{std::vector<double>(edge_count, 0.0), std::vector<double>(edge_count, 0.0)};
  for (auto const& column : solution.columns) {
    for (std::size_t i = 0; i < column.rows.size(); ++i) {
      auto& load = i < half ? result.in : result.out;
      load[static_cast<std::size_t>(column.rows[i])] += column.approximate_weight;
    }
  }
  return result;
}

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
                                             joint_packing_options const& options = {}) {
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
  expects(!options.tolls.empty(), "pack_joint_trees: at least one toll");
  joint_packing result;
  auto const keep = [&](int root, rational const& weight, auto const& in, auto const& out) {
    joint_tree tree{root, weight * divisor, {}, {}};
    for (int const row : in) tree.in_edges.push_back(edge[static_cast<std::size_t>(row)]);
    for (int const row : out) tree.out_edges.push_back(edge[static_cast<std::size_t>(row)]);
    result.trees.push_back(std::move(tree));
  };
  auto const half = static_cast<std::size_t>(plain.vertex_count) - 1;
  auto const solve = [&](double toll, bool exact_weights) {
    detail::joint_tree_oracle oracle(usable, roots, toll, options.simplex.seed);
    auto simplex_choice = options.simplex;
    simplex_choice.exact_weights = exact_weights;
    auto solution = simplex(capacity, oracle, simplex_choice);
    result.pivots += solution.pivots;
    return solution;
  };
  simplex_solution solution;
  std::optional<std::vector<detail::tree_pair>> pairs;
  std::int64_t denominator = 1;
  for (double const toll : options.tolls) {
    solution = solve(toll, false);
    if (solution.stopped_because == simplex_stop::pivot_limit) break;
    if (solution.stopped_because != simplex_stop::optimal_prices) continue;
    auto const loads = detail::loads_of(solution, edge.size(), half);
    auto const exact =
        detail::exact_loads(loads, usable, capacity, solution.rate, options.largest_denominator);
    if (exact) pairs = detail::pack_pairs(usable, *exact);
    if (pairs) denominator = exact->denominator;
    if (pairs) break;
  }
  if (pairs) {
    for (auto const& pair : *pairs) {
      keep(pair.root, rational(pair.multiplicity, denominator), pair.in_edges, pair.out_edges);
    }
  } else {  // no small denominators: the weights of a basis may still be exact in 61 bits
    if (solution.stopped_because != simplex_stop::pivot_limit) solution = solve(0, true);
    detail::expects_optimal(solution);
    for (auto const& column : solution.columns) {
      std::span const rows(column.rows);
      int const root = detail::root_of_out_tree(usable, rows.subspan(half));
      keep(root, column.weight, rows.first(half), rows.subspan(half));
    }
  }
  result.rate = solution.rate * divisor;
  result.prices.resize(plain.arcs.size());
  for (std::size_t row = 0; row < edge.size(); ++row) {
    result.prices[static_cast<std::size_t>(edge[row])] = solution.prices[row];
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

}  // namespace blink::inline BLINK_ABI
