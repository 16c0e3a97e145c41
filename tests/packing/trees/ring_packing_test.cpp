// SPDX-License-Identifier: Apache-2.0
#include <blink/packing/trees/ring_packing.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <support/all_trees.hpp>
#include <support/dgx1_classes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

// Test folders may be compiled as one source.
namespace ring_packing_test { namespace {

using namespace blink;
using namespace blink::test;

void check_rings(arc_list const& graph, std::vector<std::int64_t> const& capacities,
                 ring_packing_result const& result) {
  std::vector<std::int64_t> load(graph.arcs.size(), 0);
  std::int64_t sum = 0;
  for (auto const& ring : result.rings) {
    EXPECT_GT(ring.multiplicity, 0);
    sum += ring.multiplicity;
    auto const n = static_cast<std::size_t>(graph.vertex_count);
    ASSERT_EQ(ring.vertices.size(), n);
    ASSERT_EQ(ring.edges.size(), n);
    auto sorted = ring.vertices;
    std::ranges::sort(sorted);
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_EQ(sorted[i], static_cast<int>(i));
      auto const e = static_cast<std::size_t>(ring.edges[i]);
      EXPECT_EQ(graph.arcs[e], (arc{ring.vertices[i], ring.vertices[(i + 1) % n]}));
      load[e] += ring.multiplicity;
    }
    EXPECT_EQ(ring.vertices.front(), 0);
  }
  EXPECT_EQ(sum, result.rate);
  for (std::size_t e = 0; e < load.size(); ++e) EXPECT_LE(load[e], capacities[e]);
}

/// The largest packing, found by enumeration of every order of the vertices and every multiplicity.
std::int64_t best_by_brute_force(arc_list const& graph,
                                 std::vector<std::int64_t> const& capacities) {
  auto const n = static_cast<std::size_t>(graph.vertex_count);
  std::vector<std::vector<std::int64_t>> room(n, std::vector<std::int64_t>(n, 0));
  for (std::size_t e = 0; e < graph.arcs.size(); ++e) {
    room[static_cast<std::size_t>(graph.arcs[e].tail)]
        [static_cast<std::size_t>(graph.arcs[e].head)] += capacities[e];
  }
  std::vector<std::vector<std::size_t>> cycles;
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0U);
  auto const most = [&](std::vector<std::size_t> const& cycle) {
    std::int64_t least = INT64_MAX;
    for (std::size_t i = 0; i < n; ++i) least = std::min(least, room[cycle[i]][cycle[(i + 1) % n]]);
    return least;
  };
  do {
    if (most(order) > 0) cycles.push_back(order);
  } while (std::next_permutation(order.begin() + 1, order.end()));
  std::int64_t best = 0;
  std::function<void(std::size_t, std::int64_t)> const go = [&](std::size_t c, std::int64_t sum) {
    best = std::max(best, sum);
    if (c == cycles.size()) return;
    auto const limit = most(cycles[c]);
    for (std::int64_t times = 0; times <= limit; ++times) {
      for (std::size_t i = 0; i < n; ++i) room[cycles[c][i]][cycles[c][(i + 1) % n]] -= times;
      go(c + 1, sum + times);
      for (std::size_t i = 0; i < n; ++i) room[cycles[c][i]][cycles[c][(i + 1) % n]] += times;
    }
  };
  go(0, 0);
  return best;
}

TEST(ring_packing, equals_the_best_of_all_packings) {
  int with_rings = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    int const n = 2 + static_cast<int>(seed % 4);
    arc_list const graph = random_arcs(random, n, 2 * n + static_cast<int>(seed % 7), false);
    std::vector<std::int64_t> capacities;
    for (std::size_t e = 0; e < graph.arcs.size(); ++e) {
      capacities.push_back(std::uniform_int_distribution<int>(0, 3)(random));
    }
    auto const result = pack_rings(graph, capacities);
    check_rings(graph, capacities, result);
    EXPECT_TRUE(result.proven_optimal);
    EXPECT_EQ(result.rate, best_by_brute_force(graph, capacities));
    with_rings += result.rate > 0 ? 1 : 0;
  }
  EXPECT_GT(with_rings, 60);
}

