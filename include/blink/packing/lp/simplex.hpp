// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/packing/lp/detail/exact_solve.hpp>
#include <blink/packing/lp/detail/simplex_basis.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A column of a packing program: the rows that a unit of it loads. A row is repeated as often as
/// it is loaded.
using packing_column = std::vector<int>;

/// A search for cheap columns by given prices of the rows.
///
/// Semantics beyond the syntax: the oracle appends columns of the program, among them a cheapest
/// one. A column costs the sum of the prices over its rows. The oracle works for floating point and
/// for integers. Prices are not negative, and no column is empty.
template <class Oracle>
concept pricing_oracle =
    requires(Oracle& price, std::span<double const> costs,
             std::span<std::int64_t const> exact_costs, std::vector<packing_column>& columns) {
      price(costs, columns);
      price(exact_costs, columns);
    };
static_assert(!pricing_oracle<decltype([](std::span<double const>, auto&) {})>);

/// An oracle that breaks ties between optima. A unit of a column then counts as 1 less its
/// perturbation, which is small and not negative. The oracle includes the perturbation when it
/// searches in floating point. Exact prices and weights are without perturbations.
template <class Oracle>
concept has_perturbations = requires(Oracle const& price, packing_column const& rows) {
  { price.perturbation(rows) } -> std::convertible_to<double>;
};

/// Limits and tolerances of `simplex`.
struct simplex_options {
  std::size_t max_pivots = 100'000;
  double tolerance = 1e-9;     ///< of reduced costs, before the exact check
  double perturbation = 1e-6;  ///< relative change of the capacities that breaks ties; 0 for none
  double smoothing = 0.5;      ///< in [0, 1): the share of the best prices in the queried prices
  std::size_t refactor_interval = 100;  ///< pivots between recomputations of the inverse
  /// attempts to prove a basis, each with a smaller perturbation
  std::size_t max_exact_checks = 8;
  std::uint64_t seed = 1;     ///< of the perturbation
  bool exact_weights = true;  ///< false: only the prices are made exact
  double gap = 0;             ///< ends once bound / rate - 1 is at most this; 0: exact or nothing
};

/// The reason why `simplex` ended.
enum class simplex_stop : std::uint8_t {
  optimal,            ///< weights and prices are proven in integers
  optimal_prices,     ///< prices are proven, weights are approximate: as requested, or because they
                      ///< exceed 61 bits
  pivot_limit,        ///< `max_pivots` were not enough
  gap_reached,        ///< weights and prices are approximate, and at most `gap` apart
  numbers_too_large,  ///< the exact prices of an optimal basis exceed 61 bits
  rounding,           ///< the exact checks of all bases failed
};

/// A column and its weight in a packing.
struct weighted_column {
  rational weight;  ///< 0 unless `optimal`
  double approximate_weight = 0;
  packing_column rows;
};

/// An exact optimum of a packing program, or the reason why there is none.
struct simplex_solution {
  rational rate;                             ///< the optimum: sum of price * capacity
  std::vector<weighted_column> columns;      ///< positive weights
  std::vector<rational> prices;              ///< by row
  std::vector<double> approximate_prices{};  ///< by row, if `gap_reached`
  std::size_t pivots = 0;
  std::size_t oracle_calls = 0;
  simplex_stop stopped_because = simplex_stop::pivot_limit;
};

namespace detail {

/// The equations of a basis. Rows with basic slacks have the price 0 and need no equation.
struct basis_equations {
  std::vector<int> columns;  ///< positions of the members that are columns
  std::vector<int> rows;     ///< full rows
  integer_matrix matrix;     ///< rows: `rows`, columns: `columns`

  explicit basis_equations(simplex_basis const& basis) {
    auto const& members = basis.members();
    std::vector<int> equation(members.size(), 0);  // by row, -1 for none
    for (std::size_t j = 0; j < members.size(); ++j) {
      if (members[j].slack >= 0) {
        equation[static_cast<std::size_t>(members[j].slack)] = -1;
      } else {
        columns.push_back(static_cast<int>(j));
      }
    }
    for (std::size_t row = 0; row < equation.size(); ++row) {
      if (equation[row] < 0) continue;
      equation[row] = static_cast<int>(rows.size());
      rows.push_back(static_cast<int>(row));
    }
    matrix.size = rows.size();
    matrix.entries.assign(matrix.size * matrix.size, 0);
    for (std::size_t k = 0; k < columns.size(); ++k) {
      for (int const row : members[static_cast<std::size_t>(columns[k])].rows) {
        int const i = equation[static_cast<std::size_t>(row)];
        if (i >= 0) ++matrix.entries[static_cast<std::size_t>(i) * matrix.size + k];
      }
    }
  }

