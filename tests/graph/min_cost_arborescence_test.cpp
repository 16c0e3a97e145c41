// SPDX-License-Identifier: Apache-2.0
#include <blink/core/rational.hpp>
#include <blink/graph/min_cost_arborescence.hpp>

#include <gtest/gtest.h>
#include <support/all_trees.hpp>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

// Test folders may be compiled as one source.
namespace min_cost_arborescence_test { namespace {

using namespace blink;
using blink::test::for_each_arborescence;
using blink::test::is_arborescence;
using blink::test::random_arcs;

template <class Number>
double as_double(Number const& x) {
  if constexpr (std::is_same_v<Number, rational>) {
    return x.to_double();
  } else {
    return static_cast<double>(x);
  }
}

/// Costs ordered first by a price, then by a number of hops.
struct price_then_hops {
  std::int64_t price = 0;
  std::int64_t hops = 0;
  friend price_then_hops operator+(price_then_hops a, price_then_hops b) {
    return {a.price + b.price, a.hops + b.hops};
  }
  friend price_then_hops operator-(price_then_hops a, price_then_hops b) {
    return {a.price - b.price, a.hops - b.hops};
  }
  friend auto operator<=>(price_then_hops const&, price_then_hops const&) = default;
};

/// Checks that the duals are laminar and feasible and sum to the cost. `slack` allows for rounding.
template <class Cost>
void check_certificate(arc_list const& graph, int root, std::vector<Cost> const& costs,
                       min_cost_arborescence_result<Cost> const& result, double slack) {
  ASSERT_TRUE(is_arborescence(graph, root, result.edges));
  double sum = 0;
  for (int const e : result.edges) sum += as_double(costs[static_cast<std::size_t>(e)]);
  EXPECT_NEAR(sum, as_double(result.cost), slack);
  double dual = 0;
  std::vector<std::vector<bool>> in_set;
  for (auto const& set : result.duals) {
    dual += as_double(set.value);
    ASSERT_FALSE(set.vertices.empty());
    if (set.vertices.size() > 1) {
      EXPECT_GE(as_double(set.value), 0);
    }
    auto& members = in_set.emplace_back(static_cast<std::size_t>(graph.vertex_count));
    for (int const v : set.vertices) members[static_cast<std::size_t>(v)] = true;
    EXPECT_FALSE(members[static_cast<std::size_t>(root)]);
  }
  EXPECT_NEAR(dual, as_double(result.cost), slack);
  EXPECT_LE(static_cast<int>(result.duals.size()), std::max(0, 2 * graph.vertex_count - 3));
  for (std::size_t e = 0; e < graph.arcs.size(); ++e) {
    auto const tail = static_cast<std::size_t>(graph.arcs[e].tail);
    auto const head = static_cast<std::size_t>(graph.arcs[e].head);
    // no arborescence uses it
    if (head == static_cast<std::size_t>(root) || tail == head) continue;
    double entered = 0;
    for (std::size_t s = 0; s < in_set.size(); ++s) {
      if (in_set[s][head] && !in_set[s][tail]) entered += as_double(result.duals[s].value);
    }
    EXPECT_LE(entered, as_double(costs[e]) + slack);
  }
  for (std::size_t a = 0; a < in_set.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      bool both = false, only_a = false, only_b = false;
      for (std::size_t v = 0; v < in_set[a].size(); ++v) {
        both |= in_set[a][v] && in_set[b][v];
        only_a |= in_set[a][v] && !in_set[b][v];
        only_b |= !in_set[a][v] && in_set[b][v];
      }
      EXPECT_FALSE(both && only_a && only_b) << "sets cross";
    }
  }
}

template <class Cost>
Cost random_cost(std::mt19937& random, int least, int most) {
  int const value = std::uniform_int_distribution<int>(least, most)(random);
  if constexpr (std::is_same_v<Cost, rational>) {
    return rational(value, std::uniform_int_distribution<int>(1, 6)(random));
  } else {
    return static_cast<Cost>(value);
  }
}

template <class Cost>
class MinCostArborescence : public testing::Test {};
using cost_types = testing::Types<std::int64_t, int, double, rational>;
TYPED_TEST_SUITE(MinCostArborescence, cost_types);

TYPED_TEST(MinCostArborescence, equals_the_best_of_all_arborescences) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    int const n = 1 + static_cast<int>(seed % 5);
    arc_list const graph = random_arcs(random, n, n + static_cast<int>(seed % 9), true);
    std::vector<TypeParam> costs;
    for (std::size_t e = 0; e < graph.arcs.size(); ++e) {
      costs.push_back(random_cost<TypeParam>(random, seed % 3 == 0 ? -5 : 0, seed % 2 ? 3 : 20));
    }
    auto const result = min_cost_arborescence(graph, 0, costs);
    check_certificate(graph, 0, costs, result, 1e-9);
    std::optional<double> best;
    for_each_arborescence(graph, 0, [&](std::vector<int> const& tree) {
      double sum = 0;
      for (int const e : tree) sum += as_double(costs[static_cast<std::size_t>(e)]);
      best = std::min(best.value_or(sum), sum);
    });
    ASSERT_TRUE(best.has_value());
    EXPECT_NEAR(as_double(result.cost), *best, 1e-9);
  }
}

