// SPDX-License-Identifier: Apache-2.0
// g++ 12 mistakes the optional inside Boost 1.74's edge iterator for uninitialized.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <blink/graph/max_flow.hpp>
#include <blink/packing/trees/all_gather_rate.hpp>
#include <blink/packing/trees/arborescence_packing.hpp>

#include "support/random_graphs.hpp"
#include "support/small_machines.hpp"
#include <boost/graph/adjacency_list.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

// Test folders may be compiled as one source.
namespace arborescence_packing_test { namespace {

using namespace blink;

/// Checks that every tree spans and has one root, loads fit, and demands are met. Returns the
/// largest height.
int expect_packing(test::random_graph const& g, std::vector<root_demand> const& demands,
                   std::vector<packed_arborescence> const& packing) {
  std::map<int, std::int64_t> wanted, got;
  for (auto const& d : demands) wanted[d.root] += d.multiplicity;
  std::vector<std::int64_t> load(g.capacity.size(), 0);
  int height = 0;
  for (auto const& t : packing) {
    EXPECT_GT(t.multiplicity, 0);
    got[t.root] += t.multiplicity;
    std::map<int, int> depth{{t.root, 0}};
    for (int const e : t.edges) {
      auto const& a = g.graph.arcs[static_cast<std::size_t>(e)];
      EXPECT_TRUE(depth.contains(a.tail)) << "each edge comes after the one above it";
      EXPECT_TRUE(depth.emplace(a.head, depth[a.tail] + 1).second) << "entered twice";
      height = std::max(height, depth[a.head]);
      load[static_cast<std::size_t>(e)] += t.multiplicity;
    }
    EXPECT_EQ(static_cast<int>(depth.size()), g.graph.vertex_count);
  }
  for (std::size_t e = 0; e < load.size(); ++e) EXPECT_LE(load[e], g.capacity[e]);
  std::erase_if(wanted, [](auto const& entry) { return entry.second == 0; });
  EXPECT_EQ(got, wanted);
  return height;
}

test::random_graph graph_of(std::vector<std::vector<std::int64_t>> const& matrix) {
  test::random_graph result{{static_cast<int>(matrix.size()), {}}, {}};
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    for (std::size_t j = 0; j < matrix.size(); ++j) {
      if (matrix[i][j] == 0) continue;
      result.graph.arcs.push_back({static_cast<int>(i), static_cast<int>(j)});
      result.capacity.push_back(matrix[i][j]);
    }
  }
  return result;
}

std::vector<int> all_of(test::random_graph const& g) {
  std::vector<int> result(static_cast<std::size_t>(g.graph.vertex_count));
  std::iota(result.begin(), result.end(), 0);
  return result;
}

TEST(arborescence_packing, reaches_edmonds_bound_from_one_root) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto const g = test::make_connected_graph(seed, 2 + seed % 9, seed % 4, 1 + seed % 12);
    auto const rate = rooted_connectivity(g.graph, g.capacity, 0, all_of(g)).value;
    std::vector<root_demand> const demands{{0, rate}};
    expect_packing(g, demands, pack_arborescences(g.graph, g.capacity, demands));
    EXPECT_THROW((void)pack_arborescences(g.graph, g.capacity, {{0, rate + 1}}), planning_error);
  }
}

TEST(arborescence_packing, reaches_the_all_gather_bound_from_all_roots) {
  for (unsigned seed = 0; seed < 80; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto g = test::make_connected_graph(seed, 2 + seed % 8, seed % 4, 1 + seed % 5);
    auto const optimum = all_gather_rate(g.graph, g.capacity, all_of(g));
    for (auto& c : g.capacity) c *= optimum.rate_per_root.denominator();
    std::vector<root_demand> demands;
    for (int const v : all_of(g)) demands.push_back({v, optimum.rate_per_root.numerator()});
    expect_packing(g, demands, pack_arborescences(g.graph, g.capacity, demands));
    ++demands.front().multiplicity;
    if (optimum.cut.front()) {  // one more tree from inside the tight cut
      EXPECT_THROW((void)pack_arborescences(g.graph, g.capacity, demands), planning_error);
    }
  }
}

TEST(arborescence_packing, takes_unequal_demands) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto g = test::make_connected_graph(seed, 3 + seed % 5, 3, 6);
    std::vector<root_demand> const demands{{0, 1}, {1, 0}, {2, 2}};
    try {
      expect_packing(g, demands, pack_arborescences(g.graph, g.capacity, demands));
    } catch (planning_error const&) {
      for (auto& c : g.capacity) c *= 3;  // capacity 3 on each edge of the ring suffices for all
      expect_packing(g, demands, pack_arborescences(g.graph, g.capacity, demands));
    }
  }
}

TEST(arborescence_packing, full_dgx1_is_low_and_few) {
  auto const v = graph_of(test::dgx1v_matrix(1));
  auto const p = graph_of(test::dgx1p_matrix(1));
  for (int root = 0; root < 8; ++root) {
    SCOPED_TRACE("root " + std::to_string(root));
    auto const on_v = pack_arborescences(v.graph, v.capacity, {{root, 6}});
    // The lowest possible heights, by enumeration of all trees.
    EXPECT_EQ(expect_packing(v, {{root, 6}}, on_v), root % 4 < 2 ? 4 : 5);
    EXPECT_EQ(on_v.size(), 6U);
    auto const on_p = pack_arborescences(p.graph, p.capacity, {{root, 4}});
    EXPECT_EQ(expect_packing(p, {{root, 4}}, on_p), 3);
    EXPECT_EQ(on_p.size(), 4U);
  }
}

