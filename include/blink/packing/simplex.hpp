// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/packing/detail/exact_solve.hpp>
#include <blink/packing/detail/simplex_basis.hpp>
#include <blink/rational.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace blink::inline BLINK_ABI {

/// What a unit of one activity loads: rows of the program, each named as often as it is loaded.
using packing_column = std::vector<int>;

/// Finds cheap columns for given prices of the rows.
///
/// Semantics beyond the syntax: appends columns of the program, among them a cheapest one (a
/// column costs the sum of the prices over its rows); works for floating point and for integers;
/// prices are not negative; no column is empty.
template <class Oracle>
concept pricing_oracle =
    requires(Oracle& price, std::span<double const> costs,
             std::span<std::int64_t const> exact_costs, std::vector<packing_column>& columns) {
      price(costs, columns);
      price(exact_costs, columns);
    };
static_assert(!pricing_oracle<decltype([](std::span<double const>, auto&) {})>);

struct simplex_options {
  std::size_t max_pivots = 100'000;
  double tolerance = 1e-9;     ///< on reduced costs, until the exact check
  double perturbation = 1e-6;  ///< relative change of the capacities that breaks ties; 0 for none
  double smoothing = 0.5;  ///< in [0, 1): how much of the best prices seen is mixed into the asked
  std::size_t refactor_interval = 100;  ///< pivots between fresh inverses
  std::size_t max_exact_checks = 8;     ///< attempts to prove a basis, each with less perturbation
  std::uint64_t seed = 1;               ///< of the perturbation
};

enum class simplex_stop : std::uint8_t {
  optimal,            ///< proven in integers
  pivot_limit,        ///< `max_pivots` were not enough
  numbers_too_large,  ///< the exact weights or prices of an optimal basis exceed 61 bits
  rounding,           ///< the exact checks of all bases failed
};

/// A column and how much of it is packed.
struct weighted_column {
  rational weight;
  packing_column rows;
};

/// An exact optimum of a packing program, or why there is none.
struct simplex_solution {
  rational rate;                         ///< sum of the weights; 0 unless optimal
  std::vector<weighted_column> columns;  ///< weights > 0; empty unless optimal
  std::vector<rational> prices;          ///< by row; empty unless optimal
  std::size_t pivots = 0;
  std::size_t oracle_calls = 0;
  simplex_stop stopped_because = simplex_stop::pivot_limit;
};

