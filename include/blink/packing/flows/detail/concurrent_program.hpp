// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/packing/lp/detail/dual_simplex.hpp>
#include <blink/packing/lp/detail/exact_solve.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The edges that a choice loads, and how much of each.
using edge_loads = std::vector<std::pair<std::size_t, std::int64_t>>;

/// Commodities that are moved at the same rate over shared edges. A choice, such as a tree, moves
/// one of them.
///
/// Semantics beyond the syntax: `set_prices` gives the prices of the edges, none negative.
/// `cheapest` then returns a cheapest choice for one commodity, with its `loads`.
template <class Commodities>
concept priced_commodities =
    requires(Commodities& all, Commodities const& known, std::span<double const> prices) {
      { known.count() } -> std::convertible_to<std::size_t>;
      { known.capacity() } -> std::convertible_to<std::vector<std::int64_t> const&>;
      /// an upper bound of the load of one edge by a choice of each commodity together
      { known.largest_load() } -> std::convertible_to<std::int64_t>;
      all.set_prices(prices);
      { all.cheapest(std::size_t{}).loads } -> std::convertible_to<edge_loads>;
    };

/// Whole multiples of choices, for each commodity as many as `steps`.
struct whole_choices {
  std::int64_t steps = 0;
  std::vector<std::pair<std::size_t, std::int64_t>> uses;  ///< (number of a choice, times)
};

/// The optimum of a concurrent packing, as a linear program over prices.
///
/// The program considers prices of the edges by which the capacities cost 1 together. Among these
/// it finds those by which the cheapest choices of all commodities cost most. That maximum is 1 /
/// the optimal rate. Each choice costs at least the cost assumed for its commodity; this is a row.
/// Searches for cheapest choices find the rows that the prices violate. At the end, the dual value
/// of a row is the part of its commodity that this choice moves. Pivots run in floating point. The
/// last basis can be solved in integers.
///
/// Source: G. Dantzig and P. Wolfe, "Decomposition principle for linear programs", Operations
///         Research 8, 1960 (choices by price), in its dual form; W. Ben-Ameur and J. Neto,
///         "Acceleration of cutting-plane and column generation algorithms", Networks 49, 2007
///         (queries between the last and the best prices).
/// Time:   a few times (edges + commodities) pivots of `dual_simplex` over as many variables; a
///         search for every commodity for each round of rows.
template <priced_commodities Commodities>
class concurrent_program {
 public:
  /// unit:  about the optimal rate, which the program counts as 1
  /// least: a rate that is attained
  concurrent_program(Commodities& commodities, double unit, double least, double perturbation,
                     std::uint64_t seed)
      : commodities_(commodities),
        capacity_(commodities.capacity()),
        edges_(capacity_.size()),
        sources_(commodities.count()),
        best_(edges_),
        asked_(edges_),
        lp_(make_program(unit / least, perturbation, seed)) {
    std::vector<row_entry> worth;
    double sum = 0;
    for (std::size_t e = 0; e < edges_; ++e) {
      // Capacity beyond the use of all has no effect, and would make the other values small.
      double const c = std::min(static_cast<double>(capacity_[e]) / unit,
                                2 * static_cast<double>(commodities.largest_load()));
      worth.push_back({price_of(e), c});
      best_[e] = 1 / c;
      sum += c * best_[e];
    }
    for (double& p : best_) p /= sum;
    lp_.add_row(worth, 1);
    choices_.emplace_back();
    asked_ = best_;
    best_cost_ = add_rows();
  }

  /// Solves the program. Returns false if rounding or `most_pivots` stopped it early.
  bool solve(std::size_t most_pivots) {
    constexpr double enough = 1e-9;
    double share = 0.5;  // of the best prices in the queried prices
    double before = std::numeric_limits<double>::infinity();
    for (;;) {
      if (!lp_.solve(most_pivots)) return false;
      double const now = cost_of_program();
      if (now < before * (1 - 1e-7)) {
        before = now;
        lp_.drop_loose_rows(2, 1e-6 * now / static_cast<double>(sources_));
      }
      bool found = false;
      for (double const kept : {share, 0.0}) {
        for (std::size_t e = 0; e < edges_; ++e) {
          asked_[e] = kept * best_[e] + (1 - kept) * std::max(lp_.value(price_of(e)), 0.0);
        }
        auto const rows = choices_.size();
        double const cost = add_rows();
        ++rounds_;
        if (cost > best_cost_) {
          best_cost_ = cost;
          best_ = asked_;
        }
        found = choices_.size() > rows;
        if (found) break;
      }
      if (!found || best_cost_ >= now * (1 - enough)) return true;
    }
  }

