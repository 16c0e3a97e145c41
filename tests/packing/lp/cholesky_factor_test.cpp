// SPDX-License-Identifier: Apache-2.0
#include <blink/packing/lp/detail/cholesky_factor.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <vector>

// Test folders may be compiled as one source.
namespace cholesky_factor_test { namespace {

using blink::detail::cholesky_factor;

// B * transposed(B) + 1, with sizes around the blocks of the factorization.
std::vector<double> random_matrix(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> number(-1, 1);
  std::vector<double> b(n * n), result(n * n, 0.0);
  for (auto& x : b) x = number(random);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t k = 0; k < n; ++k) result[i * n + j] += b[i * n + k] * b[j * n + k];
    }
    result[i * n + i] += 1;
  }
  return result;
}

TEST(cholesky_factor, solves_and_inverts) {
  for (std::size_t const n : {1U, 2U, 31U, 32U, 33U, 70U}) {
    SCOPED_TRACE(n);
    auto const matrix = random_matrix(n, static_cast<unsigned>(n));
    cholesky_factor const factor(n, matrix);
    std::vector<double> right(n);
    for (std::size_t i = 0; i < n; ++i) right[i] = static_cast<double>(i % 7) - 3;
    auto solution = right;
    factor.solve(solution);
    auto const inverse = factor.inverse();
    for (std::size_t i = 0; i < n; ++i) {
      double product = 0;
      for (std::size_t j = 0; j < n; ++j) product += matrix[i * n + j] * solution[j];
      EXPECT_NEAR(product, right[i], 1e-9);
      for (std::size_t j = 0; j < n; ++j) {
        double entry = 0;
        for (std::size_t k = 0; k < n; ++k) entry += matrix[i * n + k] * inverse[k * n + j];
        EXPECT_NEAR(entry, i == j ? 1 : 0, 1e-9);
      }
    }
  }
}

TEST(cholesky_factor, rows_without_a_pivot_count_as_zero) {
  cholesky_factor const factor(2, {1, 1, 1, 1});
  std::vector<double> right{3, 3};
  factor.solve(right);
  EXPECT_NEAR(right[0], 3, 1e-9);
  EXPECT_NEAR(right[1], 0, 1e-9);
}

}}  // namespace cholesky_factor_test
