// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/check/detail/cheapest_trees.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <random>
#include <utility>
#include <vector>

// Rooms may be compiled as one source.
namespace cheapest_trees_test { namespace {

using blink::detail::cheapest_out_trees;
using blink::detail::wide_cost_matrix;

// Tries every choice of a parent for each vertex but the root.
std::optional<long long> cheapest_by_search(wide_cost_matrix& cost, std::size_t root) {
  std::size_t const n = cost.count;
  std::optional<long long> best;
  std::vector<std::size_t> parent(n, 0);
  std::size_t choices = 1;
  for (std::size_t v = 0; v < n; ++v) choices *= n;
  for (std::size_t choice = 0; choice < choices; ++choice) {
    long long total = 0;
    bool is_tree = true;
    for (std::size_t v = 0, rest = choice; v < n; ++v, rest /= n) {
      parent[v] = rest % n;
      if (v == root) {
        is_tree = is_tree && parent[v] == v;
        continue;
      }
      auto const c = cost.at(parent[v], v);
      is_tree = is_tree && parent[v] != v && c >= 0;
      total += static_cast<long long>(c);
    }
    for (std::size_t v = 0; v < n && is_tree; ++v) {
      std::size_t at = v;
      for (std::size_t step = 0; step < n && at != root; ++step) at = parent[at];
      is_tree = at == root;
    }
    if (is_tree && (!best || total < *best)) best = total;
  }
  return best;
}

TEST(cheapest_trees, cost_from_every_root_what_a_search_finds) {
  for (unsigned seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::size_t const n = 1 + seed % 5;
    int const largest = seed % 2 == 0 ? 3 : 1000;  // many ties, or few
    unsigned const missing = seed % 3 * 3;         // of ten edges
    wide_cost_matrix cost(n);
    for (std::size_t u = 0; u < n; ++u) {
      for (std::size_t v = 0; v < n; ++v) {
        if (u == v || random() % 10 < missing) continue;
        cost.at(u, v) = std::uniform_int_distribution<int>(0, largest)(random);
      }
    }
    auto const found = cheapest_out_trees(cost);
    ASSERT_EQ(found.size(), n);
    for (std::size_t root = 0; root < n; ++root) {
      auto const expected = cheapest_by_search(cost, root);
      ASSERT_EQ(found[root].has_value(), expected.has_value()) << "root " << root;
      if (!expected) continue;
      EXPECT_EQ(static_cast<long long>(*found[root]), *expected) << "root " << root;
    }
  }
}

TEST(cheapest_trees, contain_each_other_in_long_chains_of_cycles) {
  // Vertex v is entered at cost 1 from v - 1, and vertex 0 at cost v from each other vertex. So
  // every root has one tree: the chain, broken before the root.
  std::size_t const n = 200;
  wide_cost_matrix cost(n);
  for (std::size_t v = 1; v < n; ++v) {
    cost.at(v - 1, v) = 1;
    cost.at(v, 0) = static_cast<long long>(v);
  }
  auto const found = cheapest_out_trees(std::move(cost));
  for (std::size_t root = 0; root < n; ++root) {
    long long const expected =
        static_cast<long long>(n) - 1 + (root == 0 ? 0 : static_cast<long long>(root) - 1);
    ASSERT_TRUE(found[root].has_value());
    EXPECT_EQ(static_cast<long long>(*found[root]), expected);
  }
}

}}  // namespace cheapest_trees_test
