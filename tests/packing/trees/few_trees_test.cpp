// SPDX-License-Identifier: Apache-2.0
#include <blink/packing/trees/few_trees.hpp>
#include <blink/packing/trees/multiplicative_weights.hpp>

#include <gtest/gtest.h>
#include <support/all_trees.hpp>
#include <support/brute_force.hpp>
#include <support/dgx1_classes.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iomanip>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <vector>

// Test folders may be compiled as one source.
namespace few_trees_test { namespace {

using namespace blink;
using namespace blink::test;

/// Finds candidates by multiplicative weights, then chooses few of them.
template <class Oracle>
few_trees_result few_of(Oracle oracle, std::vector<std::int64_t> const& capacities, rational bound,
                        few_trees_options const& options = {}) {
  auto const packing = multiplicative_weights(oracle, capacities, {.epsilon = 0.1, .gap = 0.01});
  std::vector<std::vector<int>> candidates;
  for (auto const& tree : packing.trees) candidates.push_back(tree.edges);
  return few_trees(oracle, candidates, capacities, bound.to_double(), packing.prices, options);
}

template <class IsTree>
void check_few(few_trees_result const& result, std::vector<std::int64_t> const& capacities,
               IsTree is_tree) {
  std::vector<rational> load(capacities.size());
  rational sum;
  std::set<std::vector<int>> distinct;
  for (auto const& tree : result.trees) {
    ASSERT_TRUE(is_tree(tree.edges));
    EXPECT_LT(rational(0), tree.weight);
    EXPECT_EQ((tree.weight / result.unit).denominator(), 1) << tree.weight.to_text();
    EXPECT_TRUE(distinct.insert(tree.edges).second);
    for (int const e : tree.edges) load[static_cast<std::size_t>(e)] += tree.weight;
    sum += tree.weight;
  }
  EXPECT_EQ(sum, result.rate);
  for (std::size_t e = 0; e < load.size(); ++e) EXPECT_LE(load[e], rational(capacities[e]));
}

TEST(few_trees, every_dgx1_class_is_within_five_percent) {
  std::map<std::size_t, int> broadcast_trees, all_reduce_trees;
  for (auto const& [name, matrix] : dgx1_classes()) {
    SCOPED_TRACE(name);
    matrix_graph const directed(matrix, true);
    auto const best_root = best_broadcast_root(matrix);
    for (std::size_t root = 0; root < matrix.size(); ++root) {
      SCOPED_TRACE(root);
      auto const at = static_cast<int>(root);
      auto const spread = few_of(arborescence_oracle(directed.graph, at, directed.capacities),
                                 directed.capacities, best_broadcast(matrix, root));
      check_few(spread, directed.capacities,
                [&](auto const& t) { return is_arborescence(directed.graph, at, t); });
      EXPECT_TRUE(spread.reached);
      EXPECT_EQ(spread.rate, best_broadcast(matrix, root));
      EXPECT_EQ(spread.unit.denominator(), 1);  // integer multiplicities suffice (Edmonds 1973)
      if (root == best_root) ++broadcast_trees[spread.trees.size()];
    }

    auto const both_optimum = best_symmetric_all_reduce(matrix);
    matrix_graph const both(matrix, false);
    auto const reduced =
        few_of(spanning_tree_oracle(both.graph, both.capacities), both.capacities, both_optimum);
    check_few(reduced, both.capacities,
              [&](auto const& t) { return is_spanning_tree(both.graph, t); });
    EXPECT_TRUE(reduced.reached);
    EXPECT_LE(rational(19, 20) * both_optimum, reduced.rate);
    EXPECT_LE(reduced.rate, both_optimum);
    EXPECT_LE(reduced.trees.size(), 6U);
    ++all_reduce_trees[reduced.trees.size()];
  }
  EXPECT_EQ(dgx1_classes().size(), 60U);
  std::cout << "trees   classes with so many: broadcast  all-reduce\n";
  for (std::size_t count = 1; count <= 8; ++count) {
    std::cout << std::setw(5) << count << std::setw(34) << broadcast_trees[count] << std::setw(12)
              << all_reduce_trees[count] << '\n';
  }
}

TEST(few_trees, full_dgx1) {
  auto const volta = dgx1v_matrix(1);
  matrix_graph const directed(volta, true);
  for (int root = 0; root < 8; ++root) {
    SCOPED_TRACE(root);
    arborescence_oracle const oracle(directed.graph, root, directed.capacities);
    auto const result = few_of(oracle, directed.capacities, rational(6));
    EXPECT_EQ(result.rate, rational(6));
    EXPECT_EQ(result.trees.size(), 6U);
    EXPECT_TRUE(result.proven_fewest);
    // If a tree over doubled links may be used twice, fewer trees suffice.
    auto const any = few_of(oracle, directed.capacities, rational(6), {.each_once_first = false});
    EXPECT_EQ(any.rate, rational(6));
    EXPECT_LT(any.trees.size(), 6U);
  }
  matrix_graph const both(volta, false);
  auto const reduced =
      few_of(spanning_tree_oracle(both.graph, both.capacities), both.capacities, rational(24, 7));
  EXPECT_EQ(reduced.unit, rational(1, 3));  // integers reach 3, and halves no more
  EXPECT_LE(rational(10, 3), reduced.rate);
  matrix_graph const pascal(dgx1p_matrix(1), true);
  auto const four = few_of(arborescence_oracle(pascal.graph, 0, pascal.capacities),
                           pascal.capacities, rational(4));
  EXPECT_EQ(four.rate, rational(4));
  EXPECT_EQ(four.trees.size(), 4U);
}

/// The fewest of `trees`, with integer weights that sum to `wanted`, found by enumeration.
std::size_t fewest_by_brute_force(std::vector<std::vector<int>> const& trees,
                                  std::vector<std::int64_t> room, std::int64_t wanted) {
  std::size_t best = trees.size() + 1;
  std::function<void(std::size_t, std::size_t, std::int64_t)> const go =
      [&](std::size_t t, std::size_t used, std::int64_t missing) {
        if (missing <= 0) best = std::min(best, used);
        if (missing <= 0 || t == trees.size()) return;
        go(t + 1, used, missing);
        std::int64_t most = missing;
        for (int const e : trees[t]) most = std::min(most, room[static_cast<std::size_t>(e)]);
        for (std::int64_t times = 1; times <= most; ++times) {
          for (int const e : trees[t]) room[static_cast<std::size_t>(e)] -= times;
          go(t + 1, used + 1, missing - times);
          for (int const e : trees[t]) room[static_cast<std::size_t>(e)] += times;
        }
      };
  go(0, 0, wanted);
  return best;
}

/// A small random graph with all its arborescences from vertex 0, and the optimum by Edmonds' cut.
struct small_case {
  arc_list graph;
  std::vector<std::int64_t> capacities{};
  rational optimum{};
  std::vector<std::vector<int>> all{};