  [[nodiscard]] std::size_t pivots() const { return lp_.pivots(); }
  [[nodiscard]] std::size_t rounds() const { return rounds_; }

  /// The best prices found, by edge.
  [[nodiscard]] std::vector<double> const& best_prices() const { return best_; }
  [[nodiscard]] std::vector<double> prices() const {
    std::vector<double> result;
    for (std::size_t e = 0; e < edges_; ++e) result.push_back(lp_.value(price_of(e)));
    return result;
  }

  using choice_type = decltype(std::declval<Commodities&>().cheapest(0));

  /// The choices that became rows, by number.
  [[nodiscard]] std::size_t choice_count() const { return choices_.size() - 1; }
  [[nodiscard]] std::size_t commodity_of(std::size_t number) const {
    return choices_[number + 1].commodity;
  }
  [[nodiscard]] choice_type const& choice(std::size_t number) const {
    return choices_[number + 1].choice;
  }

  /// The choices in use, rounded to `steps` for each commodity.
  [[nodiscard]] whole_choices rounded(std::int64_t steps) const {
    whole_choices result{steps, {}};
    std::vector<std::vector<std::pair<double, std::size_t>>> used(sources_);
    for (std::size_t t = 0; t < choice_count(); ++t) {
      double const weight = lp_.price(static_cast<int>(t) + 2);
      if (weight > 1e-12) used[commodity_of(t)].emplace_back(weight, t);
    }
    for (auto const& of_one : used) {
      double sum = 0, passed = 0;
      for (auto const& [weight, t] : of_one) sum += weight;
      std::int64_t given = 0;
      for (auto const& [weight, t] : of_one) {
        passed += weight;  // the sums are rounded, so that the last sum stays an integer
        auto const until = std::llround(passed / sum * static_cast<double>(steps));
        if (until > given) result.uses.emplace_back(t, until - given);
        given = until;
      }
    }
    return result;
  }

  /// Steps for each commodity that make the weights of all choices integers. Returns nothing if
  /// that takes more than `most`.
  [[nodiscard]] std::optional<std::int64_t> guessed_steps(std::int64_t most) const {
    std::vector<double> sums(sources_, 0), weights;
    for (std::size_t t = 0; t < choice_count(); ++t) {
      sums[commodity_of(t)] += std::max(lp_.price(static_cast<int>(t) + 2), 0.0);
    }
    for (std::size_t t = 0; t < choice_count(); ++t) {
      double const weight = lp_.price(static_cast<int>(t) + 2) / sums[commodity_of(t)];
      if (weight > 1e-9) weights.push_back(weight);
    }
    return common_denominator(weights, 1, most);
  }

