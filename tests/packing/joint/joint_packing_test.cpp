// SPDX-License-Identifier: Apache-2.0
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/packing/joint/joint_packing.hpp>
#include <blink/packing/trees/spanning_tree_packing.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

// Test folders may be compiled as one source.
namespace joint_packing_test { namespace {

using blink::rational;

struct directed_graph {
  blink::arc_list graph;
  std::vector<std::int64_t> capacity;
};

/// A random cycle through all vertices with additional random edges.
directed_graph random_graph(std::uint64_t seed, int vertices, int more, std::int64_t most) {
  std::mt19937_64 random(seed);
  auto const below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  directed_graph result{{vertices, {}}, {}};
  std::vector<int> cycle(static_cast<std::size_t>(vertices));
  std::iota(cycle.begin(), cycle.end(), 0);
  std::shuffle(cycle.begin(), cycle.end(), random);
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    result.graph.arcs.push_back({cycle[i], cycle[(i + 1) % cycle.size()]});
    result.capacity.push_back(1 + below(most));
  }
  for (int i = 0; i < more; ++i) {
    result.graph.arcs.push_back(
        {static_cast<int>(below(vertices)), static_cast<int>(below(vertices))});
    result.capacity.push_back(below(most + 1));
  }
  return result;
}

/// True if exactly one edge leaves every vertex but the root, and following these edges ends at the
/// root. With `out`, edges are reversed first.
bool is_tree_at(blink::arc_list const& graph, int root, std::vector<int> const& edges, bool out) {
  auto const n = static_cast<std::size_t>(graph.vertex_count);
  std::vector<int> next(n, -1);
  for (int const e : edges) {
    auto [tail, head] = graph.arcs[static_cast<std::size_t>(e)];
    if (out) std::swap(tail, head);
    if (tail == root || next[static_cast<std::size_t>(tail)] >= 0) return false;
    next[static_cast<std::size_t>(tail)] = head;
  }
  for (std::size_t v = 0; v < n; ++v) {
    int at = static_cast<int>(v);
    for (std::size_t steps = 0; at != root; ++steps) {
      if (steps > n || next[static_cast<std::size_t>(at)] < 0) return false;
      at = next[static_cast<std::size_t>(at)];
    }
  }
  return true;
}

/// The cheapest tree at `root`, found by enumeration of one edge for each vertex.
///
/// Time: O(E^V).
std::optional<rational> cheapest_by_trying(directed_graph const& g,
                                           std::vector<rational> const& prices, int root,
                                           bool out) {
  std::optional<rational> best;
  std::vector<int> chosen;
  std::function<void(int, rational)> const extend = [&](int v, rational const& cost) {
    if (v == g.graph.vertex_count) {
      if ((!best || cost < *best) && is_tree_at(g.graph, root, chosen, out)) best = cost;
      return;
    }
    if (v == root) return extend(v + 1, cost);
    for (std::size_t e = 0; e < g.capacity.size(); ++e) {
      auto const end = out ? g.graph.arcs[e].head : g.graph.arcs[e].tail;
      if (end != v || g.capacity[e] == 0) continue;
      chosen.push_back(static_cast<int>(e));
      extend(v + 1, cost + prices[e]);
      chosen.pop_back();
    }
  };
  extend(0, rational(0));
  return best;
}

void check_packing(directed_graph const& g, blink::joint_packing const& packing) {
  std::vector<rational> load(g.capacity.size());
  rational sum, value;
  for (auto const& tree : packing.trees) {
    EXPECT_TRUE(is_tree_at(g.graph, tree.root, tree.in_edges, false));
    EXPECT_TRUE(is_tree_at(g.graph, tree.root, tree.out_edges, true));
    EXPECT_GT(tree.weight, rational(0));
    sum += tree.weight;
    for (auto const* edges : {&tree.in_edges, &tree.out_edges}) {
      for (int const e : *edges) load[static_cast<std::size_t>(e)] += tree.weight;
    }
  }
  EXPECT_EQ(sum, packing.rate);
  ASSERT_EQ(packing.prices.size(), g.capacity.size());
  for (std::size_t e = 0; e < load.size(); ++e) {
    EXPECT_LE(load[e], rational(g.capacity[e]));
    EXPECT_GE(packing.prices[e], rational(0));
    value += packing.prices[e] * g.capacity[e];
  }
  EXPECT_EQ(value, packing.rate);
}

TEST(pack_joint_trees, prices_bound_every_pair_that_trying_finds) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    auto const g = random_graph(seed, 3 + static_cast<int>(seed % 3), 5, seed % 2 == 0 ? 4 : 100);
    auto const packing = pack_joint_trees(g.graph, g.capacity);
    check_packing(g, packing);
    for (int root = 0; root < g.graph.vertex_count; ++root) {
      auto const in = cheapest_by_trying(g, packing.prices, root, false);
      auto const out = cheapest_by_trying(g, packing.prices, root, true);
      ASSERT_TRUE(in && out);
      EXPECT_GE(*in + *out, rational(1));
    }
  }
}

