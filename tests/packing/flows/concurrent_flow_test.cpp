// SPDX-License-Identifier: Apache-2.0
#include <blink/packing/flows/concurrent_flow.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <utility>
#include <vector>

// Test folders may be compiled as one source.
namespace concurrent_flow_test { namespace {

using namespace blink;

struct instance {
  arc_list graph;
  std::vector<std::int64_t> capacity;
  std::vector<flow_demand> demands;
};

// A ring, so that every pair has a path, with additional edges; all pairs or some.
instance random_instance(unsigned seed, int n, int more, bool all_pairs) {
  std::mt19937 random(seed);
  auto const below = [&](int most) {
    return static_cast<int>(random() % static_cast<unsigned>(most));
  };
  instance result{{n, {}}, {}, {}};
  for (int i = 0; i < n + more; ++i) {
    int const tail = i < n ? i : below(n);
    int const head = i < n ? (i + 1) % n : below(n);
    result.graph.arcs.push_back({tail, head});  // loops and parallel edges are kept
    result.capacity.push_back(i < n ? 1 + below(6) : below(7));
  }
  for (int s = 0; s < n; ++s) {
    flow_demand demand{s, {}};
    for (int t = 0; t < n; ++t) {
      if (s != t && (all_pairs || below(3) == 0)) demand.sinks.push_back(t);
    }
    if (s == 0 && demand.sinks.empty()) demand.sinks.push_back(1);
    result.demands.push_back(std::move(demand));
  }
  return result;
}

// Checks that flows and prices are valid, but not that they are optimal.
void expect_sound(instance const& what, concurrent_flow_result const& found) {
  auto const n = static_cast<std::size_t>(what.graph.vertex_count);
  std::vector<std::int64_t> load(what.capacity.size(), 0);  // in parts
  for (std::size_t d = 0; d < what.demands.size(); ++d) {
    std::vector<std::int64_t> stays(n, 0);
    for (std::size_t e = 0; e < load.size(); ++e) {
      auto const amount = found.flow[d][e];
      EXPECT_GE(amount, 0);
      stays[static_cast<std::size_t>(what.graph.arcs[e].head)] += amount;
      stays[static_cast<std::size_t>(what.graph.arcs[e].tail)] -= amount;
      load[e] += amount;
    }
    for (int const sink : what.demands[d].sinks) {
      stays[static_cast<std::size_t>(sink)] -= found.per_sink;
      stays[static_cast<std::size_t>(what.demands[d].source)] += found.per_sink;
    }
    for (auto const rest : stays) EXPECT_EQ(rest, 0);
  }
  for (std::size_t e = 0; e < load.size(); ++e) {
    auto const taken = detail::wide_integer{found.rate.numerator()} * load[e];
    auto const room =
        detail::wide_integer{found.rate.denominator()} * found.per_sink * what.capacity[e];
    EXPECT_TRUE(taken <= room) << e;
  }

  std::vector<std::vector<std::optional<rational>>> way(n, std::vector<std::optional<rational>>(n));
  rational bound, cost;
  for (std::size_t e = 0; e < load.size(); ++e) {
    EXPECT_GE(found.prices[e], rational(0));
    bound += found.prices[e] * what.capacity[e];
    if (what.capacity[e] == 0) continue;
    auto& direct = way[static_cast<std::size_t>(what.graph.arcs[e].tail)]
                      [static_cast<std::size_t>(what.graph.arcs[e].head)];
    if (!direct || found.prices[e] < *direct) direct = found.prices[e];
  }
  for (std::size_t k = 0; k < n; ++k) {
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        if (!way[i][k] || !way[k][j]) continue;
        auto const through = *way[i][k] + *way[k][j];
        if (!way[i][j] || through < *way[i][j]) way[i][j] = through;
      }
    }
  }
  for (auto const& demand : what.demands) {
    for (int const sink : demand.sinks) {
      cost += *way[static_cast<std::size_t>(demand.source)][static_cast<std::size_t>(sink)];
    }
  }
  EXPECT_EQ(bound, found.bound);
  EXPECT_EQ(cost, rational(1));
  EXPECT_LE(found.rate, found.bound);
}