  small_case(std::mt19937& random, int n, int arcs, int largest)
      : graph(random_arcs(random, n, arcs, true)) {
    auto const size = static_cast<std::size_t>(n);
    capacity_matrix matrix(size, std::vector<std::int64_t>(size));
    for (auto const& a : graph.arcs) {
      capacities.push_back(std::uniform_int_distribution<int>(1, largest)(random));
      if (a.tail == a.head) continue;
      matrix[static_cast<std::size_t>(a.tail)][static_cast<std::size_t>(a.head)] +=
          capacities.back();
    }
    optimum = best_broadcast(matrix, 0);
    for_each_arborescence(graph, 0, [&](std::vector<int> const& t) { all.push_back(t); });
  }
  [[nodiscard]] few_trees_result few(few_trees_options const& options) const {
    auto result =
        few_trees(arborescence_oracle(graph, 0, capacities), all, capacities, optimum.to_double(),
                  std::vector<double>(capacities.size(), 1.0), options);
    check_few(result, capacities, [&](auto const& t) { return is_arborescence(graph, 0, t); });
    return result;
  }
};

// With every tree as a candidate, the integer optimum is known by Edmonds' cut. Enumeration of all
// selections gives the least number of trees.
TEST(few_trees, fewest_of_all_trees_on_small_graphs) {
  int compared = 0;
  for (unsigned seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    int const n = 3 + static_cast<int>(seed % 2);
    small_case const small(random, n, n + 2 + static_cast<int>(seed % 3), 3);
    if (small.all.size() > 12) continue;
    ++compared;
    auto const result = small.few({.fraction = 1,
                                   .each_once_first = false,
                                   .node_limit = 1'000'000,
                                   .completion_rounds = seed % 2});
    EXPECT_TRUE(result.reached);
    EXPECT_TRUE(result.proven_fewest);
    EXPECT_EQ(result.rate, small.optimum);
    EXPECT_EQ(result.trees.size(),
              fewest_by_brute_force(small.all, small.capacities, small.optimum.numerator()));
  }
  EXPECT_GT(compared, 40);
}

// A search that stops early may find more trees than needed. It must not call them the fewest.
TEST(few_trees, says_proven_only_of_the_fewest) {
  int proven = 0, too_many = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    small_case const small(random, 4, 7 + static_cast<int>(seed % 3), 4);
    if (small.all.size() > 12) continue;
    auto const result = small.few(
        {.fraction = 1, .each_once_first = false, .node_limit = seed % 12, .completion_rounds = 1});
    if (!result.reached) {
      EXPECT_FALSE(result.proven_fewest);
      continue;
    }
    auto const fewest =
        fewest_by_brute_force(small.all, small.capacities, small.optimum.numerator());
    if (result.proven_fewest) {
      ++proven;
      EXPECT_EQ(result.trees.size(), fewest);
    }
    too_many += result.trees.size() > fewest ? 1 : 0;
  }
  EXPECT_GT(proven, 10);
  EXPECT_GT(too_many, 10);
}

TEST(few_trees, fractions_of_the_unit) {
  // A triangle contains 3/2 undirected trees, each with weight one half.
  arc_list const triangle{3, {{0, 1}, {1, 2}, {2, 0}}};
  std::vector<std::int64_t> const ones{1, 1, 1};
  auto const halves = few_of(spanning_tree_oracle(triangle, ones), ones, rational(3, 2));
  EXPECT_EQ(halves.unit, rational(1, 2));
  EXPECT_EQ(halves.rate, rational(3, 2));
  EXPECT_EQ(halves.trees.size(), 3U);
  // With integer weights only, the best selection is one tree, which is reported as insufficient.
  auto const whole = few_of(spanning_tree_oracle(triangle, ones), ones, rational(3, 2),
                            {.largest_denominator = 1});
  EXPECT_FALSE(whole.reached);
  EXPECT_EQ(whole.rate, rational(1));
  EXPECT_FALSE(whole.proven_fewest);
  // With equal links, the unit is the capacity of a link.
  std::vector<std::int64_t> const rates{25, 25, 25};
  auto const physical = few_of(spanning_tree_oracle(triangle, rates), rates, rational(75, 2));
  EXPECT_EQ(physical.unit, rational(25, 2));
  EXPECT_EQ(physical.rate, rational(75, 2));
}

// Measured rates have no large common divisor, but the trees are still few.
TEST(few_trees, measured_rates) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto matrix = dgx1v_matrix(1);
    for (auto& row : matrix) {
      for (auto& entry : row) entry *= std::uniform_int_distribution<int>(22'700, 22'999)(random);
    }
    matrix_graph const machine(matrix, true);
    auto const optimum = best_broadcast(matrix, 0);
    auto const result = few_of(arborescence_oracle(machine.graph, 0, machine.capacities),
                               machine.capacities, optimum);
    check_few(result, machine.capacities,
              [&](auto const& t) { return is_arborescence(machine.graph, 0, t); });
    EXPECT_TRUE(result.reached);
    EXPECT_LE(rational(19, 20) * optimum, result.rate);
    EXPECT_LE(result.trees.size(), 6U);
  }
}

