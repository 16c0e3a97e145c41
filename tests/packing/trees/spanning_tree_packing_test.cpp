// SPDX-License-Identifier: Apache-2.0
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/packing/trees/spanning_tree_packing.hpp>

#include "support/brute_force.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

// Test folders may be compiled as one source.
namespace spanning_tree_packing_test { namespace {

using blink::rational;

struct weighted_graph {
  blink::arc_list graph;
  std::vector<std::int64_t> capacity;

  [[nodiscard]] blink::test::capacity_matrix matrix() const {
    auto const n = static_cast<std::size_t>(graph.vertex_count);
    blink::test::capacity_matrix result(n, std::vector<std::int64_t>(n, 0));
    for (std::size_t e = 0; e < capacity.size(); ++e) {
      auto const [tail, head] = graph.arcs[e];
      if (tail == head) continue;
      result[static_cast<std::size_t>(tail)][static_cast<std::size_t>(head)] += capacity[e];
      result[static_cast<std::size_t>(head)][static_cast<std::size_t>(tail)] += capacity[e];
    }
    return result;
  }
};

/// A random tree with additional random edges, among them parallel edges, loops and edges without
/// capacity.
weighted_graph random_graph(std::uint64_t seed, int vertices, std::int64_t most) {
  std::mt19937_64 random(seed);
  auto const below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  weighted_graph result{{vertices, {}}, {}};
  for (int v = 1; v < vertices; ++v) {
    result.graph.arcs.push_back({v, static_cast<int>(below(v))});
    result.capacity.push_back(1 + below(most));
  }
  auto const more = below(5 * vertices);
  for (std::int64_t i = 0; i < more; ++i) {
    result.graph.arcs.push_back(
        {static_cast<int>(below(vertices)), static_cast<int>(below(vertices))});
    result.capacity.push_back(below(most + 1));
  }
  return result;
}

/// True if the edges connect all vertices without a cycle. Checked by flooding and by their number.
bool is_spanning_tree(blink::arc_list const& graph, std::vector<int> const& edges) {
  std::set<int> reached{0};
  for (bool grown = true; grown;) {
    grown = false;
    for (int const e : edges) {
      auto const [tail, head] = graph.arcs[static_cast<std::size_t>(e)];
      if (reached.contains(tail) == reached.contains(head)) continue;
      reached.insert({tail, head});
      grown = true;
    }
  }
  return static_cast<int>(reached.size()) == graph.vertex_count &&
         static_cast<int>(edges.size()) == graph.vertex_count - 1;
}

void check_packing(weighted_graph const& g, blink::spanning_tree_packing const& packing) {
  std::vector<rational> load(g.capacity.size());
  rational sum;
  for (auto const& tree : packing.trees) {
    EXPECT_TRUE(is_spanning_tree(g.graph, tree.edges));
    EXPECT_GT(tree.weight, rational(0));
    sum += tree.weight;
    for (int const e : tree.edges) load[static_cast<std::size_t>(e)] += tree.weight;
  }
  EXPECT_EQ(sum, packing.rate);
  for (std::size_t e = 0; e < load.size(); ++e) EXPECT_LE(load[e], rational(g.capacity[e]));
  EXPECT_TRUE(std::is_sorted(packing.trees.begin(), packing.trees.end(),
                             [](auto const& a, auto const& b) { return a.weight > b.weight; }));

  ASSERT_EQ(static_cast<int>(packing.part.size()), g.graph.vertex_count);
  std::set<int> const parts(packing.part.begin(), packing.part.end());
  ASSERT_GE(parts.size(), 2U);
  EXPECT_EQ(*parts.begin(), 0);
  EXPECT_EQ(*parts.rbegin(), static_cast<int>(parts.size()) - 1);
  std::int64_t crossing = 0;
  for (std::size_t e = 0; e < g.capacity.size(); ++e) {
    auto const [tail, head] = g.graph.arcs[e];
    auto const side = [&](int v) { return packing.part[static_cast<std::size_t>(v)]; };
    if (side(tail) != side(head)) crossing += g.capacity[e];
  }
  EXPECT_EQ(packing.rate, rational(crossing, static_cast<std::int64_t>(parts.size()) - 1));
}

TEST(pack_spanning_trees, is_exactly_the_best_partition_bound_on_random_graphs) {
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(seed);
    auto const g = random_graph(seed, 2 + static_cast<int>(seed % 6), seed % 3 == 0 ? 3 : 1000);
    auto const packing = pack_spanning_trees(g.graph, g.capacity);
    check_packing(g, packing);
    EXPECT_EQ(packing.rate, blink::test::best_symmetric_all_reduce(g.matrix()));
  }
}

TEST(pack_spanning_trees, by_linear_programming_agrees_with_decomposition) {
  blink::spanning_tree_packing_options by_program;
  by_program.decomposition_vertices = 0;
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    SCOPED_TRACE(seed);
    auto const g = random_graph(seed, 2 + static_cast<int>(seed % 8), 5);
    auto const packing = pack_spanning_trees(g.graph, g.capacity, by_program);
    check_packing(g, packing);
    EXPECT_EQ(packing.rate, pack_spanning_trees(g.graph, g.capacity).rate);
  }
}

TEST(pack_spanning_trees, proves_its_rate_on_larger_random_graphs) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    auto const g = random_graph(seed, 12 + static_cast<int>(seed), 4);
    check_packing(g, pack_spanning_trees(g.graph, g.capacity));
  }
}