  /// The prices of the last basis without rounding, by edge. Returns nothing if they exceed 61
  /// bits, are not optimal, or need more than `most` equations.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> exact_prices(std::size_t most) const {
    auto const basis = equations(most);
    if (!basis) return std::nullopt;
    std::vector<std::int64_t> right;
    for (int const row : basis->rows) right.push_back(row == 1 ? 1 : 0);
    auto const found = exact_solve(basis->matrix, right);
    if (!found) return std::nullopt;
    std::vector<std::int64_t> result(edges_, 0);
    for (std::size_t j = 0; j < right.size(); ++j) {
      auto const v = static_cast<std::size_t>(basis->variables[j]);
      if (found->numerators[j] < 0) return std::nullopt;
      if (v >= sources_) result[v - sources_] = found->numerators[j];
    }
    std::int64_t common = 0;
    for (auto const p : result) common = std::gcd(common, p);
    if (common == 0) return std::nullopt;
    for (auto& p : result) p /= common;
    return result;
  }

  /// The choices of the last basis without rounding. Returns nothing under the same conditions, or
  /// if the steps times `largest` exceed 61 bits.
  [[nodiscard]] std::optional<whole_choices> exact(std::size_t most, std::int64_t largest) const {
    auto const basis = equations(most);
    if (!basis) return std::nullopt;
    std::vector<std::int64_t> right;
    for (int const v : basis->variables) right.push_back(index_of(v) < sources_ ? 1 : 0);
    auto const found = exact_solve(basis->matrix.transposed(), right);
    constexpr wide_integer limit = wide_integer{1} << 61;
    if (!found || wide_integer{found->denominator} * largest >= limit) return std::nullopt;
    whole_choices result{found->denominator, {}};
    std::vector<std::int64_t> sums(sources_, 0);
    for (std::size_t i = 0; i < right.size(); ++i) {
      if (found->numerators[i] < 0) return std::nullopt;
      if (basis->rows[i] == 1) continue;
      auto const number = index_of(basis->rows[i]) - 2;
      auto& sum = sums[commodity_of(number)];
      // A commodity that costs nothing may fill an edge with more of its choices than it needs.
      auto const times = std::min(found->numerators[i], found->denominator - sum);
      sum += times;
      if (times > 0) result.uses.emplace_back(number, times);
    }
    for (auto const sum : sums) {
      if (sum != found->denominator) return std::nullopt;
    }
    return result;
  }

 private:
  struct priced_choice {
    std::size_t commodity = 0;
    choice_type choice{};
  };

  static std::size_t index_of(int i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] int price_of(std::size_t edge) const { return static_cast<int>(sources_ + edge); }

  [[nodiscard]] double cost_of_program() const {
    double sum = 0;
    for (std::size_t s = 0; s < sources_; ++s) sum += lp_.value(static_cast<int>(s));
    return sum;
  }

  // most: an upper bound of the cost of all pairs by any prices
  dual_simplex make_program(double most, double perturbation, std::uint64_t seed) const {
    std::mt19937_64 random(seed);
    std::vector<double> value(sources_ + edges_, 0.0);
    std::fill_n(value.begin(), sources_, 1.0);
    auto perturbed = value;
    for (std::size_t e = 0; e < edges_; ++e) {
      auto const share = static_cast<double>(random() >> 11) * 0x1p-53;
      perturbed[sources_ + e] = -perturbation * (1 + share);
    }
    return {value, perturbed, 0, 2 * std::max(most, 1.0)};
  }

  /// The equations of the last basis with the true capacities.
  struct basis_equations {
    std::vector<int> variables;  // columns
    std::vector<int> rows;
    integer_matrix matrix;
  };

  /// Returns nothing if there are more than `most` equations.
  [[nodiscard]] std::optional<basis_equations> equations(std::size_t most) const {
    basis_equations result;
    std::vector<int> column(sources_ + edges_, -1);
    for (std::size_t v = 0; v < column.size(); ++v) {
      if (!lp_.is_basic(static_cast<int>(v))) continue;
      column[v] = static_cast<int>(result.variables.size());
      result.variables.push_back(static_cast<int>(v));
    }
    for (int row = 1; row <= static_cast<int>(choices_.size()); ++row) {
      if (lp_.is_full(row)) result.rows.push_back(row);
    }
    auto const n = result.rows.size();
    if (n != result.variables.size() || n > most) return std::nullopt;
    result.matrix = {n, std::vector<std::int64_t>(n * n, 0)};
    for (std::size_t i = 0; i < n; ++i) {
      auto const put = [&](std::size_t variable, std::int64_t factor) {
        if (int const j = column[variable]; j >= 0) {
          result.matrix.entries[i * n + static_cast<std::size_t>(j)] = factor;
        }
      };
      if (result.rows[i] == 1) {
        for (std::size_t e = 0; e < edges_; ++e) put(sources_ + e, capacity_[e]);
        continue;
      }
      auto const& [commodity, choice] = choices_[static_cast<std::size_t>(result.rows[i]) - 1];
      put(commodity, 1);
      for (auto const& [e, load] : choice.loads) put(sources_ + e, -load);
    }
    return result;
  }

  /// Adds a row for each commodity whose cheapest choice by `asked_` costs less than the program
  /// assumes. Returns the cost of all cheapest choices.
  double add_rows() {
    double sum = 0;
    commodities_.set_prices(asked_);
    for (std::size_t s = 0; s < sources_; ++s) {
      auto choice = commodities_.cheapest(s);
      double asked = 0, believed = 0;
      for (auto const& [e, load] : choice.loads) {
        asked += asked_[e] * static_cast<double>(load);
        believed += lp_.value(price_of(e)) * static_cast<double>(load);
      }
      sum += asked;
      double const claimed = lp_.value(static_cast<int>(s));
      if (choices_.size() > sources_ && claimed <= believed + 1e-9 * std::max(1.0, claimed)) {
        continue;
      }
      std::vector<row_entry> row{{static_cast<int>(s), 1}};
      for (auto const& [e, load] : choice.loads) {
        row.push_back({price_of(e), -static_cast<double>(load)});
      }
      lp_.add_row(row, 0);
      choices_.push_back({s, std::move(choice)});
    }
    return sum;
  }

  Commodities& commodities_;
  std::vector<std::int64_t> const& capacity_;
  std::size_t edges_, sources_;
  std::vector<double> best_, asked_;
  double best_cost_ = 0;
  dual_simplex lp_;
  // row t + 1 of the program is choices_[t]; choices_[0] is a placeholder for the first row
  std::vector<priced_choice> choices_;
  std::size_t rounds_ = 0;
};

}}}  // namespace blink::BLINK_ABI::detail