TEST(pack_joint_trees, keeps_to_the_roots_allowed) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    auto const g = random_graph(seed, 5, 8, 6);
    auto const best = pack_joint_trees(g.graph, g.capacity);
    auto const two = pack_joint_trees(g.graph, g.capacity, {1, 3});
    check_packing(g, two);
    for (auto const& tree : two.trees) EXPECT_TRUE(tree.root == 1 || tree.root == 3);
    EXPECT_LE(two.rate, best.rate);
    for (int const root : {1, 3}) {
      auto const one = pack_joint_trees(g.graph, g.capacity, {root});
      check_packing(g, one);
      EXPECT_LE(one.rate, two.rate);
      auto const in = cheapest_by_trying(g, one.prices, root, false);
      auto const out = cheapest_by_trying(g, one.prices, root, true);
      ASSERT_TRUE(in && out);
      EXPECT_GE(*in + *out, rational(1));
    }
  }
}

TEST(pack_joint_trees, equals_the_packing_of_spanning_trees_on_symmetric_links) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    auto const one_way = random_graph(seed, 3 + static_cast<int>(seed % 6), 6, 5);
    auto both = one_way;
    for (std::size_t e = 0; e < one_way.capacity.size(); ++e) {
      auto const [tail, head] = one_way.graph.arcs[e];
      both.graph.arcs.push_back({head, tail});
      both.capacity.push_back(one_way.capacity[e]);
    }
    auto const joint = pack_joint_trees(both.graph, both.capacity);
    check_packing(both, joint);
    EXPECT_EQ(joint.rate, pack_spanning_trees(one_way.graph, one_way.capacity).rate);
  }
}

TEST(pack_joint_trees, finds_simple_weights_on_larger_random_graphs) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(seed);
    auto const g = random_graph(seed, 10, 50, 2);
    auto const packing = pack_joint_trees(g.graph, g.capacity);
    check_packing(g, packing);
    EXPECT_LE(packing.trees.size(), g.capacity.size());
  }
}

TEST(pack_joint_trees, is_exact_with_capacities_from_one_to_a_billion) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    auto g = random_graph(seed, 4 + static_cast<int>(seed % 5), 12, 30);
    for (auto& c : g.capacity) c = c == 0 ? 0 : std::int64_t{1} << (c - 1);
    auto const packing = pack_joint_trees(g.graph, g.capacity);
    check_packing(g, packing);
  }
}

TEST(pack_joint_trees, takes_the_one_way_round_a_ring) {
  directed_graph const ring{{4, {{0, 1}, {1, 2}, {2, 3}, {3, 0}}}, {3, 3, 3, 3}};
  auto const packing = pack_joint_trees(ring.graph, ring.capacity);
  check_packing(ring, packing);
  EXPECT_EQ(packing.rate, rational(2));  // each pair loads half of the total capacity
}

TEST(pack_joint_trees, matches_the_known_optima_of_machines) {
  std::string const folder = std::string(BLINK_TEST_DATA_DIR) + "/topologies/";
  std::vector<std::pair<std::string, rational>> const known{
      {"line_8", rational(1)},           {"ring_8", rational(8, 7)},
      {"dgx1v", rational(600, 7)},       {"random_n8_d4_s1", rational(625, 7)},
      {"mi250_1box", rational(1200, 7)}, {"mesh2d_4x4", rational(80)},
      {"dragonfly_4x5", rational(400)},  {"random_n16_d4_s1", rational(245, 3)}};
  for (auto const& [name, rate] : known) {
    SCOPED_TRACE(name);
    auto const machine = nlohmann::json::parse(std::ifstream(folder + name + ".json"));
    directed_graph g{{static_cast<int>(machine["nodes"].size()), {}}, {}};
    for (auto const& l : machine["links"]) {
      g.graph.arcs.push_back({l["src"].get<int>(), l["dst"].get<int>()});
      g.capacity.push_back(static_cast<std::int64_t>(l["capacity"].get<double>()));
    }
    auto const packing = pack_joint_trees(g.graph, g.capacity);
    check_packing(g, packing);
    EXPECT_EQ(packing.rate, rate);
  }
}

TEST(pack_joint_trees, says_what_is_wrong) {
  blink::arc_list const one_way{3, {{0, 1}, {1, 2}, {0, 2}}};
  EXPECT_THROW(static_cast<void>(pack_joint_trees(one_way, std::vector<int>{1, 1, 1})),
               blink::planning_error);
  blink::arc_list const ring{3, {{0, 1}, {1, 2}, {2, 0}}};
  EXPECT_THROW(static_cast<void>(pack_joint_trees(ring, std::vector<int>{1, 0, 1})),
               blink::planning_error);
  EXPECT_THROW(static_cast<void>(pack_joint_trees(ring, std::vector<int>{1, 1})),
               blink::precondition_error);
  EXPECT_THROW(static_cast<void>(pack_joint_trees(ring, std::vector<int>{1, -1, 1})),
               blink::precondition_error);
  EXPECT_THROW(static_cast<void>(pack_joint_trees(ring, std::vector<int>{1, 1, 1}, {3})),
               blink::precondition_error);
  EXPECT_THROW(static_cast<void>(pack_joint_trees(ring, std::vector<int>{1, 1, 1}, {1, 1})),
               blink::precondition_error);
  EXPECT_THROW(
      static_cast<void>(pack_joint_trees(ring, std::vector<int>{1, 1, 1}, std::vector<int>{})),
      blink::precondition_error);
  blink::joint_packing_options hasty;
  hasty.max_pivots = 1;
  EXPECT_THROW(
      static_cast<void>(pack_joint_trees(ring, std::vector<int>{1, 2, 3}, {0, 1, 2}, hasty)),
      blink::overflow_error);
}

}}  // namespace joint_packing_test
