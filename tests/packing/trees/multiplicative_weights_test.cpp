// SPDX-License-Identifier: Apache-2.0
#include <blink/packing/trees/multiplicative_weights.hpp>

#include <gtest/gtest.h>
#include <support/all_trees.hpp>
#include <support/brute_force.hpp>
#include <support/dgx1_classes.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <span>
#include <vector>

// Test folders may be compiled as one source.
namespace multiplicative_weights_test { namespace {

using namespace blink;
using namespace blink::test;

/// Checks the weights and loads. `is_tree` checks each tree.
template <class IsTree, class Capacity>
void check_packing(arc_list const& graph, std::vector<Capacity> const& capacities,
                   packing_solution const& result, IsTree is_tree) {
  std::vector<double> load(graph.arcs.size(), 0);
  double sum = 0;
  std::set<std::vector<int>> distinct;
  for (auto const& tree : result.trees) {
    EXPECT_GT(tree.weight, 0);
    ASSERT_TRUE(is_tree(tree.edges));
    EXPECT_TRUE(std::ranges::is_sorted(tree.edges));
    EXPECT_TRUE(distinct.insert(tree.edges).second) << "the same tree twice";
    for (int const e : tree.edges) load[static_cast<std::size_t>(e)] += tree.weight;
    sum += tree.weight;
  }
  EXPECT_NEAR(sum, result.rate, 1e-9 * sum);
  for (std::size_t e = 0; e < load.size(); ++e) {
    EXPECT_LE(load[e], static_cast<double>(capacities[e]) * (1 + 1e-9));
  }
  EXPECT_NEAR(result.gap, result.bound / result.rate - 1, 1e-9);
  EXPECT_GE(result.gap, -1e-9);
  // The prices prove the bound.
  ASSERT_EQ(result.prices.size(), graph.arcs.size());
  double value = 0;
  for (std::size_t e = 0; e < load.size(); ++e) {
    EXPECT_GE(result.prices[e], 0);
    value += result.prices[e] * static_cast<double>(capacities[e]);
  }
  EXPECT_NEAR(value, result.bound, 1e-9 * result.bound);
}

TEST(multiplicative_weights, packs_arborescences_of_random_graphs) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    int const n = 2 + static_cast<int>(seed % 4);
    arc_list const graph = random_arcs(random, n, n + static_cast<int>(seed % 7), true);
    std::vector<int> capacities;
    capacity_matrix matrix(static_cast<std::size_t>(n),
                           std::vector<std::int64_t>(static_cast<std::size_t>(n)));
    for (auto const& a : graph.arcs) {
      // The path that makes all vertices reachable comes first and always has capacity.
      int const least = static_cast<int>(capacities.size()) < n - 1 ? 1 : 0;
      capacities.push_back(std::uniform_int_distribution<int>(least, 9)(random));
      if (a.tail == a.head) continue;
      matrix[static_cast<std::size_t>(a.tail)][static_cast<std::size_t>(a.head)] +=
          capacities.back();
    }
    auto const result = pack_arborescences_approximately(graph, 0, capacities, {.epsilon = 0.1});
    check_packing(graph, capacities, result,
                  [&](auto const& t) { return is_arborescence(graph, 0, t); });
    double const optimum = best_broadcast(matrix, 0).to_double();
    EXPECT_LE(result.rate, optimum * (1 + 1e-9));
    EXPECT_GE(result.bound, optimum * (1 - 1e-9));
    EXPECT_GE(result.rate, 0.9 * optimum);
    for_each_arborescence(graph, 0, [&](std::vector<int> const& tree) {
      double cost = 0;
      for (int const e : tree) {
        if (capacities[static_cast<std::size_t>(e)] == 0) return;
        cost += result.prices[static_cast<std::size_t>(e)];
      }
      EXPECT_GE(cost, 1 - 1e-9);
    });
  }
}

TEST(multiplicative_weights, packs_spanning_trees_of_random_graphs) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    int const n = 2 + static_cast<int>(seed % 5);
    arc_list const graph = random_arcs(random, n, n + static_cast<int>(seed % 5), true);
    std::vector<double> capacities;
    capacity_matrix matrix(static_cast<std::size_t>(n),
                           std::vector<std::int64_t>(static_cast<std::size_t>(n)));
    for (auto const& a : graph.arcs) {
      int const capacity = std::uniform_int_distribution<int>(1, 7)(random);
      capacities.push_back(capacity);
      if (a.tail == a.head) continue;
      matrix[static_cast<std::size_t>(a.tail)][static_cast<std::size_t>(a.head)] += capacity;
      matrix[static_cast<std::size_t>(a.head)][static_cast<std::size_t>(a.tail)] += capacity;
    }
    auto const result = pack_spanning_trees_approximately(graph, capacities, {.epsilon = 0.1});
    check_packing(graph, capacities, result,
                  [&](auto const& t) { return is_spanning_tree(graph, t); });
    double const optimum = best_symmetric_all_reduce(matrix).to_double();
    EXPECT_LE(result.rate, optimum * (1 + 1e-9));
    EXPECT_GE(result.bound, optimum * (1 - 1e-9));
    EXPECT_GE(result.rate, 0.9 * optimum);
    for_each_spanning_tree(graph, [&](std::vector<int> const& tree) {
      double cost = 0;
      for (int const e : tree) cost += result.prices[static_cast<std::size_t>(e)];
      EXPECT_GE(cost, 1 - 1e-9);
    });
  }
}