TYPED_TEST(MinCostArborescence, proves_itself_on_larger_graphs) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    int const n = 10 + static_cast<int>(seed) * 3;
    arc_list const graph = random_arcs(random, n, 5 * n, true);
    std::vector<TypeParam> costs;
    for (std::size_t e = 0; e < graph.arcs.size(); ++e) {
      costs.push_back(random_cost<TypeParam>(random, 0, seed % 2 ? 4 : 60));
    }
    check_certificate(graph, 0, costs, min_cost_arborescence(graph, 0, costs), 1e-7);
  }
}

// Nested cycles: every vertex of a chain of pairs prefers the edge from its neighbour to the edge
// from outside.
TEST(min_cost_arborescence_cases, nested_cycles) {
  int const n = 33;
  arc_list graph{n, {}};
  std::vector<std::int64_t> costs;
  auto const add = [&](int tail, int head, std::int64_t cost) {
    graph.arcs.push_back({tail, head});
    costs.push_back(cost);
  };
  for (int v = 1; v < n; ++v) add(0, v, 1000 + v);
  for (int v = 1; v + 1 < n; ++v) {
    add(v, v + 1, v);
    add(v + 1, v, v);
  }
  auto const result = min_cost_arborescence(graph, 0, costs);
  EXPECT_EQ(result.cost, 1001 + 31 * 32 / 2);
  EXPECT_GT(result.duals.size(), 33U);
}

TEST(min_cost_arborescence_cases, a_second_key_decides_between_equal_costs) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    arc_list const graph = random_arcs(random, 5, 13, true);
    std::vector<price_then_hops> costs;
    for (std::size_t e = 0; e < graph.arcs.size(); ++e) {
      costs.push_back(
          {random_cost<std::int64_t>(random, 0, 2), random_cost<std::int64_t>(random, 0, 9)});
    }
    auto const result = min_cost_arborescence(graph, 0, costs);
    std::optional<price_then_hops> best;
    for_each_arborescence(graph, 0, [&](std::vector<int> const& tree) {
      price_then_hops sum;
      for (int const e : tree) sum = sum + costs[static_cast<std::size_t>(e)];
      best = std::min(best.value_or(sum), sum);
    });
    EXPECT_EQ(result.cost, best);
  }
}

TEST(min_cost_arborescence_cases, equal_costs_give_a_shallow_tree) {
  arc_list graph{16, {}};
  for (int v = 1; v < 16; ++v) {
    for (int u = 15; u >= 0; --u) {
      if (u != v) graph.arcs.push_back({u, v});
    }
  }
  auto const result = min_cost_arborescence(graph, 0, std::vector<double>(graph.arcs.size(), 1.0));
  for (int const e : result.edges) EXPECT_EQ(graph.arcs[static_cast<std::size_t>(e)].tail, 0);
}

TEST(min_cost_arborescence_cases, one_search_serves_many_costs) {
  std::mt19937 random(1);
  arc_list const graph = random_arcs(random, 12, 60, true);
  detail::arborescence_search<std::int64_t> search(graph, 0);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::int64_t> costs;
    for (std::size_t e = 0; e < graph.arcs.size(); ++e) {
      costs.push_back(random_cost<std::int64_t>(random, 0, 12));
    }
    auto const again = search.solve(costs);
    auto const fresh = min_cost_arborescence(graph, 0, costs);
    EXPECT_EQ(std::vector<int>(again.begin(), again.end()), fresh.edges);
  }
}

TEST(min_cost_arborescence_cases, says_what_is_wrong) {
  arc_list const graph{4, {{0, 1}, {1, 0}, {2, 3}, {3, 2}, {2, 1}}};
  std::vector<int> const costs(5, 1);
  try {
    (void)min_cost_arborescence(graph, 0, costs);
    FAIL() << "vertex 2 cannot be reached";
  } catch (planning_error const& failure) {
    EXPECT_NE(std::string(failure.what()).find("vertex 2"), std::string::npos) << failure.what();
  }
  EXPECT_THROW((void)min_cost_arborescence(graph, 4, costs), precondition_error);
  EXPECT_THROW((void)min_cost_arborescence(graph, 0, std::vector<int>(4, 1)), precondition_error);
  EXPECT_EQ(min_cost_arborescence(arc_list{1, {{0, 0}}}, 0, std::vector<int>{-1}).cost, 0);
}

}}  // namespace min_cost_arborescence_test