  /// Prices by row, zeros included. Returns nothing if they exceed 61 bits.
  [[nodiscard]] std::optional<common_fractions> prices(std::size_t row_count) const {
    auto const found =
        exact_solve(matrix.transposed(), std::vector<std::int64_t>(columns.size(), 1));
    if (!found) return std::nullopt;
    common_fractions result{std::vector<std::int64_t>(row_count, 0), found->denominator};
    for (std::size_t i = 0; i < rows.size(); ++i) {
      result.numerators[static_cast<std::size_t>(rows[i])] = found->numerators[i];
    }
    return result;
  }

  /// Weights by position in `columns`. Returns nothing if they exceed 61 bits.
  [[nodiscard]] std::optional<common_fractions> weights(
      std::vector<std::int64_t> const& capacity) const {
    std::vector<std::int64_t> right;
    for (int const row : rows) right.push_back(capacity[static_cast<std::size_t>(row)]);
    return exact_solve(matrix, right);
  }
};

/// True if the weights of the basis are nonnegative and within the capacities, in integers.
[[nodiscard]] inline bool is_feasible(simplex_basis const& basis, std::vector<int> const& columns,
                                      common_fractions const& weights,
                                      std::vector<std::int64_t> const& capacity) {
  std::vector<wide_integer> load(capacity.size(), 0);
  for (std::size_t k = 0; k < columns.size(); ++k) {
    auto const weight = weights.numerators[k];
    if (weight < 0) return false;
    auto const& member = basis.members()[static_cast<std::size_t>(columns[k])];
    for (int const row : member.rows) load[static_cast<std::size_t>(row)] += weight;
  }
  for (std::size_t row = 0; row < capacity.size(); ++row) {
    if (load[row] > wide_integer{capacity[row]} * weights.denominator) return false;
  }
  return true;
}

/// Returns columns that cost less than 1 by the exact prices. If there are none, the prices are
/// proven. Returns nothing if the costs of columns might exceed 63 bits.
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

/// Maximizes the sum of the weights of columns under the capacities of the rows, exactly. The
/// columns are not listed; `oracle` generates them by price.
///
/// Pivots run in floating point. Capacities are slightly and randomly enlarged, so that no two rows
/// fill up at once. The last basis is then solved in integers for the true capacities. It is proven
/// if weights fit, prices are not negative, and the oracle finds no column below 1. If that fails,
/// it starts again with a smaller perturbation.
///
/// Source: G. Dantzig and P. Wolfe, "Decomposition principle for linear programs", Operations
///         Research 8, 1960 (columns by price); P. Wentges, "Weighted Dantzig-Wolfe decomposition",
///         Int. Trans. Operational Research 4, 1997 (smoothed prices).
/// Time:   O(rows^2) a pivot; about as many pivots as a few times the rows.  Space: O(rows^2).
/// Pre:    capacities are positive; every column loads a row.
/// Post:   if `optimal`, in exact fractions: for each row the weights of the columns that load it
///         sum to at most its capacity; every column costs at least 1 by `prices`, none of which is
///         negative; rate = sum of price * capacity. If `gap_reached`, in floating point: the
///         approximate weights are within the capacities; by the approximate prices every column
///         costs at least 1; the weights reach 1 / (1 + gap) of the bound that these prices prove.
/// Throws: precondition_error if a precondition does not hold.
template <pricing_oracle Oracle>
[[nodiscard]] simplex_solution simplex(std::vector<std::int64_t> const& capacity, Oracle&& oracle,
                                       simplex_options const& options = {}) {
  for (auto const c : capacity)
    expects(c > 0, "simplex: a capacity is not positive, expected more than 0");
  expects(0 <= options.smoothing && options.smoothing < 1,
          "simplex: smoothing is out of range, expected a number in [0, 1)");
  auto const m = capacity.size();
  auto const largest = static_cast<double>(m == 0 ? 1 : *std::ranges::max_element(capacity));
  auto const value_of = [&](packing_column const& rows) {
    if constexpr (has_perturbations<std::remove_reference_t<Oracle>>)
      return 1 - oracle.perturbation(rows);
    return 1.0 + 0.0 * static_cast<double>(rows.size());
  };
  simplex_solution result;

  double perturbation = options.perturbation;
  for (std::size_t check = 0; check < options.max_exact_checks; ++check, perturbation /= 16) {
    std::mt19937_64 random(options.seed);
    std::vector<double> right(m);  // perturbed capacities, the largest about 1
    for (std::size_t row = 0; row < m; ++row) {
      auto const share = static_cast<double>(random() >> 11) * 0x1p-53;
      right[row] = static_cast<double>(capacity[row]) / largest;
      right[row] *= 1 + perturbation * (1 + share);
    }
    detail::simplex_basis basis(right);
    std::vector<packing_column> candidates;
    std::vector<double> best_prices, asked(m);
    double best_bound = std::numeric_limits<double>::infinity();
    // Queries the oracle and keeps the prices with the best bound. Returns true if there is a
    // column below 1.
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
        expects(!rows.empty(), "simplex: the oracle found an empty column, expected rows");
        double cost = 0;
        for (int const row : rows) cost += asked[static_cast<std::size_t>(row)];
        least = std::min(least, cost);
        improves = improves || basis.cost(rows) < value_of(rows) - options.tolerance;
      }
      double const value = std::inner_product(asked.begin(), asked.end(), right.begin(), 0.0);
      if (least > 0 && value / least < best_bound) {
        best_bound = value / least;
        best_prices = asked;
        for (double& price : best_prices) price /= least;
      }
      return improves;
    };
    // Lets the best candidate or slack enter. Returns false if none improves.
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
        double const gain = value_of(rows) - basis.cost(rows);
        if (gain <= most) continue;
        most = gain;
        column = &rows;
      }
      if (column != nullptr) return basis.enter(*column, value_of(*column));
      return slack >= 0 && basis.enter_slack(slack);
    };

    // Initial prices: the price of a row is its scarcity.
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
      bool const improves = (options.smoothing > 0 && ask(options.smoothing)) || ask(0);
      // The value of a basis is the value of its prices.
      double const rate =
          std::inner_product(basis.prices().begin(), basis.prices().end(), right.begin(), 0.0);
      if (options.gap > 0 && rate * (1 + options.gap) >= best_bound) {
        auto const weights = basis.weights(right);
        double const scale = largest / (1 + 2 * perturbation) * (1 - 1e-9);
        for (std::size_t j = 0; j < m; ++j) {
          if (basis.members()[j].slack >= 0 || weights[j] <= options.tolerance) continue;
          result.columns.push_back({{}, weights[j] * scale, basis.members()[j].rows});
        }
        result.approximate_prices = std::move(best_prices);
        result.stopped_because = simplex_stop::gap_reached;
        return result;
      }
      if (improves) continue;
      if (since_refactor > 0) {  // rounding errors may have accumulated
        singular = !basis.refactor();
        since_refactor = 0;
        if (singular) break;
        if (ask(0) ||
            std::ranges::any_of(basis.prices(), [&](double p) { return p < -options.tolerance; })) {
          continue;
        }
      }
      // The basis seems optimal, so prove its prices, then its weights.
      detail::basis_equations const equations(basis);
      auto const prices = equations.prices(m);
      result.stopped_because = simplex_stop::numbers_too_large;
      if (!prices) break;
      result.stopped_because = simplex_stop::rounding;
      if (std::ranges::any_of(prices->numerators, [](std::int64_t p) { return p < 0; })) break;
      auto const below = detail::columns_below_one(oracle, *prices);
      if (!below) result.stopped_because = simplex_stop::numbers_too_large;
      if (!below || !below->empty()) break;
      auto const weights = options.exact_weights ? equations.weights(capacity) : std::nullopt;
      if (weights && !detail::is_feasible(basis, equations.columns, *weights, capacity)) break;

      result.stopped_because = weights ? simplex_stop::optimal : simplex_stop::optimal_prices;
      for (std::size_t row = 0; row < m; ++row) {
        result.prices.emplace_back(prices->numerators[row], prices->denominator);
        result.rate += result.prices.back() * capacity[row];
      }
      std::vector<double> const true_capacity(capacity.begin(), capacity.end());
      auto const approximate = basis.weights(true_capacity);
      rational sum;
      for (std::size_t k = 0; k < equations.columns.size(); ++k) {
        auto const j = static_cast<std::size_t>(equations.columns[k]);
        rational const weight =
            weights ? rational(weights->numerators[k], weights->denominator) : rational();
        sum += weight;
        if (weights ? weight == rational(0) : approximate[j] <= options.tolerance) continue;
        result.columns.push_back({weight, approximate[j], basis.members()[j].rows});
      }
      expects(!weights || sum == result.rate,
              "simplex: weights and prices differ in value, expected equal values");
      return result;
    }
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