namespace detail {

/// The exact weights and prices of a basis.
struct exact_basis_solution {
  common_fractions weights;  ///< by `columns`
  common_fractions prices;   ///< by row
  std::vector<int> columns;  ///< positions of the members that are columns
};

/// Rows whose slack is basic have the price 0 and need no equation.
[[nodiscard]] inline std::optional<exact_basis_solution> solve_basis(
    simplex_basis const& basis, std::vector<std::int64_t> const& capacity) {
  exact_basis_solution result;
  std::vector<int> equation(capacity.size(), 0);
  auto const& members = basis.members();
  for (std::size_t j = 0; j < members.size(); ++j) {
    if (members[j].slack >= 0) {
      equation[static_cast<std::size_t>(members[j].slack)] = -1;
    } else {
      result.columns.push_back(static_cast<int>(j));
    }
  }
  std::vector<std::int64_t> right;
  for (std::size_t row = 0; row < capacity.size(); ++row) {
    if (equation[row] < 0) continue;
    equation[row] = static_cast<int>(right.size());
    right.push_back(capacity[row]);
  }
  integer_matrix matrix{right.size(), std::vector<std::int64_t>(right.size() * right.size(), 0)};
  for (std::size_t k = 0; k < result.columns.size(); ++k) {
    for (int const row : members[static_cast<std::size_t>(result.columns[k])].rows) {
      int const i = equation[static_cast<std::size_t>(row)];
      if (i >= 0) ++matrix.entries[static_cast<std::size_t>(i) * matrix.size + k];
    }
  }
  auto weights = exact_solve(matrix, right);
  auto prices =
      exact_solve(matrix.transposed(), std::vector<std::int64_t>(result.columns.size(), 1));
  if (!weights || !prices) return std::nullopt;
  result.weights = std::move(*weights);
  result.prices = {std::vector<std::int64_t>(capacity.size(), 0), prices->denominator};
  for (std::size_t row = 0; row < capacity.size(); ++row) {
    if (equation[row] < 0) continue;
    result.prices.numerators[row] = prices->numerators[static_cast<std::size_t>(equation[row])];
  }
  return result;
}

/// Are the weights of the basis not negative and within the capacities, in integers?
[[nodiscard]] inline bool is_feasible(simplex_basis const& basis,
                                      exact_basis_solution const& solution,
                                      std::vector<std::int64_t> const& capacity) {
  std::vector<wide_integer> load(capacity.size(), 0);
  for (std::size_t k = 0; k < solution.columns.size(); ++k) {
    auto const weight = solution.weights.numerators[k];
    if (weight < 0) return false;
    auto const& member = basis.members()[static_cast<std::size_t>(solution.columns[k])];
    for (int const row : member.rows) load[static_cast<std::size_t>(row)] += weight;
  }
  for (std::size_t row = 0; row < capacity.size(); ++row) {
    if (load[row] > wide_integer{capacity[row]} * solution.weights.denominator) return false;
  }
  return true;
}

/// Columns that cost less than 1 by the exact prices; none proves the prices. Nothing if the costs
/// of columns might exceed 63 bits.
template <class Oracle>
[[nodiscard]] std::optional<std::vector<packing_column>> columns_below_one(
    Oracle& oracle, common_fractions const& prices) {
  wide_integer sum = 0;
  for (auto const price : prices.numerators) sum += price;
  if (sum >= wide_integer{1} << 60) return std::nullopt;
  std::vector<packing_column> columns;
  oracle(std::span<std::int64_t const>(prices.numerators), columns);
  std::erase_if(columns, [&](packing_column const& rows) {
    wide_integer cost = 0;
    for (int const row : rows) cost += prices.numerators[static_cast<std::size_t>(row)];
    return cost >= prices.denominator;
  });
  return columns;
}

}  // namespace detail