TEST(few_trees, equal_inputs_give_equal_trees) {
  matrix_graph const both(dgx1v_matrix(1), false);
  spanning_tree_oracle const oracle(both.graph, both.capacities);
  auto const a = few_of(oracle, both.capacities, rational(24, 7));
  auto const b = few_of(oracle, both.capacities, rational(24, 7));
  ASSERT_EQ(a.trees.size(), b.trees.size());
  for (std::size_t t = 0; t < a.trees.size(); ++t) EXPECT_EQ(a.trees[t].edges, b.trees[t].edges);
}

TEST(few_trees, says_what_is_wrong) {
  arc_list const path{2, {{0, 1}}};
  std::vector<std::int64_t> const one{1};
  arborescence_oracle oracle(path, 0, one);
  std::vector<std::vector<int>> const candidates{{0}};
  std::vector<double> const prices{1.0};
  EXPECT_EQ(few_trees(oracle, candidates, one, 1.0, prices).rate, rational(1));
  EXPECT_THROW((void)few_trees(oracle, candidates, one, 0.0, prices), precondition_error);
  EXPECT_THROW((void)few_trees(oracle, candidates, one, 1.0, {}), precondition_error);
  EXPECT_THROW((void)few_trees(oracle, candidates, one, 1.0, prices, {.fraction = 1.5}),
               precondition_error);
  EXPECT_THROW((void)few_trees(oracle, candidates, std::vector<std::int64_t>{0}, 1.0, prices),
               precondition_error);
}

}}  // namespace few_trees_test
