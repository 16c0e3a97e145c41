// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/work_budget.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A variable of a row of a linear program, with its factor there.
struct row_entry {
  int variable = 0;
  double factor = 0;
};

/// Maximizes a linear function of nonnegative variables under rows "sum of factor * variable <=
/// limit". Rows can be added one by one. The method is the dual simplex method on a dense tableau,
/// in floating point.
///
/// Small random perturbations lower the objective and select one optimum. `is_optimal` is true if
/// that optimum is also one without perturbations. `price` is the value of one more unit of a row's
/// limit, without perturbations.
///
/// Source: C. Lemke, "The dual method of solving the linear programming problem", Naval Research
///         Logistics Quarterly 1, 1954; J. Forrest, D. Goldfarb, "Steepest-edge simplex
///         algorithms", Math. Programming 57, 1992 (choice of the row to repair).
/// Time:   O(rows * variables) a pivot.  Space: O(rows * variables).
class dual_simplex {
 public:
  /// value:     by variable: the value of a unit, without perturbations
  /// perturbed: the same with perturbations
  /// first:     a variable with the largest perturbed value; all variables with a positive value
  ///            have the same
  /// limit:     on the sum of the variables with a positive value, far above the optimum
  dual_simplex(std::vector<double> const& value, std::vector<double> const& perturbed, int first,
               double limit)
      : width_(value.size()), reduced_(perturbed), unperturbed_(value) {
    for (std::size_t j = 0; j < width_; ++j) {
      column_.push_back(static_cast<int>(j));
      place_.push_back(~static_cast<int>(j));
    }
    std::vector<row_entry> sum;
    for (std::size_t j = 0; j < width_; ++j) {
      if (value[j] > 0) sum.push_back({static_cast<int>(j), 1.0});
    }
    add_row(sum, limit);
    pivot(0, static_cast<std::size_t>(first));
  }

  /// Adds a row and returns its number: 1, 2, … in the order of the calls. Number 0 is the limit of
  /// the sum.
  int add_row(std::vector<row_entry> const& entries, double limit) {
    auto const at = basic_.size();
    table_.resize((at + 1) * width_, 0.0);
    double* const row = &table_[at * width_];
    double rest = limit;
    for (auto const& [variable, factor] : entries) {
      int const place = place_[index(variable)];
      if (place < 0) {
        row[index(~place)] += factor;
        continue;
      }
      double const* const other = &table_[index(place) * width_];
      rest -= factor * value_[index(place)];
      for (std::size_t j = 0; j < width_; ++j) row[j] -= factor * other[j];
    }
    place_.push_back(static_cast<int>(at));
    basic_.push_back(static_cast<int>(place_.size()) - 1);
    value_.push_back(rest);
    norm_.push_back(norm_of(row));
    return static_cast<int>(place_.size() - width_) - 1;
  }

  /// Removes the rows numbered `first` and above whose slack is at least `slack`. The other rows
  /// keep their numbers.
  void drop_loose_rows(int first, double slack) {
    for (std::size_t i = basic_.size(); i-- > 0;) {
      int const row = basic_[i] - static_cast<int>(width_);
      if (row < first || value_[i] < slack) continue;
      place_[index(basic_[i])] = dropped;
      auto const last = basic_.size() - 1;
      if (i != last) {
        std::copy_n(&table_[last * width_], width_, &table_[i * width_]);
        basic_[i] = basic_[last];
        value_[i] = value_[last];
        norm_[i] = norm_[last];
        place_[index(basic_[i])] = static_cast<int>(i);
      }
      basic_.pop_back();
      value_.pop_back();
      norm_.pop_back();
      table_.resize(last * width_);
    }
  }