/// Maximises the sum of the weights of columns under the capacities of the rows, exactly; the
/// columns need not be listed, `oracle` finds them by price.
///
/// Pivots run in floating point, on capacities that are slightly and randomly enlarged so that no
/// two rows are exhausted at once. The last basis is then solved in integers for the true
/// capacities, and proven: weights fit, prices are not negative, and the oracle finds no column
/// below 1. Where that fails, pivoting goes on.
///
/// Source: G. Dantzig and P. Wolfe, "Decomposition principle for linear programs", Operations
///         Research 8, 1960 (columns by price); P. Wentges, "Weighted Dantzig-Wolfe decomposition",
///         Int. Trans. Operational Research 4, 1997 (smoothed prices).
/// Time:   O(rows^2) a pivot; about as many pivots as a few times the rows.  Space: O(rows^2).
/// Pre:    capacities are positive; every column loads a row.
/// Post:   if `optimal`: for each row the weights of the columns that load it sum to at most its
///         capacity; every column costs at least 1 by `prices`, none of which is negative; rate =
///         sum of price * capacity. All of it in exact fractions.
/// Throws: precondition_error if a precondition does not hold.
template <pricing_oracle Oracle>
[[nodiscard]] simplex_solution simplex(std::vector<std::int64_t> const& capacity, Oracle&& oracle,
                                       simplex_options const& options = {}) {
  for (auto const c : capacity) expects(c > 0, "simplex: a capacity is not positive");
  expects(0 <= options.smoothing && options.smoothing < 1, "simplex: smoothing is not in [0, 1)");
  auto const m = capacity.size();
  auto const largest = static_cast<double>(m == 0 ? 1 : *std::ranges::max_element(capacity));
  simplex_solution result;

  double perturbation = options.perturbation;
  for (std::size_t check = 0; check < options.max_exact_checks; ++check, perturbation /= 16) {
    std::mt19937_64 random(options.seed);
    std::vector<double> right(m);  // capacities, perturbed, the largest being about 1
    for (std::size_t row = 0; row < m; ++row) {
      auto const share = static_cast<double>(random() >> 11) * 0x1p-53;
      right[row] = static_cast<double>(capacity[row]) / largest;
      right[row] *= 1 + perturbation * (1 + share);
    }
    detail::simplex_basis basis(right);
    std::vector<packing_column> candidates;
    std::vector<double> best_prices, asked(m);
    double best_bound = std::numeric_limits<double>::infinity();
    // Asks the oracle and keeps the prices that bound the rate best. Is there a column below 1?
    auto const ask = [&](double share_of_best) {
      for (std::size_t row = 0; row < m; ++row) {
        asked[row] = std::max(basis.prices()[row], 0.0);
        if (share_of_best > 0) {
          asked[row] = (1 - share_of_best) * asked[row] + share_of_best * best_prices[row];
        }
      }
      candidates.clear();
      oracle(std::span<double const>(asked), candidates);
      ++result.oracle_calls;
      double least = std::numeric_limits<double>::infinity();
      bool improves = false;
      for (auto const& rows : candidates) {
        expects(!rows.empty(), "simplex: the oracle found an empty column");
        double cost = 0;
        for (int const row : rows) cost += asked[static_cast<std::size_t>(row)];
        least = std::min(least, cost);
        improves = improves || basis.cost(rows) < 1 - options.tolerance;
      }
      double const value = std::inner_product(asked.begin(), asked.end(), right.begin(), 0.0);
      if (least > 0 && value / least < best_bound) {
        best_bound = value / least;
        best_prices = asked;
        for (double& price : best_prices) price /= least;
      }
      return improves;
    };
    // Brings in the best candidate or slack. False if none improves.
    auto const improve = [&] {
      double most = options.tolerance;
      packing_column const* column = nullptr;
      int slack = -1;
      for (std::size_t row = 0; row < m; ++row) {
        if (-basis.prices()[row] <= most) continue;
        most = -basis.prices()[row];
        slack = static_cast<int>(row);
      }
      for (auto const& rows : candidates) {
        double const gain = 1 - basis.cost(rows);
        if (gain <= most) continue;
        most = gain;
        column = &rows;
      }
      if (column != nullptr) return basis.enter(*column);
      return slack >= 0 && basis.enter_slack(slack);
    };

    // Prices to begin with: each row costs as much as it is scarce.
    best_prices.resize(m);
    for (std::size_t row = 0; row < m; ++row) best_prices[row] = 1 / right[row];
    bool singular = false;
    for (std::size_t since_refactor = 0;;) {
      if (improve()) {
        if (++result.pivots >= options.max_pivots) return result;
        if (++since_refactor < options.refactor_interval) continue;
        singular = !basis.refactor();
        since_refactor = 0;
        if (singular) break;
        continue;
      }
      if (options.smoothing > 0 && ask(options.smoothing)) continue;
      if (ask(0)) continue;
      if (since_refactor > 0) {  // rounding may have piled up
        singular = !basis.refactor();
        since_refactor = 0;
        if (singular) break;
        if (ask(0) ||
            std::ranges::any_of(basis.prices(), [&](double p) { return p < -options.tolerance; })) {
          continue;
        }
      }
      // The basis looks optimal: prove it.
      auto const exact = detail::solve_basis(basis, capacity);
      if (!exact) {
        result.stopped_because = simplex_stop::numbers_too_large;
        break;
      }
      result.stopped_because = simplex_stop::rounding;
      if (!detail::is_feasible(basis, *exact, capacity)) break;
      auto const& prices = exact->prices;
      if (std::ranges::any_of(prices.numerators, [](std::int64_t p) { return p < 0; })) break;
      auto below = detail::columns_below_one(oracle, prices);
      if (!below) {
        result.stopped_because = simplex_stop::numbers_too_large;
        break;
      }
      if (!below->empty()) break;
      rational value;
      for (std::size_t row = 0; row < m; ++row) {
        result.prices.emplace_back(prices.numerators[row], prices.denominator);
        value += result.prices.back() * capacity[row];
      }
      for (std::size_t k = 0; k < exact->columns.size(); ++k) {
        rational const weight(exact->weights.numerators[k], exact->weights.denominator);
        if (weight == rational(0)) continue;
        auto const& member = basis.members()[static_cast<std::size_t>(exact->columns[k])];
        result.columns.push_back({weight, member.rows});
        result.rate += weight;
      }
      expects(result.rate == value, "simplex: weights and prices of a basis differ in value");
      result.stopped_because = simplex_stop::optimal;
      return result;
    }
  }
  return result;
}

}  // namespace blink::inline BLINK_ABI
