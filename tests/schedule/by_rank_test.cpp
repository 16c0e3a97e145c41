// SPDX-License-Identifier: Apache-2.0
// Values by rank read as a vector of all of them does, in whichever order they are set.

#include <blink/schedule/by_rank.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <vector>

// A folder may be compiled as one source.
namespace by_rank_test { namespace {

template <class T>
void expect_equal(blink::by_rank<T> const& values, std::vector<T> const& all) {
  ASSERT_EQ(values.size(), all.size());
  EXPECT_EQ(values.empty(), all.empty());
  EXPECT_EQ(values.values(), all);
  EXPECT_EQ(values, blink::by_rank<T>(all));
  std::size_t rank = 0, present = 0;
  for (auto const& value : values) {
    EXPECT_EQ(value, all[rank]);
    EXPECT_EQ(values[rank], all[rank]);
    if (all[rank++] != values.absent()) ++present;
  }
  EXPECT_EQ(rank, all.size());
  ASSERT_EQ(values.entries().size(), present);
  for (std::size_t k = 1; k < present; ++k) {
    EXPECT_LT(values.entries()[k - 1].rank, values.entries()[k].rank);
  }
}

TEST(by_rank, reads_like_a_vector) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::size_t const ranks = 1 + random() % 40;
    auto const of_ten = 1 + random() % 10;  // are present
    std::vector<int> all(ranks, -1);
    std::vector<std::vector<int>> lists(ranks);
    blink::by_rank<int> values(all);
    blink::by_rank<std::vector<int>> routes(lists);
    for (std::size_t step = 0; step < 2 * ranks; ++step) {
      std::size_t const rank = random() % ranks;
      all[rank] = random() % 10 < of_ten ? static_cast<int>(random() % 100) : -1;
      lists[rank].assign(random() % 10 < of_ten ? 1 + random() % 3 : 0, static_cast<int>(step));
      values.set(rank, all[rank]);
      routes.set(rank, lists[rank]);
    }
    expect_equal(values, all);
    expect_equal(routes, lists);
  }
}

TEST(by_rank, holds_one_value_or_none) {
  expect_equal(blink::by_rank<int>(4, {2, 7}), {-1, -1, 7, -1});
  expect_equal(blink::by_rank<int>(4, {2, -1}), {-1, -1, -1, -1});
  expect_equal(blink::by_rank<int>{}, {});
  blink::by_rank<int> values{0, -1, 0};
  expect_equal(values, {0, -1, 0});
  values.assign(2, 5);
  expect_equal(values, {5, 5});
  values.clear();
  expect_equal(values, {});
  values.set(2, 4);
  expect_equal(values, {-1, -1, 4});
  values.set(4, -1);
  expect_equal(values, {-1, -1, 4, -1, -1});
}

}}  // namespace by_rank_test
