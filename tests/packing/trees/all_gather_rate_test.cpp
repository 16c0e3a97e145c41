// SPDX-License-Identifier: Apache-2.0
#include <blink/graph/max_flow.hpp>
#include <blink/packing/trees/all_gather_rate.hpp>

#include "support/random_graphs.hpp"
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

// Test folders may be compiled as one source.
namespace all_gather_rate_test { namespace {

using namespace blink;

std::vector<int> first_vertices(int count) {
  std::vector<int> result(static_cast<std::size_t>(count));
  std::iota(result.begin(), result.end(), 0);
  return result;
}

/// Capacity out of a set / weight in it. Returns nothing if it has no weight or misses no rank.
std::optional<rational> ratio(test::random_graph const& g, std::vector<int> const& ranks,
                              std::vector<std::int64_t> const& weights,
                              std::vector<bool> const& side) {
  std::int64_t leaving = 0;
  for (std::size_t e = 0; e < g.capacity.size(); ++e) {
    auto const& a = g.graph.arcs[e];
    if (side[static_cast<std::size_t>(a.tail)] && !side[static_cast<std::size_t>(a.head)]) {
      leaving += g.capacity[e];
    }
  }
  std::int64_t weight = 0;
  bool misses = false;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    bool const inside = side[static_cast<std::size_t>(ranks[i])];
    weight += inside ? weights[i] : 0;
    misses = misses || !inside;
  }
  if (weight == 0 || !misses) return std::nullopt;
  return rational(leaving, weight);
}

TEST(all_gather_rate, is_the_smallest_ratio_of_all_cuts) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto const g = test::make_random_graph(seed, 3 + seed % 8, 4, 9);
    int const n = g.graph.vertex_count;
    // the other vertices only forward
    auto const ranks = first_vertices(seed % 3 == 0 ? n - 1 : n);
    std::vector<std::int64_t> weights(ranks.size(), 1);
    if (seed % 2 == 0) {
      for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = (seed + 2 * i) % 4;
    }
    std::optional<rational> smallest;
    for (unsigned inside = 1; inside < (1U << n) - 1; ++inside) {
      std::vector<bool> side(static_cast<std::size_t>(n));
      for (std::size_t v = 0; v < side.size(); ++v) side[v] = (inside >> v & 1U) != 0;
      auto const r = ratio(g, ranks, weights, side);
      if (r && (!smallest || *r < *smallest)) smallest = r;
    }
    auto const result = all_gather_rate(g.graph, g.capacity, ranks, weights);
    EXPECT_EQ(result.rate_per_root, *smallest);
    EXPECT_EQ(ratio(g, ranks, weights, result.cut), smallest);
    if (seed % 2 != 0) {
      EXPECT_EQ(all_gather_rate(g.graph, g.capacity, ranks).rate_per_root, *smallest);
    }
  }
}

TEST(all_gather_rate, all_weight_on_one_root_is_its_connectivity) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto const g = test::make_connected_graph(seed, 3 + seed % 20, 3, 9);
    auto const ranks = first_vertices(g.graph.vertex_count);
    std::vector<std::int64_t> weights(ranks.size(), 0);
    weights.back() = 1;
    EXPECT_EQ(all_gather_rate(g.graph, g.capacity, ranks, weights).rate_per_root,
              rational(rooted_connectivity(g.graph, g.capacity, ranks.back(), ranks).value));
  }
}

TEST(all_gather_rate, refuses_what_it_cannot_do) {
  arc_list const pair{2, {{0, 1}, {1, 0}}};
  std::vector<int> const one{1, 1};
  EXPECT_THROW((void)all_gather_rate(pair, one, {0}), precondition_error);
  EXPECT_THROW((void)all_gather_rate(pair, one, {0, 0}), precondition_error);
  EXPECT_THROW((void)all_gather_rate(pair, one, {0, 2}), precondition_error);
  EXPECT_THROW((void)all_gather_rate(pair, one, {0, 1}, {1}), precondition_error);
  EXPECT_THROW((void)all_gather_rate(pair, one, {0, 1}, {0, 0}), precondition_error);
  EXPECT_THROW((void)all_gather_rate(pair, one, {0, 1}, {1, -1}), precondition_error);
  EXPECT_THROW((void)all_gather_rate(pair, one, {0, 1}, {INT64_MAX, INT64_MAX}), overflow_error);
}

}}  // namespace all_gather_rate_test