// The optimum by a tableau over all simple paths. It maximizes x in exact fractions by the least
// index rule. It shares nothing with the library but `rational`.
rational best_by_paths(instance const& what) {
  struct column {
    std::size_t pair;
    std::vector<std::size_t> edges;
  };
  std::vector<column> columns;
  std::size_t pairs = 0;
  for (auto const& demand : what.demands) {
    for (int const sink : demand.sinks) {
      std::vector<bool> visited(static_cast<std::size_t>(what.graph.vertex_count), false);
      std::vector<std::size_t> edges;
      std::function<void(int)> const walk = [&](int here) {
        if (here == sink) {
          columns.push_back({pairs, edges});
          return;
        }
        visited[static_cast<std::size_t>(here)] = true;
        for (std::size_t e = 0; e < what.graph.arcs.size(); ++e) {
          auto const& a = what.graph.arcs[e];
          if (a.tail != here || visited[static_cast<std::size_t>(a.head)] || what.capacity[e] == 0)
            continue;
          edges.push_back(e);
          walk(a.head);
          edges.pop_back();
        }
        visited[static_cast<std::size_t>(here)] = false;
      };
      walk(demand.source);
      ++pairs;
    }
  }
  // Rows: edges (load <= capacity), pairs (x - sum of its paths <= 0).
  // Columns: paths, x, slacks, right-hand side.
  auto const rows = what.capacity.size() + pairs;
  auto const width = columns.size() + 1 + rows + 1;
  std::vector<std::vector<rational>> table(rows + 1, std::vector<rational>(width));
  auto const x = columns.size();
  for (std::size_t c = 0; c < columns.size(); ++c) {
    for (auto const e : columns[c].edges) table[e][c] = rational(1);
    table[what.capacity.size() + columns[c].pair][c] = rational(-1);
  }
  for (std::size_t r = 0; r < rows; ++r) {
    if (r >= what.capacity.size()) table[r][x] = rational(1);
    table[r][x + 1 + r] = rational(1);
    if (r < what.capacity.size()) table[r][width - 1] = rational(what.capacity[r]);
  }
  table[rows][x] = rational(-1);
  std::vector<std::size_t> basic(rows);
  std::iota(basic.begin(), basic.end(), x + 1);
  for (;;) {
    std::size_t entering = 0;
    while (entering + 1 < width && table[rows][entering] >= rational(0)) ++entering;
    if (entering + 1 == width) return table[rows][width - 1];
    std::size_t leaving = rows;
    rational least;
    for (std::size_t r = 0; r < rows; ++r) {
      if (table[r][entering] <= rational(0)) continue;
      auto const ratio = table[r][width - 1] / table[r][entering];
      if (leaving == rows || ratio < least || (ratio == least && basic[r] < basic[leaving])) {
        leaving = r;
        least = ratio;
      }
    }
    EXPECT_LT(leaving, rows);
    auto const pivot = table[leaving][entering];
    for (auto& v : table[leaving]) v /= pivot;
    for (std::size_t r = 0; r <= rows; ++r) {
      if (r == leaving || table[r][entering] == rational(0)) continue;
      auto const factor = table[r][entering];
      for (std::size_t c = 0; c < width; ++c) {
        if (table[leaving][c] != rational(0)) table[r][c] -= factor * table[leaving][c];
      }
    }
    basic[leaving] = entering;
  }
}

TEST(concurrent_flow, agrees_with_all_paths_on_tiny_graphs) {
  for (unsigned seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(seed);
    int const n = 3 + static_cast<int>(seed % 2);
    auto const what = random_instance(seed, n, static_cast<int>(seed % 5), seed % 3 == 0);
    auto const found = concurrent_flow(what.graph, what.capacity, what.demands);
    expect_sound(what, found);
    EXPECT_EQ(found.rate, found.bound);
    EXPECT_EQ(found.rate, best_by_paths(what));
  }
}

TEST(concurrent_flow, proves_its_optimum_on_random_graphs) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    auto const what = random_instance(seed, 5 + static_cast<int>(seed % 6),
                                      5 + static_cast<int>(seed % 17), seed % 2 == 0);
    auto const found = concurrent_flow(what.graph, what.capacity, what.demands);
    expect_sound(what, found);
    EXPECT_EQ(found.rate, found.bound) << found.rate.to_text() << " " << found.bound.to_text();
  }
}

TEST(concurrent_flow, every_method_is_sound) {
  // The same graphs, with limits that allow only trees, only the interior-point method or only the
  // descent.
  for (unsigned seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    auto const what = random_instance(seed, 9, 12, seed % 2 == 0);
    auto const exact = concurrent_flow(what.graph, what.capacity, what.demands);
    concurrent_flow_options trees;
    trees.few_pairs = trees.max_exact_pairs = 0;
    auto const by_trees = concurrent_flow(what.graph, what.capacity, what.demands, trees);
    expect_sound(what, by_trees);
    EXPECT_EQ(by_trees.bound, exact.bound);
    EXPECT_GE(by_trees.rate * rational(100'001, 100'000), exact.rate);
    concurrent_flow_options interior;
    interior.few_pairs = interior.few_rows = interior.max_exact_rows = interior.routing_rounds = 0;
    auto const by_interior = concurrent_flow(what.graph, what.capacity, what.demands, interior);
    expect_sound(what, by_interior);
    EXPECT_GE(by_interior.rate.to_double() * (1 + 1e-6), exact.rate.to_double());
    EXPECT_LE(by_interior.bound.to_double(), exact.rate.to_double() * (1 + 1e-6));
    auto descent = interior;
    descent.interior_work = 0;
    auto const by_descent = concurrent_flow(what.graph, what.capacity, what.demands, descent);
    expect_sound(what, by_descent);
    EXPECT_GE(by_descent.rate * rational(101, 100), by_descent.bound);
    EXPECT_GE(by_descent.bound, exact.rate);
  }
}

