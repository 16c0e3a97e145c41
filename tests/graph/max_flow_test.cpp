// SPDX-License-Identifier: Apache-2.0
// g++ 12 mistakes the optional inside Boost 1.74's edge iterator for uninitialized.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <blink/graph/max_flow.hpp>

#include "support/random_graphs.hpp"
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

// Test folders may be compiled as one source.
namespace max_flow_test { namespace {

using namespace blink;

std::int64_t leaving(test::random_graph const& g, std::vector<bool> const& side) {
  std::int64_t sum = 0;
  for (std::size_t e = 0; e < g.capacity.size(); ++e) {
    auto const& a = g.graph.arcs[e];
    if (side[static_cast<std::size_t>(a.tail)] && !side[static_cast<std::size_t>(a.head)]) {
      sum += g.capacity[e];
    }
  }
  return sum;
}

TEST(max_flow, is_a_flow_and_equals_its_cut) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto const g = test::make_random_graph(seed, 2 + seed % 12, 3, 20);
    int const sink = g.graph.vertex_count - 1;
    auto const result = max_flow(g.graph, 0, sink, g.capacity);
    std::vector<std::int64_t> balance(static_cast<std::size_t>(g.graph.vertex_count), 0);
    for (std::size_t e = 0; e < g.capacity.size(); ++e) {
      EXPECT_GE(result.flow[e], 0);
      EXPECT_LE(result.flow[e], g.capacity[e]);
      balance[static_cast<std::size_t>(g.graph.arcs[e].tail)] -= result.flow[e];
      balance[static_cast<std::size_t>(g.graph.arcs[e].head)] += result.flow[e];
    }
    EXPECT_EQ(balance.front(), -result.value);
    EXPECT_EQ(balance.back(), result.value);
    for (std::size_t v = 1; v + 1 < balance.size(); ++v) EXPECT_EQ(balance[v], 0);
    EXPECT_TRUE(result.source_side.front());
    EXPECT_FALSE(result.source_side.back());
    EXPECT_EQ(leaving(g, result.source_side), result.value);
  }
}

TEST(max_flow, agrees_with_boost_also_on_boosts_graphs) {
  using traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
  using graph = boost::adjacency_list<
      boost::vecS, boost::vecS, boost::directedS, boost::no_property,
      boost::property<
          boost::edge_capacity_t, std::int64_t,
          boost::property<boost::edge_residual_capacity_t, std::int64_t,
                          boost::property<boost::edge_reverse_t, traits::edge_descriptor>>>>;
  using plain = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS>;
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto const g = test::make_random_graph(seed, 3 + seed % 10, 3, 20);
    auto const n = static_cast<std::size_t>(g.graph.vertex_count);
    graph residual(n);
    plain same(n);
    auto capacity = get(boost::edge_capacity, residual);
    auto reverse = get(boost::edge_reverse, residual);
    for (std::size_t e = 0; e < g.capacity.size(); ++e) {
      auto const tail = static_cast<std::size_t>(g.graph.arcs[e].tail);
      auto const head = static_cast<std::size_t>(g.graph.arcs[e].head);
      auto const there = add_edge(tail, head, residual).first;
      auto const back = add_edge(head, tail, residual).first;
      capacity[there] = g.capacity[e];
      capacity[back] = 0;
      reverse[there] = back;
      reverse[back] = there;
      add_edge(tail, head, same);
    }
    // Boost lists edges by tail. Here they are in the order of `edges`.
    std::vector<std::int64_t> by_boost_order;
    for (auto [e, last] = edges(same); e != last; ++e) {
      std::size_t seen = 0;  // parallel edges follow in the order of their insertion
      for (std::size_t i = 0; i < g.capacity.size(); ++i) {
        if (static_cast<std::size_t>(g.graph.arcs[i].tail) != source(*e, same)) continue;
        if (seen++ ==
            static_cast<std::size_t>(std::count_if(edges(same).first, e, [&](auto const& other) {
              return source(other, same) == source(*e, same);
            }))) {
          by_boost_order.push_back(g.capacity[i]);
        }
      }
    }
    auto const expected = push_relabel_max_flow(residual, std::size_t{0}, n - 1);
    EXPECT_EQ(max_flow(g.graph, 0, static_cast<int>(n) - 1, g.capacity).value, expected);
    EXPECT_EQ(max_flow(same, 0, static_cast<int>(n) - 1, by_boost_order).value, expected);
  }
}

TEST(max_flow, refuses_what_it_cannot_do) {
  arc_list const pair{2, {{0, 1}}};
  EXPECT_THROW((void)max_flow(pair, 0, 0, std::vector<int>{1}), precondition_error);
  EXPECT_THROW((void)max_flow(pair, 0, 2, std::vector<int>{1}), precondition_error);
  EXPECT_THROW((void)max_flow(pair, 0, 1, std::vector<int>{-1}), precondition_error);
  EXPECT_THROW((void)max_flow(pair, 0, 1, std::vector<int>{}), precondition_error);
  EXPECT_THROW((void)max_flow(pair, 0, 1, std::vector<std::int64_t>{INT64_MAX}), overflow_error);
}

TEST(rooted_connectivity, is_the_smallest_cut_of_all) {
  for (unsigned seed = 0; seed < 80; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto const g = test::make_random_graph(seed, 2 + seed % 8, 3, 9);
    auto const n = static_cast<std::size_t>(g.graph.vertex_count);
    std::vector<int> all(n);
    std::iota(all.begin(), all.end(), 0);
    auto smallest = std::numeric_limits<std::int64_t>::max();
    for (unsigned inside = 1; inside < (1U << n) - 1; inside += 2) {  // vertex 0 is inside
      std::vector<bool> side(n);
      for (std::size_t v = 0; v < n; ++v) side[v] = (inside >> v & 1U) != 0;
      smallest = std::min(smallest, leaving(g, side));
    }
    auto const result = rooted_connectivity(g.graph, g.capacity, 0, all);
    EXPECT_EQ(result.value, smallest);
    EXPECT_EQ(leaving(g, result.source_side), smallest);
    EXPECT_TRUE(result.source_side.front());
  }
}

TEST(rooted_connectivity, towards_the_root_on_the_reversed_graph) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto const g = test::make_random_graph(seed, 3 + seed % 10, 3, 9);
    std::vector<int> all(static_cast<std::size_t>(g.graph.vertex_count));
    std::iota(all.begin(), all.end(), 0);
    auto smallest = std::numeric_limits<std::int64_t>::max();
    for (int v = 1; v < g.graph.vertex_count; ++v) {
      smallest = std::min(smallest, max_flow(g.graph, v, 0, g.capacity).value);
    }
    EXPECT_EQ(rooted_connectivity(reversed(g.graph), g.capacity, 0, all).value, smallest);
    EXPECT_EQ(reversed(reversed(g.graph)).arcs, g.graph.arcs);
  }
}

}}  // namespace max_flow_test