TEST(ring_packing, full_dgx1) {
  for (bool const volta : {true, false}) {
    matrix_graph const machine(volta ? dgx1v_matrix(1) : dgx1p_matrix(1), true);
    auto const result = pack_rings(machine.graph, machine.capacities);
    check_rings(machine.graph, machine.capacities, result);
    EXPECT_EQ(result.rate, volta ? 6 : 4);
    EXPECT_TRUE(result.proven_optimal);
  }
}

// Small classes of the DGX-1V and some of the DGX-1P have no ring.
TEST(ring_packing, dgx1_classes_without_rings) {
  std::map<char, int> without;
  for (auto const& [name, matrix] : dgx1_classes()) {
    SCOPED_TRACE(name);
    matrix_graph const machine(matrix, true);
    auto const result = pack_rings(machine.graph, machine.capacities);
    check_rings(machine.graph, machine.capacities, result);
    EXPECT_TRUE(result.proven_optimal);
    if (!result.rings.empty()) continue;
    ++without[name[0]];
    EXPECT_LE(matrix.size(), 5U);
  }
  EXPECT_EQ(without['V'], 21);
  EXPECT_EQ(without['P'], 5);
}

TEST(ring_packing, published_fragments) {
  std::string const folder = std::string(BLINK_TEST_DATA_DIR) + "/topologies/";
  std::ifstream classes_file(folder + "DGX1_FRAGMENTS.json"), machine_file(folder + "dgx1v.json");
  ASSERT_TRUE(classes_file && machine_file) << folder;
  auto const machine = nlohmann::json::parse(machine_file);
  auto const fragments = nlohmann::json::parse(classes_file);
  capacity_matrix links(8, std::vector<std::int64_t>(8, 0));
  for (auto const& link : machine.at("links")) {
    links[link.at("src").get<std::size_t>()][link.at("dst").get<std::size_t>()] =
        link.at("capacity").get<std::int64_t>() / 25;
  }
  int compared = 0;
  for (auto const& fragment : fragments.at("classes")) {
    if (!fragment.contains("rings")) continue;  // disconnected
    auto const gpus = fragment.at("gpus").get<std::string>();
    bool const volta = fragment.at("gen") == "V";
    SCOPED_TRACE(fragment.at("gen").get<std::string>() + " " + gpus);
    capacity_matrix matrix;
    for (char const a : gpus) {
      matrix.emplace_back();
      for (char const b : gpus) {
        auto const count =
            links[static_cast<std::size_t>(a - '0')][static_cast<std::size_t>(b - '0')];
        matrix.back().push_back(volta ? count : std::min<std::int64_t>(count, 1));
      }
    }
    matrix_graph const part(matrix, true);
    auto const result = pack_rings(part.graph, part.capacities);
    check_rings(part.graph, part.capacities, result);
    EXPECT_EQ(result.rate, fragment.at("rings").get<std::int64_t>());
    EXPECT_TRUE(result.proven_optimal);
    ++compared;
  }
  EXPECT_EQ(compared, 60);
}

/// A grid. With `wrap`, opposite sides are joined.
arc_list grid(int rows, int columns, bool wrap) {
  arc_list graph{rows * columns, {}};
  auto const join = [&](int a, int b) {
    graph.arcs.push_back({a, b});
    graph.arcs.push_back({b, a});
  };
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) {
      int const v = i * columns + j;
      if (wrap || i + 1 < rows) join(v, (i + 1) % rows * columns + j);
      if (wrap || j + 1 < columns) join(v, i * columns + (j + 1) % columns);
    }
  }
  return graph;
}

