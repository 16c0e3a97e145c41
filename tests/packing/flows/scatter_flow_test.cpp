// SPDX-License-Identifier: Apache-2.0
#include <blink/packing/flows/flow_paths.hpp>
#include <blink/packing/flows/scatter_flow.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <vector>

// Test folders may be compiled as one source.
namespace scatter_flow_test { namespace {

using namespace blink;

struct instance {
  arc_list graph;
  std::vector<std::int64_t> capacity;
  std::vector<int> sinks;  // the source is vertex 0
};

instance random_instance(unsigned seed) {
  std::mt19937 random(seed);
  int const n = 2 + static_cast<int>(random() % 6);
  instance result{{n, {}}, {}, {}};
  int const edges = n + static_cast<int>(random() % static_cast<unsigned>(3 * n));
  for (int e = 0; e < edges; ++e) {
    int const tail = static_cast<int>(random() % static_cast<unsigned>(n));
    int const head = static_cast<int>(random() % static_cast<unsigned>(n));
    if (tail == head) continue;
    result.graph.arcs.push_back({tail, head});  // parallel edges are kept
    result.capacity.push_back(static_cast<std::int64_t>(random() % 9));
  }
  for (int v = 1; v < n; ++v) {
    if (v == 1 || random() % 3 > 0) result.sinks.push_back(v);  // the other vertices only forward
  }
  return result;
}

// The smallest ratio over all sets with the source, found by enumeration.
rational best_by_cuts(instance const& what) {
  std::optional<rational> best;
  for (unsigned inside = 1; inside < 1U << what.graph.vertex_count; inside += 2) {
    std::int64_t leaving = 0, outside = 0;
    for (std::size_t e = 0; e < what.graph.arcs.size(); ++e) {
      auto const& a = what.graph.arcs[e];
      if ((inside >> a.tail & 1U) != 0 && (inside >> a.head & 1U) == 0) leaving += what.capacity[e];
    }
    for (int const sink : what.sinks) outside += (inside >> sink & 1U) != 0 ? 0 : 1;
    if (outside == 0) continue;
    rational const ratio(leaving, outside);
    if (!best || ratio < *best) best = ratio;
  }
  return *best;
}

TEST(scatter_flow, agrees_with_all_cuts_and_comes_apart_into_paths) {
  int positive = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    auto const what = random_instance(seed);
    auto const found = scatter_flow(what.graph, what.capacity, 0, what.sinks);
    EXPECT_EQ(found.rate_per_sink, best_by_cuts(what));
    EXPECT_EQ(found.rate_per_sink, rational(found.per_sink, found.steps));
    EXPECT_TRUE(found.cut[0]);
    positive += found.per_sink > 0 ? 1 : 0;

    std::vector<std::int64_t> demand(static_cast<std::size_t>(what.graph.vertex_count), 0);
    for (int const sink : what.sinks) demand[static_cast<std::size_t>(sink)] = found.per_sink;
    auto const paths = flow_paths(what.graph, 0, found.flow, demand);
    EXPECT_LE(paths.size(), what.sinks.size() + what.graph.arcs.size());
    auto left = what.capacity;
    for (auto& c : left) c *= found.steps;
    for (auto const& p : paths) {
      int here = 0;
      std::set<int> visited{0};
      for (int const e : p.edges) {
        EXPECT_EQ(what.graph.arcs[static_cast<std::size_t>(e)].tail, here);
        here = what.graph.arcs[static_cast<std::size_t>(e)].head;
        EXPECT_TRUE(visited.insert(here).second);
        EXPECT_GE(left[static_cast<std::size_t>(e)] -= p.amount, 0);
      }
      EXPECT_EQ(here, p.sink);
      demand[static_cast<std::size_t>(p.sink)] -= p.amount;
    }
    for (auto const rest : demand) EXPECT_EQ(rest, 0);
  }
  EXPECT_GT(positive, 100);
}

TEST(scatter_flow, splits_only_where_it_must) {
  // A diamond with two paths from 0 to 3 over edges of capacity 1. All three sinks get 2/3, and 3
  // gets it over both paths.
  arc_list const graph{4, {{0, 1}, {1, 3}, {0, 2}, {2, 3}}};
  std::vector<std::int64_t> const capacity{1, 1, 1, 1};
  auto const found = scatter_flow(graph, capacity, 0, {1, 2, 3});
  EXPECT_EQ(found.rate_per_sink, rational(2, 3));
  EXPECT_EQ(
      flow_paths(graph, 0, found.flow, {0, found.per_sink, found.per_sink, found.per_sink}).size(),
      4U);
}

TEST(scatter_flow, refuses_what_it_cannot_do) {
  arc_list const graph{3, {{0, 1}, {1, 2}}};
  std::vector<std::int64_t> const capacity{1, 1};
  EXPECT_THROW((void)scatter_flow(graph, capacity, 0, {}), precondition_error);
  EXPECT_THROW((void)scatter_flow(graph, capacity, 0, {0}), precondition_error);
  EXPECT_THROW((void)scatter_flow(graph, capacity, 0, {1, 1}), precondition_error);
  EXPECT_THROW((void)scatter_flow(graph, capacity, 3, {1}), precondition_error);
  EXPECT_EQ(scatter_flow(graph, capacity, 2, {1}).rate_per_sink, rational(0));
  std::vector<std::int64_t> const huge{std::int64_t{1} << 61, std::int64_t{1} << 60};
  EXPECT_THROW((void)scatter_flow(graph, huge, 0, {1, 2}), overflow_error);
  EXPECT_THROW((void)flow_paths(graph, 0, {1, 1}, {0, 1, 1}), precondition_error);
  EXPECT_THROW((void)flow_paths(graph, 0, {1, 1}, {0, 0}), precondition_error);
}

}}  // namespace scatter_flow_test
