// SPDX-License-Identifier: Apache-2.0
#include <blink/graph/rooted_connectivity.hpp>
#include <blink/packing/arborescence_packing.hpp>
#include <blink/packing/equal_root_rate.hpp>

#include "support/random_graphs.hpp"
#include "support/small_machines.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace {

using namespace blink;

/// Every tree spans and has one root, loads fit, demands are met. Returns the largest height.
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

TEST(ArborescencePacking, ReachesEdmondsBoundFromOneRoot) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto const g = test::make_connected_graph(seed, 2 + seed % 9, seed % 4, 1 + seed % 12);
    auto const rate = rooted_connectivity(g.graph, g.capacity, 0, all_of(g)).value;
    std::vector<root_demand> const demands{{0, rate}};
    expect_packing(g, demands, pack_arborescences(g.graph, g.capacity, demands));
    EXPECT_THROW((void)pack_arborescences(g.graph, g.capacity, {{0, rate + 1}}), planning_error);
  }
}

TEST(ArborescencePacking, ReachesTheAllGatherBoundFromAllRoots) {
  for (unsigned seed = 0; seed < 80; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto g = test::make_connected_graph(seed, 2 + seed % 8, seed % 4, 1 + seed % 5);
    auto const optimum = equal_root_rate(g.graph, g.capacity, all_of(g));
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

TEST(ArborescencePacking, TakesUnequalDemands) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto g = test::make_connected_graph(seed, 3 + seed % 5, 3, 6);
    std::vector<root_demand> const demands{{0, 1}, {1, 0}, {2, 2}};
    try {
      expect_packing(g, demands, pack_arborescences(g.graph, g.capacity, demands));
    } catch (planning_error const&) {
      for (auto& c : g.capacity) c *= 3;  // three along each edge of the ring: enough for all
      expect_packing(g, demands, pack_arborescences(g.graph, g.capacity, demands));
    }
  }
}

TEST(ArborescencePacking, FullDgx1IsLowAndFew) {
  auto const v = graph_of(test::dgx1v_matrix(1));
  auto const p = graph_of(test::dgx1p_matrix(1));
  for (int root = 0; root < 8; ++root) {
    SCOPED_TRACE("root " + std::to_string(root));
    auto const on_v = pack_arborescences(v.graph, v.capacity, {{root, 6}});
    // The lowest possible, by enumeration of all trees: 4 from GPUs 0, 1, 4, 5 and 5 from the
    // others.
    EXPECT_EQ(expect_packing(v, {{root, 6}}, on_v), root % 4 < 2 ? 4 : 5);
    EXPECT_EQ(on_v.size(), 6U);
    auto const on_p = pack_arborescences(p.graph, p.capacity, {{root, 4}});
    EXPECT_EQ(expect_packing(p, {{root, 4}}, on_p), 3);
    EXPECT_EQ(on_p.size(), 4U);
  }
}

TEST(ArborescencePacking, EqualInputsGiveEqualTrees) {
  auto const g = test::make_connected_graph(7, 8, 3, 5);
  auto const rate = rooted_connectivity(g.graph, g.capacity, 0, all_of(g)).value;
  auto const a = pack_arborescences(g.graph, g.capacity, {{0, rate}});
  auto const b = pack_arborescences(g.graph, g.capacity, {{0, rate}});
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].edges, b[i].edges);
}

TEST(ArborescencePacking, EdgeCases) {
  arc_list const one{1, {}};
  auto const alone = pack_arborescences(one, std::vector<int>{}, {{0, 3}});
  ASSERT_EQ(alone.size(), 1U);
  EXPECT_TRUE(alone.front().edges.empty());
  arc_list const pair{2, {{0, 1}, {0, 1}, {0, 0}}};  // parallel edges and a loop
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

TEST(EqualRootRate, IsTheSmallestRatioOfAllCuts) {
  for (unsigned seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto const g = test::make_random_graph(seed, 3 + seed % 8, 4, 9);
    auto const n = static_cast<std::size_t>(g.graph.vertex_count);
    std::vector<int> ranks = all_of(g);
    if (seed % 3 == 0) ranks.resize(ranks.size() - 1);  // the last vertex only forwards
    auto const ratio = [&](std::vector<bool> const& side) -> std::optional<rational> {
      std::int64_t leaving = 0;
      for (std::size_t e = 0; e < g.capacity.size(); ++e) {
        auto const& a = g.graph.arcs[e];
        if (side[static_cast<std::size_t>(a.tail)] && !side[static_cast<std::size_t>(a.head)]) {
          leaving += g.capacity[e];
        }
      }
      std::int64_t inside = 0;
      for (int const rank : ranks) inside += side[static_cast<std::size_t>(rank)] ? 1 : 0;
      if (inside == 0 || inside == static_cast<std::int64_t>(ranks.size())) return std::nullopt;
      return rational(leaving, inside);
    };
    std::optional<rational> smallest;
    for (unsigned inside = 1; inside < (1U << n) - 1; ++inside) {
      std::vector<bool> side(n);
      for (std::size_t v = 0; v < n; ++v) side[v] = (inside >> v & 1U) != 0;
      auto const r = ratio(side);
      if (r && (!smallest || *r < *smallest)) smallest = r;
    }
    auto const result = equal_root_rate(g.graph, g.capacity, ranks);
    EXPECT_EQ(result.rate_per_root, *smallest);
    EXPECT_EQ(ratio(result.cut), smallest);
  }
}

}  // namespace