// Garg and Koenemann's stopping rule gives about these numbers of calls on a DGX-1V. The rates
// follow from the true congestion.
TEST(multiplicative_weights, full_dgx1) {
  matrix_graph const machine(dgx1v_matrix(1), true);
  struct row {
    double epsilon, calls, rate;
  };
  for (auto const& [epsilon, calls, rate] :
       {row{0.5, 53, 5.42}, row{0.3, 187, 5.84}, row{0.2, 453, 5.92}, row{0.1, 1887, 5.973}}) {
    auto const result = pack_arborescences_approximately(machine.graph, 0, machine.capacities,
                                                         {.epsilon = epsilon});
    check_packing(machine.graph, machine.capacities, result,
                  [&](auto const& t) { return is_arborescence(machine.graph, 0, t); });
    EXPECT_NEAR(static_cast<double>(result.iterations), calls, 0.05 * calls);
    EXPECT_GE(result.rate, rate);
    EXPECT_LE(result.rate, 6 + 1e-9);
    EXPECT_EQ(result.stopped_because, packing_stop::prices_grown);
  }
  matrix_graph const both(dgx1v_matrix(1), false);
  auto const reduced =
      pack_spanning_trees_approximately(both.graph, both.capacities, {.epsilon = 0.05});
  EXPECT_NEAR(reduced.rate, 24.0 / 7, 0.02);
  EXPECT_NEAR(reduced.bound, 24.0 / 7, 0.02);
}

TEST(multiplicative_weights, ends_at_the_gap_or_the_iteration_limit) {
  matrix_graph const machine(dgx1v_matrix(25), true);
  auto const wide = pack_arborescences_approximately(machine.graph, 0, machine.capacities,
                                                     {.epsilon = 0.1, .gap = 0.05});
  EXPECT_EQ(wide.stopped_because, packing_stop::gap_reached);
  EXPECT_LE(wide.gap, 0.05);
  auto const cut_off = pack_arborescences_approximately(machine.graph, 0, machine.capacities,
                                                        {.epsilon = 0.1, .max_iterations = 10});
  EXPECT_EQ(cut_off.stopped_because, packing_stop::iteration_limit);
  EXPECT_EQ(cut_off.iterations, 10U);
  check_packing(machine.graph, machine.capacities, cut_off,
                [&](auto const& t) { return is_arborescence(machine.graph, 0, t); });
}

// Prices grow by a factor beyond the range of double, so the algorithm rescales them.
TEST(multiplicative_weights, small_steps_stay_in_range) {
  arc_list const triangle{3, {{0, 1}, {1, 2}, {2, 0}}};
  std::vector<int> const capacities{1, 1, 1};
  auto const result =
      pack_spanning_trees_approximately(triangle, capacities, {.epsilon = 0.001, .gap = -1});
  EXPECT_EQ(result.stopped_because, packing_stop::prices_grown);
  EXPECT_GT(result.iterations, 300'000U);  // each iteration raises the sum by about 2/3 of epsilon
  EXPECT_NEAR(result.rate, 1.5, 1e-4);
  EXPECT_NEAR(result.bound, 1.5, 1e-4);
}

TEST(multiplicative_weights, equal_inputs_give_equal_packings) {
  matrix_graph const machine(dgx1p_matrix(1), true);
  auto const a = pack_arborescences_approximately(machine.graph, 3, machine.capacities);
  auto const b = pack_arborescences_approximately(machine.graph, 3, machine.capacities);
  ASSERT_EQ(a.trees.size(), b.trees.size());
  for (std::size_t t = 0; t < a.trees.size(); ++t) {
    EXPECT_EQ(a.trees[t].weight, b.trees[t].weight);
    EXPECT_EQ(a.trees[t].edges, b.trees[t].edges);
  }
}

// Any oracle works; this one returns the cheaper of two paths.
TEST(multiplicative_weights, takes_an_oracle_of_its_caller) {
  std::vector<int> const first{0, 1}, second{2};
  auto const cheapest = [&](std::span<double const> price) -> std::span<int const> {
    return price[0] + price[1] < price[2] ? first : second;
  };
  auto const result =
      multiplicative_weights(cheapest, std::vector<double>{3, 2, 5}, {.epsilon = 0.02});
  EXPECT_NEAR(result.rate, 7, 0.07);
  EXPECT_NEAR(result.bound, 7, 0.07);
  EXPECT_EQ(result.trees.size(), 2U);
}

TEST(multiplicative_weights, says_what_is_wrong) {
  arc_list const path{3, {{0, 1}, {1, 2}}};
  std::vector<int> const capacities{1, 1};
  EXPECT_THROW((void)pack_arborescences_approximately(path, 0, capacities, {.epsilon = 0}),
               precondition_error);
  EXPECT_THROW((void)pack_arborescences_approximately(path, 0, capacities, {.epsilon = 1}),
               precondition_error);
  EXPECT_THROW((void)pack_arborescences_approximately(path, 0, std::vector<int>{1, 0}),
               planning_error);
  EXPECT_THROW((void)pack_arborescences_approximately(path, 1, capacities), planning_error);
  EXPECT_THROW((void)pack_arborescences_approximately(path, 0, std::vector<int>{1}),
               precondition_error);
  EXPECT_THROW((void)pack_spanning_trees_approximately(path, std::vector<int>{1, -1}), error);
  EXPECT_THROW((void)pack_spanning_trees_approximately(arc_list{1, {}}, std::vector<int>{}),
               precondition_error);
}

}}  // namespace multiplicative_weights_test
