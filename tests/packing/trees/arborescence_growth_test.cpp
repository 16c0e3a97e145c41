// SPDX-License-Identifier: Apache-2.0
#include <blink/graph/max_flow.hpp>
#include <blink/packing/trees/arborescence_packing.hpp>
#include <blink/packing/trees/detail/arborescence_growth.hpp>

#include "support/random_graphs.hpp"
#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

// Test folders may be compiled as one source.
namespace arborescence_growth_test { namespace {

using namespace blink;

constexpr double no_limit = std::numeric_limits<double>::infinity();

/// Trees without edges that will fill a random graph from vertex 0.
detail::forest_state demanded_trees(test::random_graph const& g) {
  std::vector<int> all(static_cast<std::size_t>(g.graph.vertex_count));
  std::iota(all.begin(), all.end(), 0);
  auto const rate = rooted_connectivity(g.graph, g.capacity, 0, all).value;
  return detail::demanded_forest(g.graph, g.capacity, {{0, rate}});
}

/// Grows the trees one by one, and evaluates every edge each time.
void grow_by_asking_for_all(detail::forest_state& forest, arc_list const& graph, bool all_levels) {
  auto const edges_by_tail = forest.edges_by_tail();
  for (std::size_t t = 0; t < forest.trees.size();) {
    auto const& tree = forest.trees[t];
    auto const depth = [&](int v) { return tree.depth[static_cast<std::size_t>(v)]; };
    // By level, then in the order in which the vertices were reached.
    std::vector<std::vector<int>> vertices(static_cast<std::size_t>(graph.vertex_count));
    vertices[0].push_back(tree.root);
    for (int const e : tree.edges) {
      int const v = graph.arcs[static_cast<std::size_t>(e)].head;
      vertices[static_cast<std::size_t>(depth(v))].push_back(v);
    }
    int best = -1;
    std::int64_t most = 0;
    for (auto const& level : vertices) {
      if (best >= 0 && !all_levels) break;
      for (int const v : level) {
        for (int const e : edges_by_tail[static_cast<std::size_t>(v)]) {
          if (depth(graph.arcs[static_cast<std::size_t>(e)].head) >= 0) continue;
          auto const answer = forest.largest_multiplicity(t, e);
          if (answer > most) {
            most = answer;
            best = e;
          }
        }
      }
    }
    if (best < 0) {
      ASSERT_EQ(tree.reached, static_cast<std::size_t>(graph.vertex_count));
      ++t;
      continue;
    }
    if (most < tree.multiplicity) forest.split(t, most);
    forest.join(t, best);
  }
}

TEST(arborescence_growth, bounds_from_earlier_answers_change_no_tree) {
  std::size_t splits = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    auto const g = test::make_connected_graph(seed, 3 + seed % 9, seed % 5, 1 + seed * seed);
    for (bool const all_levels : {false, true}) {
      auto expected = demanded_trees(g);
      grow_by_asking_for_all(expected, g.graph, all_levels);
      auto forest = demanded_trees(g);
      std::mt19937_64 random(seed);
      ASSERT_TRUE(detail::grow(forest, g.graph, forest.edges_by_tail(), {false, all_levels},
                               no_limit, random));
      ASSERT_EQ(forest.trees.size(), expected.trees.size());
      for (std::size_t t = 0; t < forest.trees.size(); ++t) {
        EXPECT_EQ(forest.trees[t].edges, expected.trees[t].edges);
        EXPECT_EQ(forest.trees[t].multiplicity, expected.trees[t].multiplicity);
      }
      splits += forest.trees.size() - 1;
    }
  }
  EXPECT_GT(splits, 100U);
}

TEST(arborescence_growth, ends_where_it_takes_more_work_than_allowed) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    auto const g = test::make_connected_graph(seed, 12, 4, 500);
    auto const work_with = [&](double max_work, bool& done) {
      auto forest = demanded_trees(g);
      auto const before = forest.work();
      std::mt19937_64 random(seed);
      done = detail::grow(forest, g.graph, forest.edges_by_tail(), {true, false}, max_work, random);
      return static_cast<double>(forest.work() - before);
    };
    bool done = false;
    double const all = work_with(no_limit, done);
    EXPECT_TRUE(done);
    EXPECT_EQ(work_with(all, done), all);  // early steps take more than their share, but less than
                                           // three times
    EXPECT_TRUE(done);
    double const a_third = work_with(all / 3, done);
    EXPECT_FALSE(done);
    EXPECT_LT(a_third, all / 2);
    double const little = work_with(all / 20, done);
    EXPECT_FALSE(done);
    EXPECT_LT(little, all / 3);  // the flows of the first edge start from nothing
    arborescence_packing_options options;
    options.max_work = all / 20;
    auto const rate = demanded_trees(g).trees.front().multiplicity;
    EXPECT_THROW((void)pack_arborescences(g.graph, g.capacity, {{0, rate}}, options),
                 overflow_error);
  }
}

}}  // namespace arborescence_growth_test