TEST(concurrent_flow, the_descent_comes_within_a_hundredth_and_the_interior_within_a_millionth) {
  for (int const n : {32, 48, 64}) {
    SCOPED_TRACE(n);
    auto const what = random_instance(static_cast<unsigned>(n), n, 4 * n, true);
    concurrent_flow_options descent;
    auto const optimal = concurrent_flow(what.graph, what.capacity, what.demands);
    expect_sound(what, optimal);
    EXPECT_GE(optimal.rate.to_double() * (1 + 1e-6), optimal.bound.to_double());
    descent.few_pairs = descent.few_rows = descent.max_exact_rows = descent.routing_rounds = 0;
    descent.interior_work = 0;
    auto const found = concurrent_flow(what.graph, what.capacity, what.demands, descent);
    expect_sound(what, found);
    EXPECT_GE(found.rate * rational(101, 100), found.bound);
  }
}

TEST(concurrent_flow, the_interior_passes_dead_ends_and_one_way_parts) {
  // Vertices that lead nowhere or that nothing reaches, and capacities of one to six digits.
  concurrent_flow_options interior;
  interior.few_pairs = interior.few_rows = interior.max_exact_rows = interior.routing_rounds = 0;
  interior.max_exact_pairs = 0;
  int by_interior = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    auto what = random_instance(seed, 8, 10, seed % 2 == 0);
    std::mt19937 random(seed);
    std::int64_t most = 1;
    for (unsigned digits = 0; digits < 1 + seed % 6; ++digits) most *= 10;
    for (auto& c : what.capacity) {
      if (c > 0) c = 1 + static_cast<std::int64_t>(random()) % most;
    }
    what.graph.vertex_count += 3;
    for (auto const& [tail, head] : {arc{0, 8}, arc{8, 8}, arc{9, 1}, arc{9, 10}, arc{10, 9}}) {
      what.graph.arcs.push_back({tail, head});
      what.capacity.push_back(most);
    }
    auto const exact = concurrent_flow(what.graph, what.capacity, what.demands);
    auto const found = concurrent_flow(what.graph, what.capacity, what.demands, interior);
    expect_sound(what, found);
    EXPECT_GE(found.rate.to_double() * (1 + 1e-6), exact.rate.to_double()) << found.found_by;
    EXPECT_LE(found.bound.to_double(), exact.bound.to_double() * (1 + 1e-6));
    by_interior += found.found_by == "interior" ? 1 : 0;
  }
  EXPECT_GT(by_interior, 20);
}

TEST(concurrent_flow, extreme_capacities) {
  // A wide path with one narrow edge, and then extreme ratios.
  arc_list const path{3, {{0, 1}, {1, 2}}};
  auto found =
      concurrent_flow(path, std::vector<std::int64_t>{1'000'000'000, 1}, {{0, {1, 2}}, {1, {2}}});
  EXPECT_EQ(found.rate, rational(1, 2));
  EXPECT_EQ(found.bound, found.rate);
  std::vector<std::int64_t> const huge{std::int64_t{1} << 60, std::int64_t{1} << 60};
  found = concurrent_flow(path, huge, {{0, {1}}, {1, {2}}});
  EXPECT_EQ(found.rate, rational(std::int64_t{1} << 60));
  std::vector<std::int64_t> const odd{(std::int64_t{1} << 60) + 1, (std::int64_t{1} << 60) - 1};
  found = concurrent_flow(path, odd, {{0, {1, 2}}, {1, {2}}});
  EXPECT_EQ(found.rate, rational((std::int64_t{1} << 60) - 1, 2));
  EXPECT_EQ(found.bound, found.rate);
}

TEST(concurrent_flow, refuses_what_it_cannot_do) {
  arc_list const path{3, {{0, 1}, {1, 2}}};
  std::vector<std::int64_t> const one{1, 1}, shut{1, 0};
  EXPECT_THROW((void)concurrent_flow(path, one, {}), precondition_error);
  EXPECT_THROW((void)concurrent_flow(path, one, {{0, {0}}}), precondition_error);
  EXPECT_THROW((void)concurrent_flow(path, one, {{0, {1, 1}}}), precondition_error);
  EXPECT_THROW((void)concurrent_flow(path, one, {{0, {3}}}), precondition_error);
  EXPECT_THROW((void)concurrent_flow(path, one, {{2, {0}}}), planning_error);
  EXPECT_THROW((void)concurrent_flow(path, shut, {{0, {2}}}), planning_error);
}

}}  // namespace concurrent_flow_test