TEST(pack_spanning_trees, finds_few_trees_on_grids) {
  for (int const side : {4, 5, 6, 8}) {
    SCOPED_TRACE(side);
    weighted_graph g{{side * side, {}}, {}};
    for (int v = 0; v < side * side; ++v) {
      if (v % side + 1 < side) g.graph.arcs.push_back({v, v + 1});
      if (v + side < side * side) g.graph.arcs.push_back({v, v + side});
    }
    g.capacity.assign(g.graph.arcs.size(), 1);
    auto const packing = pack_spanning_trees(g.graph, g.capacity);
    check_packing(g, packing);
    EXPECT_EQ(packing.rate, rational(2 * side * (side - 1), side * side - 1));
    EXPECT_LE(packing.trees.size(), 2 * g.graph.arcs.size());
  }
}

// Links between the GPUs of a DGX-1V, in the numbering of nvidia-smi.
constexpr int dgx1v[8][8] = {{0, 1, 1, 2, 2, 0, 0, 0}, {1, 0, 2, 1, 0, 2, 0, 0},
                             {1, 2, 0, 2, 0, 0, 1, 0}, {2, 1, 2, 0, 0, 0, 0, 1},
                             {2, 0, 0, 0, 0, 1, 1, 2}, {0, 2, 0, 0, 1, 0, 2, 1},
                             {0, 0, 1, 0, 1, 2, 0, 2}, {0, 0, 0, 1, 2, 1, 2, 0}};

/// The GPUs whose bits are set. Generation P has one link where V has one or two.
weighted_graph dgx1(unsigned members, bool generation_p) {
  weighted_graph result;
  std::vector<std::size_t> gpus;
  for (std::size_t i = 0; i < 8; ++i) {
    if ((members >> i & 1U) != 0) gpus.push_back(i);
  }
  result.graph.vertex_count = static_cast<int>(gpus.size());
  for (std::size_t a = 0; a < gpus.size(); ++a) {
    for (std::size_t b = a + 1; b < gpus.size(); ++b) {
      int const links = dgx1v[gpus[a]][gpus[b]];
      if (links == 0) continue;
      result.graph.arcs.push_back({static_cast<int>(a), static_cast<int>(b)});
      result.capacity.push_back(generation_p ? 1 : links);
    }
  }
  return result;
}

TEST(pack_spanning_trees, packs_all_parts_of_dgx1_with_few_trees) {
  int connected = 0;
  for (bool const generation_p : {false, true}) {
    for (unsigned members = 0; members < 256; ++members) {
      auto const g = dgx1(members, generation_p);
      if (g.graph.vertex_count < 2) continue;
      SCOPED_TRACE(std::to_string(members) + (generation_p ? " P" : " V"));
      auto const expected = blink::test::best_symmetric_all_reduce(g.matrix());
      if (expected == rational(0)) {
        EXPECT_THROW(static_cast<void>(pack_spanning_trees(g.graph, g.capacity)),
                     blink::planning_error);
        continue;
      }
      ++connected;
      auto const packing = pack_spanning_trees(g.graph, g.capacity);
      check_packing(g, packing);
      EXPECT_EQ(packing.rate, expected);
      EXPECT_LE(packing.trees.size(), 7U);
    }
  }
  EXPECT_GT(connected, 300);
}

TEST(pack_spanning_trees, reaches_the_known_optima_of_dgx1) {
  auto const v = dgx1(255, false);
  EXPECT_EQ(pack_spanning_trees(v.graph, v.capacity).rate, rational(24, 7));
  auto const p = dgx1(255, true);
  EXPECT_EQ(pack_spanning_trees(p.graph, p.capacity).rate, rational(16, 7));
}

TEST(pack_spanning_trees, gives_equal_results_for_equal_inputs) {
  auto const g = dgx1(255, false);
  auto const first = pack_spanning_trees(g.graph, g.capacity);
  auto const second = pack_spanning_trees(g.graph, g.capacity);
  ASSERT_EQ(first.trees.size(), second.trees.size());
  for (std::size_t i = 0; i < first.trees.size(); ++i) {
    EXPECT_EQ(first.trees[i].weight, second.trees[i].weight);
    EXPECT_EQ(first.trees[i].edges, second.trees[i].edges);
  }
}

TEST(pack_spanning_trees, keeps_large_capacities_exact) {
  weighted_graph const g{{3, {{0, 1}, {1, 2}, {2, 0}}},
                         {1'000'000'000'001, 1'000'000'000'003, 1'000'000'000'007}};
  auto const packing = pack_spanning_trees(g.graph, g.capacity);
  check_packing(g, packing);
  EXPECT_EQ(packing.rate, rational(3'000'000'000'011, 2));
}

TEST(pack_spanning_trees, names_two_unconnected_vertices) {
  weighted_graph const g{{4, {{0, 1}, {2, 3}, {1, 2}}}, {1, 1, 0}};
  try {
    static_cast<void>(pack_spanning_trees(g.graph, g.capacity));
    FAIL() << "expected a planning_error";
  } catch (blink::planning_error const& e) {
    EXPECT_NE(std::string(e.what()).find("vertices 0 and 2"), std::string::npos) << e.what();
  }
}

TEST(pack_spanning_trees, refuses_what_it_cannot_take) {
  blink::arc_list const pair{2, {{0, 1}}};
  EXPECT_THROW(static_cast<void>(pack_spanning_trees(pair, std::vector<int>{})),
               blink::precondition_error);
  EXPECT_THROW(static_cast<void>(pack_spanning_trees(pair, std::vector<int>{-1})),
               blink::precondition_error);
  EXPECT_THROW(static_cast<void>(pack_spanning_trees(blink::arc_list{1, {}}, std::vector<int>{})),
               blink::precondition_error);
}

}}  // namespace spanning_tree_packing_test
