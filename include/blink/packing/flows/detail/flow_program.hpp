// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/detail/route_search.hpp>
#include <blink/packing/flows/detail/flow_problem.hpp>
#include <blink/packing/lp/detail/dual_simplex.hpp>
#include <blink/packing/lp/detail/exact_solve.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The optimum of a concurrent flow, as a linear program over prices.
///
/// The program considers prices of the edges by which the capacities cost 1 together. Among these
/// it finds those by which the cheapest routes of all pairs cost most. That maximum is 1 / the
/// optimal rate. Each tree of routes from a source costs at least the cost assumed for the source;
/// this is a row. Searches for cheapest routes find the rows that the prices violate. At the end,
/// the dual value of a row is the share of the source's flow over its tree. Pivots run in floating
/// point. The last basis can be solved in integers.
///
/// Source: G. Dantzig and P. Wolfe, "Decomposition principle for linear programs", Operations
///         Research 8, 1960 (trees by price), in its dual form; W. Ben-Ameur and J. Neto,
///         "Acceleration of cutting-plane and column generation algorithms", Networks 49, 2007
///         (queries between the last and the best prices).
/// Time:   a few times (edges + sources) pivots of `dual_simplex` over as many variables; a search
///         from every source for each round of rows.
class flow_program {
 public:
  /// unit:  about the optimal rate, which the program counts as 1
  /// least: a rate that is attained
  flow_program(flow_problem const& problem, double unit, double least, double perturbation,
               std::uint64_t seed)
      : problem_(problem),
        edges_(problem.capacity.size()),
        sources_(problem.sources.size()),
        search_(problem.graph),
        best_(edges_),
        asked_(edges_),
        lp_(make_program(unit / least, perturbation, seed)) {
    std::vector<row_entry> worth;
    double sum = 0;
    for (std::size_t e = 0; e < edges_; ++e) {
      // Capacity beyond the use of all pairs has no effect, and would make the other values small.
      double const c = std::min(static_cast<double>(problem.capacity[e]) / unit,
                                2 * static_cast<double>(problem.pair_count()));
      worth.push_back({price_of(e), c});
      best_[e] = 1 / c;
      sum += c * best_[e];
    }
    for (double& p : best_) p /= sum;
    lp_.add_row(worth, 1);
    trees_.emplace_back();
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
        auto const rows = trees_.size();
        double const cost = add_rows();
        ++rounds_;
        if (cost > best_cost_) {
          best_cost_ = cost;
          best_ = asked_;
        }
        found = trees_.size() > rows;
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

  /// The flows of the trees in use, rounded to `steps` for each source.
  [[nodiscard]] whole_flows flows(std::int64_t steps) const {
    auto result = no_flows(steps);
    std::vector<std::vector<std::pair<double, std::size_t>>> used(sources_);
    for (std::size_t t = 1; t < trees_.size(); ++t) {
      double const weight = lp_.price(static_cast<int>(t) + 1);
      if (weight > 1e-12) used[trees_[t].source].emplace_back(weight, t);
    }
    for (std::size_t s = 0; s < sources_; ++s) {
      double sum = 0, passed = 0;
      for (auto const& [weight, t] : used[s]) sum += weight;
      std::int64_t given = 0;
      for (auto const& [weight, t] : used[s]) {
        passed += weight;  // the sums are rounded, so that the last sum stays an integer
        auto const until = std::llround(passed / sum * static_cast<double>(steps));
        for (auto const& [edge, load] : trees_[t].loads) {
          result.flow[s][edge] += load * (until - given);
        }
        given = until;
      }
    }
    return result;
  }

  /// Steps for each source that make the weights of all trees integers. Returns nothing if that
  /// takes more than `most`.
  [[nodiscard]] std::optional<std::int64_t> guessed_steps(std::int64_t most) const {
    std::vector<double> sums(sources_, 0), weights;
    for (std::size_t t = 1; t < trees_.size(); ++t) {
      sums[trees_[t].source] += std::max(lp_.price(static_cast<int>(t) + 1), 0.0);
    }
    for (std::size_t t = 1; t < trees_.size(); ++t) {
      double const weight = lp_.price(static_cast<int>(t) + 1) / sums[trees_[t].source];
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

  /// The flows of the last basis without rounding. Returns nothing under the same conditions.
  [[nodiscard]] std::optional<whole_flows> exact_flows(std::size_t most) const {
    auto const basis = equations(most);
    if (!basis) return std::nullopt;
    std::vector<std::int64_t> right;
    for (int const v : basis->variables) right.push_back(index_of(v) < sources_ ? 1 : 0);
    auto const found = exact_solve(basis->matrix.transposed(), right);
    constexpr wide_integer largest = wide_integer{1} << 61;
    if (!found || wide_integer{found->denominator} * problem_.pair_count() >= largest) {
      return std::nullopt;
    }
    auto result = no_flows(found->denominator);
    std::vector<std::int64_t> sums(sources_, 0);
    for (std::size_t i = 0; i < right.size(); ++i) {
      if (found->numerators[i] < 0) return std::nullopt;
      if (basis->rows[i] == 1) continue;
      auto const& tree = trees_[index_of(basis->rows[i]) - 1];
      sums[tree.source] += found->numerators[i];
      if (sums[tree.source] > found->denominator) return std::nullopt;
      for (auto const& [edge, load] : tree.loads) {
        result.flow[tree.source][edge] += load * found->numerators[i];
      }
    }
    for (auto const sum : sums) {
      if (sum != found->denominator) return std::nullopt;
    }
    return result;
  }

 private:
  struct source_tree {
    std::size_t source = 0;
    std::vector<std::pair<std::size_t, std::int64_t>> loads;  // (edge, sinks behind it)
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

  whole_flows no_flows(std::int64_t steps) const {
    return {steps, {sources_, std::vector<std::int64_t>(edges_, 0)}};
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
    for (int row = 1; row <= static_cast<int>(trees_.size()); ++row) {
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
        for (std::size_t e = 0; e < edges_; ++e) put(sources_ + e, problem_.capacity[e]);
        continue;
      }
      auto const& tree = trees_[static_cast<std::size_t>(result.rows[i]) - 1];
      put(tree.source, 1);
      for (auto const& [e, load] : tree.loads) put(sources_ + e, -load);
    }
    return result;
  }

  /// Adds a row for each source whose cheapest tree by `asked_` costs less than the program
  /// assumes. Returns the cost of all cheapest routes.
  double add_rows() {
    double sum = 0;
    for (std::size_t s = 0; s < sources_; ++s) {
      auto const& from = problem_.sources[s];
      search_.run(from.vertex, asked_);
      source_tree tree{s, {}};
      for_each_load(problem_, from, search_, behind_,
                    [&](std::size_t e, std::int64_t load) { tree.loads.emplace_back(e, load); });
      double asked = 0, believed = 0;
      for (auto const& [e, load] : tree.loads) {
        asked += asked_[e] * static_cast<double>(load);
        believed += lp_.value(price_of(e)) * static_cast<double>(load);
      }
      sum += asked;
      double const claimed = lp_.value(static_cast<int>(s));
      if (trees_.size() > sources_ && claimed <= believed + 1e-9 * std::max(1.0, claimed)) continue;
      std::vector<row_entry> row{{static_cast<int>(s), 1}};
      for (auto const& [e, load] : tree.loads) {
        row.push_back({price_of(e), -static_cast<double>(load)});
      }
      lp_.add_row(row, 0);
      trees_.push_back(std::move(tree));
    }
    return sum;
  }

  flow_problem const& problem_;
  std::size_t edges_, sources_;
  route_search<double> search_;
  std::vector<double> best_, asked_;
  double best_cost_ = 0;
  std::vector<std::int64_t> behind_;
  dual_simplex lp_;
  // row t + 1 of the program is trees_[t]; trees_[0] is a placeholder for the first row
  std::vector<source_tree> trees_;
  std::size_t rounds_ = 0;
};

}}}  // namespace blink::BLINK_ABI::detail
