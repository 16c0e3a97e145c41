// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/core/work_budget.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/packing/joint/detail/joint_assembly.hpp>
#include <blink/packing/joint/detail/joint_columns.hpp>
#include <blink/packing/joint/detail/joint_rounding.hpp>
#include <blink/packing/joint/joint_routing.hpp>
#include <blink/packing/lp/detail/exact_solve.hpp>
#include <blink/packing/lp/detail/listed_columns.hpp>
#include <blink/packing/lp/simplex.hpp>
#include <blink/packing/trees/multiplicative_weights.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// An oracle that draws some columns of a packing at random by weight and takes the cheapest.
class drawn_columns {
 public:
  drawn_columns(packing_solution const& packing, std::uint64_t seed)
      : packing_(packing), random_(seed) {
    double sum = 0;
    for (auto const& t : packing.trees) up_to_.push_back(sum += t.weight);
  }
  /// The position of a column.
  [[nodiscard]] std::size_t draw() {
    double const at = static_cast<double>(random_() >> 11) * 0x1p-53 * up_to_.back();
    return static_cast<std::size_t>(std::upper_bound(up_to_.begin(), up_to_.end() - 1, at) -
                                    up_to_.begin());
  }
  std::span<int const> operator()(std::span<double const> prices) {
    constexpr int candidates = 32;
    std::span<int const> best;
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < candidates; ++i) {
      auto const& rows = packing_.trees[draw()].edges;
      double cost = 0;
      for (int const row : rows) cost += prices[static_cast<std::size_t>(row)];
      if (cost >= least) continue;
      least = cost;
      best = rows;
    }
    return best;
  }

 private:
  packing_solution const& packing_;
  std::mt19937_64 random_;
  std::vector<double> up_to_;  // sums of the weights
};

/// Packs some columns of a packing again, drawn at random by weight. There is at most one for each
/// row in the result, because a basis has no more. Returns the same packing if that would lose more
/// than `most_lost` of its rate. If the thread's budget does not suffice, multiplicative weights
/// choose at most two for each row, which loses more.
///
/// capacity: by row
/// seed:     of the random draw
/// Time:     that of `simplex` over a few columns for each row, each priced at every pivot.
/// Post:     weights are within the capacities, up to rounding.
[[nodiscard]] inline std::vector<weighted_column> fewer_columns(
    std::vector<std::int64_t> const& capacity, packing_solution const& packing, double most_lost,
    std::uint64_t seed) {
  constexpr std::size_t drawn_per_row = 6;
  std::vector<weighted_column> result;
  for (auto const& t : packing.trees) result.push_back({{}, t.weight, t.edges});
  if (result.size() <= capacity.size()) return result;
  drawn_columns columns(packing, seed);
  std::vector<bool> drawn(result.size(), false);
  for (std::size_t i = 0; i < drawn_per_row * capacity.size(); ++i) drawn[columns.draw()] = true;
  std::vector<packing_column> pool;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    if (drawn[i]) pool.push_back(packing.trees[i].edges);
  }
  simplex_options search;
  search.gap = most_lost / 4;
  simplex_solution solution;
  try {
    budget_scope const half(budget_scope::part(0.5));
    solution = simplex(capacity, listed_columns{pool}, search);
  } catch (budget_spent const&) {
    unlimited_scope const whole;
    multiplicative_weights_options few;
    few.max_iterations = 2 * capacity.size();
    std::vector<weighted_column> chosen;
    for (auto& t : multiplicative_weights(columns, capacity, few).trees) {
      chosen.push_back({{}, t.weight, std::move(t.edges)});
    }
    return chosen;
  }
  double rate = 0;
  for (auto const& c : solution.columns) rate += c.approximate_weight;
  if (rate < (1 - most_lost) * packing.rate) return result;
  return std::move(solution.columns);
}

}}}  // namespace blink::BLINK_ABI::detail

