// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/work_budget.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The basis of a packing program in floating point. It has one column, or the slack of a row, for
/// each row, and the inverse of their matrix.
class simplex_basis {
 public:
  /// A basic variable: a column, given by its rows, or the slack of a row. A row is repeated as
  /// often as the column uses it.
  struct member {
    int slack = -1;  ///< a row, or -1 for a column
    std::vector<int> rows;
    double value = 0;  ///< contribution of a unit of the column to the objective; 0 for a slack
  };

  explicit simplex_basis(std::vector<double> right) : right_(std::move(right)) {
    auto const m = right_.size();
    for (std::size_t i = 0; i < m; ++i) members_.push_back({static_cast<int>(i), {}, 0});
    inverse_.assign(m * m, 0.0);
    for (std::size_t i = 0; i < m; ++i) inverse_[i * m + i] = 1;
    value_ = right_;
    prices_.assign(m, 0.0);
    direction_.resize(m);
  }

  [[nodiscard]] std::vector<member> const& members() const { return members_; }
  [[nodiscard]] std::span<double const> prices() const { return prices_; }
  [[nodiscard]] double cost(std::vector<int> const& rows) const {
    double sum = 0;
    for (int const row : rows) sum += prices_[at(row)];
    return sum;
  }

  /// The weight of each member for other capacities.
  [[nodiscard]] std::vector<double> weights(std::span<double const> capacity) const {
    auto const m = right_.size();
    std::vector<double> result(m, 0.0);
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 0; j < m; ++j) result[i] += inverse_[i * m + j] * capacity[j];
    }
    return result;
  }

  /// Lets a column enter. Returns false if the ratio test finds no leaving row. Only rounding can
  /// cause that, because a packing program is bounded.
  bool enter(std::vector<int> const& rows, double value) {
    std::ranges::fill(direction_, 0.0);
    auto const m = right_.size();
    for (std::size_t i = 0; i < m; ++i) {
      for (int const row : rows) direction_[i] += inverse_[i * m + at(row)];
    }
    return pivot({-1, rows, value}, value - cost(rows));
  }
  /// Lets the slack of a row enter. Returns false as `enter` does.
  bool enter_slack(int row) {
    auto const m = right_.size();
    for (std::size_t i = 0; i < m; ++i) direction_[i] = inverse_[i * m + at(row)];
    return pivot({row, {}, 0}, -prices_[at(row)]);
  }

  /// Recomputes inverse, values and prices from the members. Returns false if they are singular.
  bool refactor() {
    auto const m = right_.size();
    auto const width = 2 * m;
    std::vector<double> work(m * width, 0.0);
    for (std::size_t j = 0; j < m; ++j) {
      if (members_[j].slack >= 0) {
        work[at(members_[j].slack) * width + j] = 1;
      } else {
        for (int const row : members_[j].rows) work[at(row) * width + j] += 1;
      }
      work[j * width + m + j] = 1;
    }
    for (std::size_t k = 0; k < m; ++k) {
      std::size_t pivot_row = k;
      for (std::size_t i = k + 1; i < m; ++i) {
        if (std::abs(work[i * width + k]) > std::abs(work[pivot_row * width + k])) pivot_row = i;
      }
      if (std::abs(work[pivot_row * width + k]) < smallest_pivot) return false;
      for (std::size_t j = 0; pivot_row != k && j < width; ++j) {
        std::swap(work[pivot_row * width + j], work[k * width + j]);
      }
      double const scale = 1 / work[k * width + k];
      for (std::size_t j = k; j < width; ++j) work[k * width + j] *= scale;
      for (std::size_t i = 0; i < m; ++i) {
        double const factor = work[i * width + k];
        if (i == k || factor == 0) continue;
        for (std::size_t j = k; j < width; ++j) work[i * width + j] -= factor * work[k * width + j];
      }
    }
    std::ranges::fill(prices_, 0.0);
    for (std::size_t i = 0; i < m; ++i) {
      value_[i] = 0;
      for (std::size_t j = 0; j < m; ++j) {
        inverse_[i * m + j] = work[i * width + m + j];
        value_[i] += inverse_[i * m + j] * right_[j];
        prices_[j] += members_[i].value * inverse_[i * m + j];
      }
    }
    return true;
  }

 private:
  static constexpr double smallest_pivot = 1e-9;
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  /// Removes the member that reaches zero first. Among nearly equal ones, it removes the one with
  /// the largest pivot.
  bool pivot(member entering, double gain) {
    budget_scope::poll();
    auto const m = right_.size();
    constexpr double tie = 1e-12;
    std::size_t leaving = m;
    double least = 0;
    for (std::size_t i = 0; i < m; ++i) {
      if (direction_[i] <= smallest_pivot) continue;
      double const ratio = std::max(value_[i], 0.0) / direction_[i];
      if (leaving == m || ratio < least - tie ||
          (ratio < least + tie && direction_[i] > direction_[leaving])) {
        leaving = i;
        least = ratio;
      }
    }
    if (leaving == m) return false;
    double const scale = 1 / direction_[leaving];
    double* const pivot_row = &inverse_[leaving * m];
    for (std::size_t j = 0; j < m; ++j) pivot_row[j] *= scale;
    for (std::size_t i = 0; i < m; ++i) {
      double const factor = direction_[i];
      if (i == leaving || factor == 0) continue;
      double* const row = &inverse_[i * m];
      for (std::size_t j = 0; j < m; ++j) row[j] -= factor * pivot_row[j];
      value_[i] -= factor * least;
    }
    value_[leaving] = least;
    for (std::size_t j = 0; j < m; ++j) prices_[j] += gain * pivot_row[j];
    members_[leaving] = std::move(entering);
    return true;
  }

  std::vector<double> right_;
  std::vector<member> members_;
  std::vector<double> inverse_;  // rows: members; columns: rows of the program
  std::vector<double> value_;    // by member
  std::vector<double> prices_;   // by row
  std::vector<double> direction_;
};

}}}  // namespace blink::BLINK_ABI::detail
