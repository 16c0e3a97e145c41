// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A symmetric positive matrix, factored in place as L * transposed(L).
class cholesky_factor {
 public:
  cholesky_factor() = default;
  /// matrix: row by row; only entries at and below the diagonal are read
  ///
  /// A row that rounding leaves no pivot counts as 0 in solutions.
  ///
  /// Source: A.-L. Cholesky, 1910; S. Wright, "Modified Cholesky factorizations in interior-point
  ///         algorithms for linear programming", SIAM J. Optimization 9, 1999 (rows left out).
  /// Time:   O(size^3 / 6)
  cholesky_factor(std::size_t size, std::vector<double> matrix) : n_(size), at_(std::move(matrix)) {
    constexpr std::size_t block = 32;  // columns; two blocks of rows stay in the first cache
    std::vector<double> diagonal(n_);
    for (std::size_t i = 0; i < n_; ++i) diagonal[i] = at_[i * n_ + i];
    for (std::size_t first = 0; first < n_; first += block) {
      std::size_t const end = std::min(n_, first + block);
      for (std::size_t i = first; i < n_; ++i) {
        double* const row = &at_[i * n_];
        for (std::size_t j = first; j < std::min(end, i + 1); ++j) {
          double const* const other = &at_[j * n_];
          double const rest = row[j] - dot(row + first, other + first, j - first);
          if (j < i) {
            row[j] = rest / other[j];
          } else {
            row[i] = rest > 1e-14 * diagonal[i] ? std::sqrt(rest) : left_out;
          }
        }
      }
      for (std::size_t i = end; i < n_; ++i) {
        double* const row = &at_[i * n_];
        for (std::size_t j = end; j <= i; ++j) {
          row[j] -= dot(row + first, &at_[j * n_ + first], end - first);
        }
      }
    }
  }

  void solve(std::span<double> right) const {
    for (std::size_t i = 0; i < n_; ++i) {
      right[i] = (right[i] - dot(&at_[i * n_], right.data(), i)) / at_[i * n_ + i];
    }
    for (std::size_t i = n_; i-- > 0;) {
      double const x = right[i] /= at_[i * n_ + i];
      double const* const row = &at_[i * n_];
      for (std::size_t j = 0; j < i; ++j) right[j] -= row[j] * x;
    }
  }

  /// The inverse of the matrix, row by row.
  [[nodiscard]] std::vector<double> inverse() const {
    // columns[j] is column j of the inverse of L, from its diagonal on
    std::vector<double> columns(n_ * n_, 0.0), result(n_ * n_);
    for (std::size_t j = 0; j < n_; ++j) {
      double* const column = &columns[j * n_];
      column[j] = 1 / at_[j * n_ + j];
      for (std::size_t i = j + 1; i < n_; ++i) {
        column[i] = -dot(&at_[i * n_ + j], column + j, i - j) / at_[i * n_ + i];
      }
    }
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        double const sum = dot(&columns[i * n_ + i], &columns[j * n_ + i], n_ - i);
        result[i * n_ + j] = result[j * n_ + i] = sum;
      }
    }
    return result;
  }

 private:
  static constexpr double left_out = 1e100;

  /// Four sums, so that the processor need not wait for one addition after the other.
  static double dot(double const* a, double const* b, std::size_t count) {
    double sums[4] = {0, 0, 0, 0};
    std::size_t i = 0;
    for (; i + 4 <= count; i += 4) {
      for (std::size_t k = 0; k < 4; ++k) sums[k] += a[i + k] * b[i + k];
    }
    for (; i < count; ++i) sums[0] += a[i] * b[i];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }

  std::size_t n_ = 0;
  std::vector<double> at_;
};

}}}  // namespace blink::BLINK_ABI::detail
