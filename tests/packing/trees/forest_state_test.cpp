// SPDX-License-Identifier: Apache-2.0
#include <blink/packing/trees/all_gather_rate.hpp>
#include <blink/packing/trees/detail/forest_state.hpp>

#include "support/random_graphs.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

// Test folders may be compiled as one source.
namespace forest_state_test { namespace {

using namespace blink;

/// The largest multiplicity by definition, over the sets that the edge enters and the tree has
/// reached. It is the least difference between the capacity into a set and the need of the trees
/// outside.
std::int64_t largest_by_all_sets(test::random_graph const& g, detail::forest_state const& forest,
                                 std::size_t tree, std::size_t edge) {
  auto const n = static_cast<unsigned>(g.graph.vertex_count);
  auto const has = [](unsigned set, int v) { return (set >> v & 1U) != 0; };
  auto const meets = [&](detail::growing_tree const& t, unsigned set) {
    for (int v = 0; v < g.graph.vertex_count; ++v) {
      if (has(set, v) && t.depth[static_cast<std::size_t>(v)] >= 0) return true;
    }
    return false;
  };
  auto result = std::min(forest.trees[tree].multiplicity, forest.room[edge]);
  for (unsigned set = 1; set < 1U << n; ++set) {
    auto const& joined = g.graph.arcs[edge];
    if (!has(set, joined.head) || has(set, joined.tail) || !meets(forest.trees[tree], set)) {
      continue;
    }
    std::int64_t slack = 0;
    for (std::size_t e = 0; e < g.capacity.size(); ++e) {
      auto const& a = g.graph.arcs[e];
      if (has(set, a.head) && !has(set, a.tail)) slack += forest.room[e];
    }
    for (auto const& t : forest.trees) slack -= meets(t, set) ? 0 : t.multiplicity;
    result = std::min(result, slack);
  }
  return result;
}

/// Servers of a few vertices with much room inside and little between.
test::random_graph servers_of(unsigned seed) {
  std::mt19937 random(seed);
  int const servers = 2 + static_cast<int>(seed % 3);
  int const each = 2 + static_cast<int>(seed % 2);
  test::random_graph g;
  g.graph.vertex_count = servers * each;
  auto const add = [&](int tail, int head, std::int64_t capacity) {
    g.graph.arcs.push_back({tail, head});
    g.capacity.push_back(capacity);
  };
  for (int s = 0; s < servers; ++s) {
    for (int i = 0; i < each; ++i) {
      for (int j = 0; j < each; ++j) {
        if (i != j) add(s * each + i, s * each + j, 8 + static_cast<std::int64_t>(random() % 4));
      }
      int const other = (s + 1 + static_cast<int>(random() % unsigned(servers - 1))) % servers;
      add(s * each + i, other * each + static_cast<int>(random() % unsigned(each)), 2);
      add((s + 1) % servers * each + i, s * each + i, 2);
    }
  }
  return g;
}

TEST(forest_state, one_flow_gives_what_all_sets_allow) {
  int compared = 0;
  int splits = 0;
  std::size_t tight_sets = 0;
  for (unsigned seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto g = seed < 60 ? test::make_connected_graph(seed, 2 + seed % 6, 2, 4) : servers_of(seed);
    std::vector<int> all(static_cast<std::size_t>(g.graph.vertex_count));
    std::iota(all.begin(), all.end(), 0);
    auto const rate = all_gather_rate(g.graph, g.capacity, all).rate_per_root;
    for (auto& c : g.capacity) c *= rate.denominator();
    detail::forest_state forest(g.graph, g.capacity);
    for (int const root : all) {
      detail::growing_tree t{root, rate.numerator(), {}, {}, {}, 1, 0};
      t.depth.assign(all.size(), -1);
      t.depth[static_cast<std::size_t>(root)] = 0;
      forest.add(std::move(t));
    }
    if (seed % 2 == 0) {
      EXPECT_TRUE(forest.use_tight_sets().empty());
      tight_sets += forest.tight_set_count();
    }
    // Random edges join random trees, as often as allowed or less.
    std::mt19937 random(seed);
    for (int step = 0; step < 60; ++step) {
      auto const tree = random() % forest.trees.size();
      auto const edge = random() % g.capacity.size();
      auto const& a = g.graph.arcs[edge];
      auto const& depth = forest.trees[tree].depth;
      if (depth[static_cast<std::size_t>(a.tail)] < 0 ||
          depth[static_cast<std::size_t>(a.head)] >= 0) {
        continue;
      }
      auto const most = forest.largest_multiplicity(tree, static_cast<int>(edge));
      ASSERT_EQ(most, largest_by_all_sets(g, forest, tree, edge));
      ++compared;
      if (most == 0) continue;
      auto const taken = 1 + static_cast<std::int64_t>(random()) % most;
      if (taken < forest.trees[tree].multiplicity) {
        forest.split(tree, taken);
        ++splits;
      }
      forest.join(tree, static_cast<int>(edge));
    }
  }
  EXPECT_GT(compared, 500);
  EXPECT_GT(splits, 50);
  EXPECT_GT(tight_sets, 30U);
}

}}  // namespace forest_state_test
