// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/constraints/detail/reused_trees.hpp>
#include <blink/topology/machines.hpp>

#include "support/small_machines.hpp"
#include <gtest/gtest.h>

#include <initializer_list>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace {

using namespace blink;
using detail::reused_trees;

tree tree_over(int root, std::initializer_list<std::pair<int, int>> edges) {
  tree t{root, rational(1), {}, {}};
  for (auto const& [from, to] : edges) t.broadcast.push_back({from, to, {from, to}});
  return t;
}

// Four ranks, a link of 2 for each pair and direction. Three trees at rank 0 of weight 1.
class four_ranks : public testing::Test {
 protected:
  four_ranks()
      : machine_(test::direct_machine({{0, 2, 2, 2}, {2, 0, 2, 2}, {2, 2, 0, 2}, {2, 2, 2, 0}})),
        chain_(tree_over(0, {{0, 1}, {1, 2}, {2, 3}})),   // leaves {0, 1} once
        fork_(tree_over(0, {{0, 1}, {1, 2}, {1, 3}})),    // twice
        detour_(tree_over(0, {{0, 2}, {2, 1}, {1, 3}})),  // twice
        kept_(machine_, {{0, rational(4)}}) {
    kept_.take({chain_, fork_, detour_});
  }
  topology machine_;
  tree chain_, fork_, detour_;
  reused_trees kept_;
};

TEST_F(four_ranks, takes_what_fits_and_counts_the_demand_that_is_left) {
  EXPECT_EQ(kept_.trees(), (std::vector{chain_, fork_, detour_}));
  EXPECT_EQ(kept_.demand().at(0), rational(1));
}

TEST_F(four_ranks, a_tree_that_leaves_a_set_twice_wastes_one_crossing) {
  // One of the two is enough for a demand of 1, and each of them gives 1.
  EXPECT_TRUE(kept_.relieve({0, 1}, rational(0)));
  EXPECT_EQ(kept_.trees(), (std::vector{chain_, detour_}));
  EXPECT_EQ(kept_.demand().at(0), rational(2));
}

TEST_F(four_ranks, a_tree_that_leaves_a_set_once_wastes_nothing) {
  EXPECT_TRUE(kept_.relieve({0, 1}, rational(-1)));
  EXPECT_EQ(kept_.trees(), std::vector{chain_});
  EXPECT_EQ(kept_.demand().at(0), rational(3));
}

TEST_F(four_ranks, all_that_is_wasted_may_be_too_little) {
  EXPECT_FALSE(kept_.relieve({0, 1}, rational(-3, 2)));
  EXPECT_EQ(kept_.trees().size(), 3U);
}

TEST_F(four_ranks, nothing_is_given_up_where_there_is_room) {
  EXPECT_TRUE(kept_.relieve({0, 1}, rational(1)));
  EXPECT_EQ(kept_.trees().size(), 3U);
}

TEST_F(four_ranks, a_set_without_the_root_needs_no_crossing) {
  // {1} has no demand. The chain and the detour leave it once, the fork twice.
  EXPECT_TRUE(kept_.relieve({1}, rational(-2)));
  EXPECT_EQ(kept_.trees(), (std::vector{chain_, detour_}));
  EXPECT_EQ(kept_.demand().at(0), rational(2));
}

}  // namespace