TEST(arborescence_packing, equal_inputs_give_equal_trees) {
  auto const g = test::make_connected_graph(7, 8, 3, 5);
  auto const rate = rooted_connectivity(g.graph, g.capacity, 0, all_of(g)).value;
  auto const a = pack_arborescences(g.graph, g.capacity, {{0, rate}});
  auto const b = pack_arborescences(g.graph, g.capacity, {{0, rate}});
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].edges, b[i].edges);
}

TEST(arborescence_packing, edge_cases) {
  arc_list const one{1, {}};
  auto const alone = pack_arborescences(one, std::vector<int>{}, {{0, 3}});
  ASSERT_EQ(alone.size(), 1U);
  EXPECT_TRUE(alone.front().edges.empty());
  arc_list const pair{2, {{0, 1}, {0, 1}, {0, 0}}};  // with parallel edges and a loop
  auto const parallel = pack_arborescences(pair, std::vector<int>{2, 1, 9}, {{0, 3}});
  EXPECT_EQ(parallel.size(), 2U);
  EXPECT_TRUE(pack_arborescences(pair, std::vector<int>{2, 1, 9}, {}).empty());
  try {
    (void)pack_arborescences(pair, std::vector<int>{1, 1, 9}, {{0, 3}});
    ADD_FAILURE() << "not refused";
  } catch (planning_error const& failure) {
    EXPECT_NE(std::string(failure.what()).find("{1} lets 2 through"), std::string::npos)
        << failure.what();
  }
  EXPECT_THROW((void)pack_arborescences(pair, std::vector<int>{1, 1, -9}, {{0, 1}}),
               precondition_error);
  EXPECT_THROW((void)pack_arborescences(pair, std::vector<int>{1, 1}, {{0, 1}}),
               precondition_error);
  EXPECT_THROW((void)pack_arborescences(pair, std::vector<std::int64_t>{INT64_MAX, 1, 1}, {{0, 1}}),
               overflow_error);
}

TEST(arborescence_packing, all_gather_on_dgx1_is_low_and_few) {
  for (bool const wide : {true, false}) {
    auto g = graph_of(wide ? test::dgx1v_matrix(1) : test::dgx1p_matrix(1));
    auto const rate = all_gather_rate(g.graph, g.capacity, all_of(g)).rate_per_root;
    EXPECT_EQ(rate, wide ? rational(6, 7) : rational(4, 7));
    for (auto& c : g.capacity) c *= rate.denominator();
    std::vector<root_demand> demands;
    for (int const v : all_of(g)) demands.push_back({v, rate.numerator()});
    auto const packing = pack_arborescences(g.graph, g.capacity, demands);
    EXPECT_LE(expect_packing(g, demands, packing), 4);
    EXPECT_LE(packing.size(), 22U);
    // If the distances alone are preferred, trees are at most one edge higher.
    auto const low = pack_arborescences(g.graph, g.capacity, demands, {.height_slack = 0});
    EXPECT_LE(expect_packing(g, demands, low), 3);
  }
}

/// A torus of rows x columns with one link in each direction between neighbours.
test::random_graph torus(int rows, int columns) {
  test::random_graph g{{rows * columns, {}}, {}};
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) {
      int const right = r * columns + (c + 1) % columns;
      int const down = (r + 1) % rows * columns + c;
      for (int const next : {right, down}) {
        g.graph.arcs.push_back({r * columns + c, next});
        g.graph.arcs.push_back({next, r * columns + c});
        g.capacity.insert(g.capacity.end(), {1, 1});
      }
    }
  }
  return g;
}

TEST(arborescence_packing, all_gather_on_tori) {
  for (int const side : {4, 6, 8}) {
    SCOPED_TRACE("side " + std::to_string(side));
    auto g = torus(side, side);
    int const n = side * side;
    auto const rate = all_gather_rate(g.graph, g.capacity, all_of(g)).rate_per_root;
    EXPECT_EQ(rate, rational(4, n - 1));
    for (auto& c : g.capacity) c *= rate.denominator();
    std::vector<root_demand> demands;
    for (int const v : all_of(g)) demands.push_back({v, rate.numerator()});
    auto const packing = pack_arborescences(g.graph, g.capacity, demands);
    EXPECT_LE(expect_packing(g, demands, packing), side + 2);  // the distances and the slack
    EXPECT_LE(packing.size(), static_cast<std::size_t>(3 * n));
  }
}

TEST(arborescence_packing, takes_graphs_of_boost) {
  boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS> graph(3);
  for (auto const& [tail, head] : {std::pair(0, 1), {1, 2}, {0, 2}, {2, 1}}) {
    add_edge(static_cast<std::size_t>(tail), static_cast<std::size_t>(head), graph);
  }
  std::vector<int> const capacities{1, 1, 1, 1};
  auto const packing = pack_arborescences(graph, capacities, {{0, 2}});
  expect_packing({to_arc_list(graph), {1, 1, 1, 1}}, {{0, 2}}, packing);
}

}}  // namespace arborescence_packing_test