namespace blink { inline namespace BLINK_ABI {

/// The gap, limits and steps of `pack_joint_routes_approximately`.
struct approximate_joint_options {
  double gap = 0.01;  ///< the gap to reach: bound / rate - 1
  /// no packing has a higher rate, for other reasons than prices
  double known_bound = std::numeric_limits<double>::infinity();
  /// up to this number of links, linear programming is tried first
  std::size_t max_rows = 800;
  std::size_t max_pivots = 40'000;          ///< of the linear program
  std::vector<double> epsilons{0.1, 0.05};  ///< steps of the prices, one for each attempt
  std::size_t max_iterations = 100'000;     ///< of all attempts
  std::uint64_t seed = 1;                   ///< of the choice of trees to keep
};

namespace detail {

/// Orders the edges of a tree such that each comes after the edge above it.
[[nodiscard]] inline path_list root_first(int root, path_list const& edges) {
  path_list result;
  std::vector<int> order{root};
  for (std::size_t next = 0; next < order.size(); ++next) {
    for (auto const& path : edges) {
      if (path.front() != order[next]) continue;
      order.push_back(path.back());
      result.push_back(path);
    }
  }
  return result;
}

/// The number of times, at most `wished`, that a column fits into `room`. Takes that much off
/// `room`.
///
/// column: rows, in ascending order
[[nodiscard]] inline std::int64_t what_fits(packing_column const& column, std::int64_t wished,
                                            std::vector<wide_integer>& room) {
  auto const each_row = [&](auto const& visit) {
    for (auto from = column.begin(); from != column.end();) {
      auto const to = std::upper_bound(from, column.end(), *from);
      visit(room[static_cast<std::size_t>(*from)], wide_integer{to - from});
      from = to;
    }
  };
  wide_integer times = wished;
  each_row([&](wide_integer& left, wide_integer uses) { times = std::min(times, left / uses); });
  each_row([&](wide_integer& left, wide_integer uses) { left -= times * uses; });
  return static_cast<std::int64_t>(times);
}

/// Weighted columns, and prices by which every column costs at least 1.
struct column_packing {
  std::vector<weighted_column> columns;
  std::vector<double> prices;
  std::size_t steps = 0;  ///< number of pivots and iterations
};

/// Packs by linear programming over columns that are generated by price. Returns no columns if
/// `max_pivots` or the budget were not enough.
[[nodiscard]] inline column_packing pack_by_pivots(joint_problem const& problem,
                                                   joint_columns& columns, double gap,
                                                   std::size_t max_pivots) {
  simplex_options search;
  search.gap = gap;
  search.max_pivots = max_pivots;
  simplex_solution found;
  try {
    budget_scope const half(budget_scope::part(0.5));
    found = simplex(
        problem.capacity,
        [&](auto asked, std::vector<packing_column>& result) {
          columns.restart();
          std::vector<double> const prices(asked.begin(), asked.end());
          auto const column = columns(prices);
          result.emplace_back(column.begin(), column.end());
        },
        search);
  } catch (budget_spent const&) {
    return {};
  }
  if (found.stopped_because != simplex_stop::gap_reached) return {{}, {}, found.pivots};
  return {std::move(found.columns), std::move(found.approximate_prices), found.pivots};
}

/// Packs by multiplicative weights, with ever smaller steps until the gap is reached or the
/// iterations are used up.
[[nodiscard]] inline column_packing pack_by_weights(joint_problem const& problem,
                                                    joint_columns& columns,
                                                    approximate_joint_options const& options) {
  constexpr double for_search = 0.7, for_columns = 0.2;  // shares of the gap
  column_packing result;
  packing_solution best;
  double bound = 0;
  for (double const epsilon : options.epsilons) {
    if (result.steps >= options.max_iterations) break;
    if (result.steps > 0 && best.stopped_because == packing_stop::budget_spent) break;
    columns.restart();
    auto found = multiplicative_weights(columns, problem.capacity,
                                        {epsilon, for_search * options.gap, options.known_bound,
                                         options.max_iterations - result.steps});
    result.steps += found.iterations;
    if (result.prices.empty() || found.bound < bound) {
      bound = found.bound;
      result.prices = found.prices;
    }
    if (found.rate > best.rate) best = std::move(found);
    if (std::min(bound, options.known_bound) <= (1 + for_search * options.gap) * best.rate) break;
  }
  result.columns = fewer_columns(problem.capacity, best, for_columns * options.gap, options.seed);
  return result;
}

}  // namespace detail

/// Packs pairs of an in-tree and an out-tree like `pack_joint_routes`, but only to within a gap of
/// the optimum. It serves machines so large or uneven that an optimum takes too long or needs too
/// many trees.
///
/// Pairs are generated one by one, by price. Up to `max_rows` links, linear programming is tried
/// first; it ends when the best bound is near. For more links, or if that fails, multiplicative
/// weights follow. Then some of the pairs are packed again, to leave at most one for each link if
/// that loses little. Weights are rounded down, so that loads stay within the capacities.
///
/// Source: `simplex` and `multiplicative_weights` over `detail::joint_columns`.
/// Time:   O(rows^2) a pivot; for each generated pair see `detail::joint_columns`.
/// Pre:    as for `pack_joint_routes`.
/// Post:   for each edge the weights of the routes over it sum to at most its capacity, exactly; by
///         `prices`, none negative, every pair costs at least 1; bound = sum of price * capacity >=
///         rate. The gap is reached unless the iterations or the thread's budget ran out before,
///         so compare both.
/// Throws: as `pack_joint_routes`; planning_error if switches copy or reduce; overflow_error if a
///         weight or the bound exceeds 61 bits.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] routed_joint_packing pack_joint_routes_approximately(
    Graph const& graph, Capacities const& capacities, routed_network const& network,
    approximate_joint_options const& options = {}) {
  expects(options.gap > 0,
          "pack_joint_routes_approximately: the gap is not positive, expected more than 0");
  detail::routed_problem const problem(to_arc_list(graph), capacities, network);
  if (!problem.copying.empty() || !problem.reducing.empty()) {
    throw planning_error(
        "pack_joint_routes_approximately: a switch copies or reduces, expected none (the exact "
        "planner supports them)");
  }
  constexpr double for_rounding = 0.05;  // share of the gap
  detail::joint_columns columns(problem);
  detail::column_packing found;
  routed_joint_packing result;
  if (problem.capacity.size() <= options.max_rows) {
    found = detail::pack_by_pivots(problem, columns, (1 - for_rounding) * options.gap,
                                   options.max_pivots);
    result.pivots = found.steps;
  }
  if (found.columns.empty()) {
    auto weighted = options;
    weighted.known_bound /= static_cast<double>(problem.edges.divisor);
    found = detail::pack_by_weights(problem, columns, weighted);
    result.pivots += found.steps;
  }
  auto const proven = detail::bound_near(problem, found.prices);
  if (!proven)
    throw overflow_error(
        "pack_joint_routes_approximately: the bound exceeds 61 bits, expected less");

  // Rounding takes less than one step from each pair.
  double rate = 0;
  for (auto const& c : found.columns) rate += c.approximate_weight;
  double const wanted = static_cast<double>(found.columns.size()) / (for_rounding * options.gap);
  std::int64_t steps = 1;
  while (static_cast<double>(steps) * rate < wanted) steps *= 2;
  auto const divisor = problem.edges.divisor;
  result.bound = proven->value * divisor;
  std::vector<detail::wide_integer> room;  // by resource, in steps
  for (auto const c : problem.capacity) room.push_back(detail::wide_integer{c} * steps);
  for (auto const& c : found.columns) {
    double const wished = std::floor(c.approximate_weight * static_cast<double>(steps));
    if (wished > 0x1p60)
      throw overflow_error(
          "pack_joint_routes_approximately: a weight exceeds 60 bits, expected less");
    auto const times = detail::what_fits(c.rows, static_cast<std::int64_t>(wished), room);
    if (times <= 0) continue;
    auto [root, in, out] = columns.pair_of(c.rows);
    if (problem.is_symmetric) {
      std::tie(root, out) = detail::rooted_lowest(std::move(out), problem.is_switch);
      in = detail::reversed(out);
    } else {
      out = detail::root_first(root, out);
      in = detail::reversed(detail::root_first(root, detail::reversed(std::move(in))));
    }
    result.pairs.push_back(
        {root, rational(divisor) * times / steps, std::move(in), std::move(out)});
    result.rate += result.pairs.back().weight;
  }
  result.prices = problem.prices_of(proven->prices, static_cast<std::size_t>(capacities.size()));
  std::sort(result.pairs.begin(), result.pairs.end(),
            [](routed_tree_pair const& a, routed_tree_pair const& b) {
              return std::pair(b.weight, a.root) < std::pair(a.weight, b.root);
            });
  return result;
}

}}  // namespace blink::BLINK_ABI