std::int64_t rate_of(arc_list const& graph) {
  std::vector<std::int64_t> const ones(graph.arcs.size(), 1);
  auto const result = pack_rings(graph, ones);
  check_rings(graph, ones, result);
  return result.rate;
}

TEST(ring_packing, finds_rings_on_large_machines) {
  for (int const side : {4, 6, 8}) {
    SCOPED_TRACE(side);
    EXPECT_EQ(rate_of(grid(side, side, false)), 2);
    EXPECT_GE(rate_of(grid(side, side, true)), 2);
  }
  EXPECT_EQ(rate_of(grid(5, 6, false)), 2);
  EXPECT_GE(rate_of(grid(5, 5, true)), 2);
  for (int const dimension : {2, 3, 4, 5, 6}) {
    SCOPED_TRACE(dimension);
    arc_list cube{1 << dimension, {}};
    for (int v = 0; v < cube.vertex_count; ++v) {
      for (int d = 0; d < dimension; ++d) cube.arcs.push_back({v, v ^ (1 << d)});
    }
    EXPECT_GE(rate_of(cube), 2);
  }
  for (int const n : {4, 5, 7, 8, 16, 32}) {
    SCOPED_TRACE(n);
    arc_list full{n, {}};
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < n; ++j) {
        if (i != j) full.arcs.push_back({i, j});
      }
    }
    // Odd complete graphs decompose fully into rings (Walecki). Even ones are harder for a search
    // that takes rings one by one.
    EXPECT_GE(rate_of(full), n - 2 - n % 2);
    EXPECT_LE(rate_of(full), n - 1);
  }
}

TEST(ring_packing, no_ring_where_none_is) {
  for (auto const& graph : {grid(1, 8, false), grid(3, 3, false), grid(5, 5, false),
                            arc_list{1, {}}, arc_list{3, {{0, 1}, {1, 2}}}, arc_list{0, {}}}) {
    std::vector<std::int64_t> const ones(graph.arcs.size(), 1);
    auto const result = pack_rings(graph, ones);
    EXPECT_EQ(result.rate, 0);
    EXPECT_TRUE(result.rings.empty());
    EXPECT_TRUE(result.proven_optimal);
  }
}

TEST(ring_packing, parallel_edges_and_multiplicities) {
  arc_list const graph{3, {{0, 1}, {0, 1}, {1, 2}, {2, 0}, {2, 0}}};
  std::vector<std::int64_t> const capacities{2, 3, 5, 1, 4};
  auto const result = pack_rings(graph, capacities);
  check_rings(graph, capacities, result);
  EXPECT_EQ(result.rate, 5);
  EXPECT_TRUE(result.proven_optimal);
}

TEST(ring_packing, limits_are_kept_and_reported) {
  arc_list full{6, {}};
  for (int i = 0; i < 6; ++i) {
    for (int j = 0; j < 6; ++j) {
      if (i != j) full.arcs.push_back({i, j});
    }
  }
  std::vector<std::int64_t> const ones(full.arcs.size(), 1);
  auto const hurried = pack_rings(full, ones, {.cycles = 3, .attempts = 1});
  check_rings(full, ones, hurried);
  EXPECT_FALSE(hurried.proven_optimal);
  EXPECT_GT(hurried.rate, 0);
  // All arcs between six vertices contain four rings but not five (Tillson 1980).
  auto const exact = pack_rings(full, ones);
  EXPECT_EQ(exact.rate, 4);
  EXPECT_TRUE(exact.proven_optimal);
}

TEST(ring_packing, says_what_is_wrong) {
  arc_list const pair{2, {{0, 1}, {1, 0}}};
  EXPECT_EQ(pack_rings(pair, std::vector<int>{2, 3}).rate, 2);
  EXPECT_THROW((void)pack_rings(pair, std::vector<int>{1}), precondition_error);
  EXPECT_THROW((void)pack_rings(pair, std::vector<int>{1, -1}), precondition_error);
}

}}  // namespace ring_packing_test
