// SPDX-License-Identifier: Apache-2.0
#include <blink/packing/trees/few_trees.hpp>
#include <blink/packing/trees/multiplicative_weights.hpp>
#include <blink/packing/trees/reduce_height.hpp>

#include <gtest/gtest.h>
#include <support/all_trees.hpp>
#include <support/dgx1_classes.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

// Test folders may be compiled as one source.
namespace reduce_height_test { namespace {

using namespace blink;
using namespace blink::test;

few_trees_result few_arborescences(arc_list const& graph, int root,
                                   std::vector<std::int64_t> const& capacities) {
  arborescence_oracle oracle(graph, root, capacities);
  auto const packing = multiplicative_weights(oracle, capacities, {.epsilon = 0.1, .gap = 0.02});
  std::vector<std::vector<int>> candidates;
  for (auto const& tree : packing.trees) candidates.push_back(tree.edges);
  return few_trees(oracle, candidates, capacities, packing.bound, packing.prices);
}

std::vector<int> depths(arc_list const& graph, int root, std::vector<int> const& edges) {
  std::vector<int> parent(static_cast<std::size_t>(graph.vertex_count), root);
  for (int const e : edges) {
    auto const [tail, head] = graph.arcs[static_cast<std::size_t>(e)];
    parent[static_cast<std::size_t>(head)] = tail;
  }
  std::vector<int> result;
  for (int v = 0; v < graph.vertex_count; ++v) {
    int depth = 0;
    for (int at = v; at != root; at = parent[static_cast<std::size_t>(at)]) ++depth;
    result.push_back(depth);
  }
  return result;
}

int height(arc_list const& graph, int root, few_trees_result const& packing) {
  int result = 0;
  for (auto const& tree : packing.trees) {
    result = std::max(result, std::ranges::max(depths(graph, root, tree.edges)));
  }
  return result;
}

TEST(reduce_height, keeps_what_is_carried) {
  int lowered = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    int const n = 2 + static_cast<int>(seed % 9);
    arc_list const graph = random_arcs(random, n, 5 * n, true);
    std::vector<std::int64_t> capacities;
    for (std::size_t e = 0; e < graph.arcs.size(); ++e) {
      capacities.push_back(std::uniform_int_distribution<int>(1, seed % 2 ? 3 : 40)(random));
    }
    auto const before = few_arborescences(graph, 0, capacities);
    auto const after = reduce_height(graph, 0, capacities, before);
    EXPECT_EQ(after.rate, before.rate);
    EXPECT_EQ(after.unit, before.unit);
    EXPECT_LE(after.trees.size(), before.trees.size());
    std::vector<rational> load(graph.arcs.size());
    rational sum;
    for (auto const& tree : after.trees) {
      ASSERT_TRUE(is_arborescence(graph, 0, tree.edges));
      EXPECT_TRUE(std::ranges::is_sorted(tree.edges));
      for (int const e : tree.edges) load[static_cast<std::size_t>(e)] += tree.weight;
      sum += tree.weight;
    }
    EXPECT_EQ(sum, before.rate);
    for (std::size_t e = 0; e < load.size(); ++e) EXPECT_LE(load[e], rational(capacities[e]));
    auto const steepness = [&](few_trees_result const& packing) {
      double total = 0;
      for (auto const& tree : packing.trees) {
        for (int const d : depths(graph, 0, tree.edges)) {
          total += tree.weight.to_double() * std::pow(8.0, d);
        }
      }
      return total;
    };
    EXPECT_LE(steepness(after), steepness(before) * (1 + 1e-12));
    lowered += steepness(after) < steepness(before) ? 1 : 0;
  }
  EXPECT_GT(lowered, 20);
}

TEST(reduce_height, known_heights) {
  // Six trees of a DGX-1V cannot all be lower than 4. In a complete graph, trees can have height 2:
  // to one vertex, and from it to the others.
  matrix_graph const volta(dgx1v_matrix(1), true);
  auto const six = reduce_height(volta.graph, 0, volta.capacities,
                                 few_arborescences(volta.graph, 0, volta.capacities));
  EXPECT_EQ(six.trees.size(), 6U);
  EXPECT_EQ(height(volta.graph, 0, six), 4);
  arc_list full{8, {}};
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 8; ++j) {
      if (i != j) full.arcs.push_back({i, j});
    }
  }
  std::vector<std::int64_t> const ones(full.arcs.size(), 1);
  auto const seven = reduce_height(full, 3, ones, few_arborescences(full, 3, ones));
  EXPECT_EQ(seven.rate, rational(7));
  EXPECT_EQ(height(full, 3, seven), 2);
}

TEST(reduce_height, says_what_is_wrong) {
  arc_list const path{3, {{0, 1}, {1, 2}, {2, 1}}};
  std::vector<std::int64_t> const ones{1, 1, 1};
  few_trees_result packing;
  packing.unit = rational(1);
  packing.trees.push_back({rational(1), {0, 1}});
  EXPECT_EQ(reduce_height(path, 0, ones, packing).trees.size(), 1U);
  EXPECT_THROW((void)reduce_height(path, 3, ones, packing), precondition_error);
  EXPECT_THROW((void)reduce_height(path, 1, ones, packing), precondition_error);
  packing.trees[0].edges = {1, 2};
  EXPECT_THROW((void)reduce_height(path, 0, ones, packing), precondition_error);
  EXPECT_TRUE(reduce_height(path, 0, ones, few_trees_result{}).trees.empty());
}

}}  // namespace reduce_height_test
