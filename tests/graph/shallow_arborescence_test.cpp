// SPDX-License-Identifier: Apache-2.0
#include <blink/graph/shallow_arborescence.hpp>

#include "support/all_trees.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>

// Test folders may be compiled as one source.
namespace shallow_arborescence_test { namespace {

using namespace blink;
using matrix = cost_matrix<std::int64_t>;

matrix random_costs(unsigned seed, std::size_t n) {
  std::mt19937 random(seed);
  matrix cost(n);
  for (std::size_t u = 0; u < n; ++u) {
    for (std::size_t v = 0; v < n; ++v) {
      if (u != v && random() % 4 != 0) cost(u, v) = static_cast<std::int64_t>(random() % 20);
    }
  }
  return cost;
}

int depth_of(std::vector<int> const& parent, std::size_t v, int root) {
  int result = 0;
  for (auto at = static_cast<int>(v); at != root; at = parent[static_cast<std::size_t>(at)]) {
    if (at < 0 || ++result > static_cast<int>(parent.size())) return 1000;
  }
  return result;
}

std::int64_t cost_of(matrix const& cost, std::vector<int> const& parent) {
  std::int64_t sum = 0;
  for (std::size_t v = 0; v < parent.size(); ++v) {
    if (parent[v] >= 0) sum += cost(static_cast<std::size_t>(parent[v]), v);
  }
  return sum;
}

TEST(shallow_arborescences, are_cheapest_among_all_trees) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    std::size_t const n = 2 + seed % 4;
    auto const cost = random_costs(seed, n);
    arc_list graph{static_cast<int>(n), {}};
    for (std::size_t u = 0; u < n; ++u) {
      for (std::size_t v = 0; v < n; ++v) {
        if (cost(u, v) < matrix::none) {
          graph.arcs.push_back({static_cast<int>(u), static_cast<int>(v)});
        }
      }
    }
    std::vector<int> roots;
    for (int r = 0; r < static_cast<int>(n); ++r) roots.push_back(r);
    for (int height = 0; height < static_cast<int>(n); ++height) {
      auto const found = shallow_arborescences(cost, roots, height);
      for (int const root : roots) {
        std::int64_t least = matrix::none;
        test::for_each_arborescence(graph, root, [&](std::vector<int> const& edges) {
          std::vector<int> parent(n, -1);
          for (int const e : edges) {
            auto const& a = graph.arcs[static_cast<std::size_t>(e)];
            parent[static_cast<std::size_t>(a.head)] = a.tail;
          }
          for (std::size_t v = 0; height > 0 && v < n; ++v) {
            if (depth_of(parent, v, root) > height) return;
          }
          least = std::min(least, cost_of(cost, parent));
        });
        auto const& tree = found[static_cast<std::size_t>(root)];
        ASSERT_EQ(tree.has_value(), least < matrix::none);
        if (!tree) continue;
        EXPECT_EQ(cost_of(cost, *tree), least);
        for (std::size_t v = 0; v < n; ++v) {
          EXPECT_LE(depth_of(*tree, v, root), height > 0 ? height : static_cast<int>(n));
        }
      }
    }
  }
}

TEST(shallow_arborescences, local_search_is_valid_and_near_the_optimum) {
  double worst = 1;
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::size_t const n = 10;
    auto cost = random_costs(seed, n);
    for (auto& c : cost.entries) {
      if (c < matrix::none) ++c;
    }
    for (int height = 2; height <= 4; ++height) {
      auto const exact = shallow_arborescences(cost, {0}, height).front();
      detail::shallow_tree_descent<std::int64_t> search(cost, 0, height);
      for (bool const layers : {true, false}) {
        auto const tree = search.run(layers);
        if (!tree) continue;
        ASSERT_TRUE(exact.has_value());
        for (std::size_t v = 0; v < n; ++v) EXPECT_LE(depth_of(*tree, v, 0), height);
        EXPECT_EQ(search.total(), cost_of(cost, *tree));
        worst = std::max(worst, static_cast<double>(search.total()) /
                                    static_cast<double>(cost_of(cost, *exact)));
      }
      EXPECT_TRUE(!exact || search.run(true));
    }
  }
  EXPECT_LT(worst, 2.5);
  RecordProperty("worst", std::to_string(worst));
}

TEST(shallow_arborescences, large_ones_stay_low) {
  auto const cost = random_costs(3, 40);
  auto const trees = shallow_arborescences(cost, {0, 17}, 3);
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(trees[i].has_value());
    for (std::size_t v = 0; v < 40; ++v) EXPECT_LE(depth_of(*trees[i], v, i == 0 ? 0 : 17), 3);
  }
}

}}  // namespace shallow_arborescence_test
