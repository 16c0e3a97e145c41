// SPDX-License-Identifier: Apache-2.0
#include <blink/core/rational.hpp>
#include <blink/graph/min_spanning_tree.hpp>

#include <gtest/gtest.h>
#include <support/all_trees.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

// Test folders may be compiled as one source.
namespace min_spanning_tree_test { namespace {

using namespace blink;
using blink::test::for_each_spanning_tree;
using blink::test::is_spanning_tree;
using blink::test::random_arcs;

/// Checks that no edge outside the tree is cheaper than an edge on the path between its ends.
template <class Cost>
bool is_cheapest(arc_list const& graph, std::vector<int> const& tree,
                 std::vector<Cost> const& costs) {
  for (int const dropped : tree) {  // no cheaper edge joins the two sides of a dropped edge
    std::vector<bool> side(static_cast<std::size_t>(graph.vertex_count));
    side[static_cast<std::size_t>(graph.arcs[static_cast<std::size_t>(dropped)].tail)] = true;
    for (std::size_t round = 0; round < tree.size(); ++round) {
      for (int const e : tree) {
        auto const [tail, head] = graph.arcs[static_cast<std::size_t>(e)];
        if (e == dropped) continue;
        if (side[static_cast<std::size_t>(tail)]) side[static_cast<std::size_t>(head)] = true;
        if (side[static_cast<std::size_t>(head)]) side[static_cast<std::size_t>(tail)] = true;
      }
    }
    for (std::size_t e = 0; e < graph.arcs.size(); ++e) {
      auto const [tail, head] = graph.arcs[e];
      if (side[static_cast<std::size_t>(tail)] != side[static_cast<std::size_t>(head)] &&
          costs[e] < costs[static_cast<std::size_t>(dropped)]) {
        return false;
      }
    }
  }
  return true;
}

TEST(min_spanning_tree, equals_the_best_of_all_trees) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    int const n = 1 + static_cast<int>(seed % 6);
    arc_list const graph = random_arcs(random, n, n + static_cast<int>(seed % 5), true);
    std::vector<rational> costs;
    for (std::size_t e = 0; e < graph.arcs.size(); ++e) {
      costs.emplace_back(std::uniform_int_distribution<int>(-3, 6)(random), 1 + e % 3);
    }
    auto const result = min_spanning_tree(graph, costs);
    ASSERT_TRUE(is_spanning_tree(graph, result.edges));
    EXPECT_TRUE(is_cheapest(graph, result.edges, costs));
    std::optional<rational> best;
    for_each_spanning_tree(graph, [&](std::vector<int> const& tree) {
      rational sum;
      for (int const e : tree) sum += costs[static_cast<std::size_t>(e)];
      best = std::min(best.value_or(sum), sum);
    });
    EXPECT_EQ(result.cost, best);
  }
}

TEST(min_spanning_tree, proves_itself_on_larger_graphs) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    int const n = 10 + static_cast<int>(seed) * 3;
    arc_list const graph = random_arcs(random, n, 4 * n, true);
    std::vector<double> costs;
    for (std::size_t e = 0; e < graph.arcs.size(); ++e) {
      costs.push_back(std::uniform_real_distribution<double>(0, 1)(random));
    }
    auto const result = min_spanning_tree(graph, costs);
    ASSERT_TRUE(is_spanning_tree(graph, result.edges));
    EXPECT_TRUE(is_cheapest(graph, result.edges, costs));
    EXPECT_TRUE(std::ranges::is_sorted(result.edges, {},
                                       [&](int e) { return costs[static_cast<std::size_t>(e)]; }));
  }
}

TEST(min_spanning_tree, says_what_is_wrong) {
  arc_list const graph{4, {{0, 1}, {3, 1}, {2, 2}}};
  try {
    (void)min_spanning_tree(graph, std::vector<int>(3, 1));
    FAIL() << "vertex 2 stands alone";
  } catch (planning_error const& failure) {
    EXPECT_NE(std::string(failure.what()).find("vertex 2"), std::string::npos) << failure.what();
  }
  EXPECT_THROW((void)min_spanning_tree(graph, std::vector<int>(2, 1)), precondition_error);
  EXPECT_THROW((void)min_spanning_tree(arc_list{}, std::vector<int>{}), precondition_error);
  EXPECT_TRUE(min_spanning_tree(arc_list{1, {}}, std::vector<int>{}).edges.empty());
}

}}  // namespace min_spanning_tree_test
