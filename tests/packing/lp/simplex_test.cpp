// SPDX-License-Identifier: Apache-2.0
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/packing/lp/detail/exact_solve.hpp>
#include <blink/packing/lp/simplex.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

// Test folders may be compiled as one source.
namespace simplex_test { namespace {

using blink::packing_column;
using blink::rational;
using blink::simplex;

/// An oracle over a list of all columns. It finds the cheapest one by enumeration.
struct listed_columns {
  std::vector<packing_column> all;

  template <class Cost>
  void operator()(std::span<Cost const> prices, std::vector<packing_column>& columns) const {
    std::size_t best = 0;
    Cost least{};
    for (std::size_t j = 0; j < all.size(); ++j) {
      Cost cost{};
      for (int const row : all[j]) cost += prices[static_cast<std::size_t>(row)];
      if (j == 0 || cost < least) {
        least = cost;
        best = j;
      }
    }
    columns.push_back(all[best]);
  }
};
static_assert(blink::pricing_oracle<listed_columns>);
static_assert(!blink::has_perturbations<listed_columns>);

struct program {
  std::vector<std::int64_t> capacity;
  listed_columns columns;
};

program random_program(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  auto const below = [&](std::uint64_t n) { return static_cast<int>(random() % n); };
  program result;
  auto const rows = 1 + below(12);
  auto const most = seed % 2 == 0 ? 3U : 1000U;
  for (int i = 0; i < rows; ++i) result.capacity.push_back(1 + below(most));
  auto const count = 1 + below(40);
  for (int j = 0; j < count; ++j) {
    packing_column column;
    for (int k = 1 + below(6); k > 0; --k) {
      column.push_back(below(static_cast<std::uint64_t>(rows)));
    }
    result.columns.all.push_back(column);
  }
  return result;
}

/// Checks that a solution is feasible and as good as its prices. By LP duality, no solution is
/// better.
void check_optimal(program const& p, blink::simplex_solution const& s) {
  ASSERT_EQ(s.stopped_because, blink::simplex_stop::optimal);
  std::vector<rational> load(p.capacity.size());
  rational sum, value;
  for (auto const& column : s.columns) {
    EXPECT_GT(column.weight, rational(0));
    EXPECT_NEAR(column.approximate_weight, column.weight.to_double(),
                1e-6 * (1 + column.approximate_weight));
    sum += column.weight;
    for (int const row : column.rows) load[static_cast<std::size_t>(row)] += column.weight;
  }
  EXPECT_EQ(sum, s.rate);
  ASSERT_EQ(s.prices.size(), p.capacity.size());
  for (std::size_t row = 0; row < load.size(); ++row) {
    EXPECT_LE(load[row], rational(p.capacity[row]));
    EXPECT_GE(s.prices[row], rational(0));
    value += s.prices[row] * p.capacity[row];
  }
  EXPECT_EQ(value, s.rate);
  for (auto const& column : p.columns.all) {
    rational cost;
    for (int const row : column) cost += s.prices[static_cast<std::size_t>(row)];
    EXPECT_GE(cost, rational(1));
  }
}

TEST(simplex, proves_random_programs_optimal) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    auto p = random_program(seed);
    check_optimal(p, simplex(p.capacity, p.columns));
  }
}

TEST(simplex, needs_neither_perturbation_nor_smoothing_on_small_programs) {
  blink::simplex_options plain;
  plain.perturbation = 0;
  plain.smoothing = 0;
  plain.refactor_interval = 1;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    auto p = random_program(seed);
    auto const s = simplex(p.capacity, p.columns, plain);
    check_optimal(p, s);
    EXPECT_EQ(s.rate, simplex(p.capacity, p.columns).rate);
  }
}

TEST(simplex, counts_repeated_rows) {
  program p{{3, 5}, {{{0, 0}, {0, 1}}}};
  auto const s = simplex(p.capacity, p.columns);
  check_optimal(p, s);
  EXPECT_EQ(s.rate, rational(3));
}

TEST(simplex, says_that_pivots_ran_out) {
  program p{{1, 1, 1}, {{{0, 1}, {1, 2}, {2, 0}}}};
  blink::simplex_options hasty;
  hasty.max_pivots = 1;
  auto const s = simplex(p.capacity, p.columns, hasty);
  EXPECT_EQ(s.stopped_because, blink::simplex_stop::pivot_limit);
  EXPECT_TRUE(s.columns.empty());
  auto const patient = simplex(p.capacity, p.columns);
  check_optimal(p, patient);
  EXPECT_EQ(patient.rate, rational(3, 2));
}

TEST(simplex, leaves_weights_approximate_when_asked) {
  program p{{1, 1, 1}, {{{0, 1}, {1, 2}, {2, 0}}}};
  blink::simplex_options prices_only;
  prices_only.exact_weights = false;
  auto const s = simplex(p.capacity, p.columns, prices_only);
  EXPECT_EQ(s.stopped_because, blink::simplex_stop::optimal_prices);
  EXPECT_EQ(s.rate, rational(3, 2));
  for (auto const& column : s.columns) EXPECT_NEAR(column.approximate_weight, 0.5, 1e-9);
}

TEST(simplex, refuses_rows_without_capacity_and_empty_columns) {
  program p{{1, 0}, {{{0}}}};
  EXPECT_THROW(static_cast<void>(simplex(p.capacity, p.columns)), blink::precondition_error);
  program q{{1}, {{{}}}};
  EXPECT_THROW(static_cast<void>(simplex(q.capacity, q.columns)), blink::precondition_error);
}

TEST(exact_solve, solves_random_systems_and_knows_singular_ones) {
  int solved = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    blink::detail::integer_matrix matrix{1 + seed % 12, {}};
    for (std::size_t i = 0; i < matrix.size * matrix.size; ++i) {
      matrix.entries.push_back(static_cast<std::int64_t>(random() % 3) -
                               (random() % 9 == 0 ? 1 : 0));
    }
    std::vector<std::int64_t> right;
    for (std::size_t i = 0; i < matrix.size; ++i) {
      right.push_back(static_cast<std::int64_t>(random() % 2001) - 1000);
    }
    auto const solution = blink::detail::exact_solve(matrix, right);
    if (!solution) continue;
    ++solved;
    for (std::size_t i = 0; i < matrix.size; ++i) {
      rational sum;
      for (std::size_t j = 0; j < matrix.size; ++j) {
        sum += rational(solution->numerators[j], solution->denominator) * matrix(i, j);
      }
      EXPECT_EQ(sum, rational(right[i]));
    }
  }
  EXPECT_GT(solved, 150);
  EXPECT_FALSE(blink::detail::exact_solve({2, {1, 2, 2, 4}}, {1, 1}));
}

}}  // namespace simplex_test