  /// Repairs all rows. Returns false if that takes more pivots or work than allowed, or if rounding
  /// leaves no pivot. Without rounding there is always one, because all variables at 0 are
  /// feasible.
  bool solve(std::size_t most_pivots, double most_work = std::numeric_limits<double>::infinity()) {
    constexpr double feasible = 1e-9;
    for (;;) {
      std::size_t worst = basic_.size();
      double most = 0;
      for (std::size_t i = 0; i < basic_.size(); ++i) {
        if (value_[i] >= -feasible) continue;
        double const short_by = value_[i] * value_[i] / norm_[i];
        if (short_by > most) {
          most = short_by;
          worst = i;
        }
      }
      if (worst == basic_.size()) return true;
      double const* const row = &table_[worst * width_];
      std::size_t entering = width_;
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t j = 0; j < width_; ++j) {
        if (row[j] >= -smallest_pivot) continue;
        double const ratio = std::min(reduced_[j], 0.0) / row[j];
        if (ratio < least - 1e-13 || (ratio < least + 1e-13 && row[j] < row[entering])) {
          least = std::min(least, ratio);
          entering = j;
        }
      }
      if (entering == width_ || pivots_ >= most_pivots || work_ >= most_work) return false;
      pivot(worst, entering);
    }
  }

  [[nodiscard]] double value(int variable) const {
    int const place = place_[index(variable)];
    return place < 0 ? 0 : value_[index(place)];
  }
  /// The dual value of a row; 0 for a row that is not full.
  [[nodiscard]] double price(int row) const {
    return is_full(row) ? -unperturbed_[index(~place_[width_ + index(row)])] : 0;
  }
  /// True if the row's limit holds with equality because its slack is not basic.
  [[nodiscard]] bool is_full(int row) const {
    int const place = place_[width_ + index(row)];
    return place < 0 && place != dropped;
  }
  [[nodiscard]] bool is_dropped(int row) const { return place_[width_ + index(row)] == dropped; }
  [[nodiscard]] bool is_basic(int variable) const { return place_[index(variable)] >= 0; }
  [[nodiscard]] bool is_optimal() const {
    constexpr double tolerance = 1e-9;
    return std::ranges::all_of(unperturbed_, [](double d) { return d <= tolerance; });
  }
  [[nodiscard]] std::size_t pivots() const { return pivots_; }
  /// The number of tableau entries that all pivots touched.
  [[nodiscard]] double work() const { return work_; }

 private:
  static constexpr double smallest_pivot = 1e-9;
  static constexpr int dropped = std::numeric_limits<int>::min();
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  double norm_of(double const* row) const {
    double sum = 1;
    for (std::size_t j = 0; j < width_; ++j) sum += row[j] * row[j];
    return sum;
  }

  /// Exchanges the basic variable of a row with the variable of a column.
  void pivot(std::size_t leaving, std::size_t entering) {
    constexpr double tiny = 1e-13;
    budget_scope::poll();
    ++pivots_;
    work_ += static_cast<double>(basic_.size()) * static_cast<double>(width_);
    double* const row = &table_[leaving * width_];
    double const scale = 1 / row[entering];
    row[entering] = 1;  // factor of the leaving variable
    used_.clear();
    for (std::size_t j = 0; j < width_; ++j) {
      if (std::abs(row[j]) < tiny) {
        row[j] = 0;
        continue;
      }
      row[j] *= scale;
      used_.push_back(j);
    }
    value_[leaving] *= scale;
    norm_[leaving] = norm_of(row);
    for (std::size_t i = 0; i < basic_.size(); ++i) {
      double* const other = &table_[i * width_];
      double const factor = other[entering];
      if (i == leaving || factor == 0) continue;
      other[entering] = 0;
      value_[i] -= factor * value_[leaving];
      subtract(other, row, factor);
      norm_[i] = norm_of(other);
    }
    for (auto* objective : {&reduced_, &unperturbed_}) {
      double const factor = (*objective)[entering];
      if (factor == 0) continue;
      (*objective)[entering] = 0;
      subtract(objective->data(), row, factor);
    }
    std::swap(basic_[leaving], column_[entering]);
    place_[index(basic_[leaving])] = static_cast<int>(leaving);
    place_[index(column_[entering])] = ~static_cast<int>(entering);
  }

  void subtract(double* target, double const* row, double factor) const {
    if (2 * used_.size() < width_) {
      for (auto const j : used_) target[j] -= factor * row[j];
    } else {
      for (std::size_t j = 0; j < width_; ++j) target[j] -= factor * row[j];
    }
  }

  // number of columns; their variables are 0. There are as many as variables
  std::size_t width_;
  // basic variable of row i = value_[i] - sum of table * column variable
  std::vector<double> table_;
  std::vector<double> value_;    // by row
  std::vector<double> norm_;     // by row: 1 + sum of squares
  std::vector<double> reduced_;  // by column: gain of a unit
  std::vector<double> unperturbed_;
  std::vector<int> basic_;   // by row: its variable
  std::vector<int> column_;  // by column: its variable
  std::vector<int> place_;   // by variable, slacks included: its row, or ~column
  std::vector<std::size_t> used_;
  std::size_t pivots_ = 0;
  double work_ = 0;
};

}}}  // namespace blink::BLINK_ABI::detail
