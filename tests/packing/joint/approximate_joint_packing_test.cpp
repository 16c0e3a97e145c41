// SPDX-License-Identifier: Apache-2.0
#include <blink/packing/joint/approximate_joint_packing.hpp>

#include "support/random_machines.hpp"
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace approximate_joint_packing_test {

using blink::rational;

struct network {
  blink::arc_list graph;
  std::vector<std::int64_t> capacity;
  blink::routed_network nodes;
};

network to_network(blink::topology const& machine) {
  network result;
  result.graph.vertex_count = static_cast<int>(machine.nodes.size());
  for (auto const& n : machine.nodes) {
    result.nodes.is_switch.push_back(n.kind == blink::node_kind::switch_node);
  }
  for (auto const& l : machine.links) {
    result.graph.arcs.push_back({l.tail, l.head});
    result.capacity.push_back(l.capacity);
  }
  return result;
}

/// Checks that every pair spans the ranks in the documented order, loads fit, and the rate is the
/// sum.
void expect_packing(network const& on, blink::routed_joint_packing const& packed) {
  std::map<std::pair<int, int>, rational> room;
  for (std::size_t e = 0; e < on.capacity.size(); ++e) {
    auto const& a = on.graph.arcs[e];
    room[{a.tail, a.head}] += rational(on.capacity[e]);
  }
  rational rate;
  std::size_t ranks = 0;
  for (bool const switch_node : on.nodes.is_switch) ranks += switch_node ? 0U : 1U;
  for (auto const& pair : packed.pairs) {
    rate += pair.weight;
    ASSERT_GT(pair.weight, rational(0));
    ASSERT_EQ(pair.in.size(), ranks - 1);
    ASSERT_EQ(pair.out.size(), ranks - 1);
    std::vector<bool> has(on.nodes.is_switch.size(), false), sent = has;
    has[static_cast<std::size_t>(pair.root)] = true;
    for (auto const& path : pair.out) {
      ASSERT_TRUE(has[static_cast<std::size_t>(path.front())]);
      ASSERT_FALSE(has[static_cast<std::size_t>(path.back())]);
      has[static_cast<std::size_t>(path.back())] = true;
    }
    for (auto const& path : pair.in) {
      ASSERT_FALSE(sent[static_cast<std::size_t>(path.front())]);
      ASSERT_FALSE(sent[static_cast<std::size_t>(path.back())]);
      ASSERT_NE(path.front(), pair.root);
      sent[static_cast<std::size_t>(path.front())] = true;
    }
    for (auto const* paths : {&pair.in, &pair.out}) {
      for (auto const& path : *paths) {
        for (std::size_t i = 0; i + 1 < path.size(); ++i) {
          room[{path[i], path[i + 1]}] -= pair.weight;
        }
      }
    }
  }
  for (auto const& [ends, left] : room) ASSERT_GE(left, rational(0));
  ASSERT_EQ(rate, packed.rate);
}

void expect_near(network const& on, blink::approximate_joint_options const& options) {
  auto const packed =
      blink::pack_joint_routes_approximately(on.graph, on.capacity, on.nodes, options);
  expect_packing(on, packed);
  auto const exact = blink::pack_joint_routes(on.graph, on.capacity, on.nodes);
  EXPECT_LE(packed.rate, exact.rate);
  EXPECT_GE(packed.bound, exact.rate);
  EXPECT_GE(packed.rate.to_double() * (1 + options.gap), packed.bound.to_double());
  rational value;
  for (std::size_t e = 0; e < on.capacity.size(); ++e) {
    value += packed.prices[e] * on.capacity[e];
  }
  EXPECT_EQ(value, packed.bound);
}

TEST(approximate_joint_packing, is_near_the_optimum_by_pivots) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    expect_near(to_network(blink::test::make_random_duplex_machine(seed, 9, seed % 4, 8)), {});
    expect_near(to_network(blink::test::make_random_machine(seed, 7, seed % 4, 14)), {});
  }
}

TEST(approximate_joint_packing, is_near_the_optimum_by_weights) {
  blink::approximate_joint_options options;
  options.max_rows = 0;  // no linear programming
  options.gap = 0.03;
  options.epsilons = {0.1, 0.05, 0.02};
  for (unsigned seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    expect_near(to_network(blink::test::make_random_duplex_machine(seed, 9, seed % 4, 8)), options);
    expect_near(to_network(blink::test::make_random_machine(seed, 5, seed % 3, 8)), options);
  }
}

TEST(approximate_joint_packing, has_at_most_one_pair_for_each_link) {
  auto const on = to_network(blink::test::make_random_duplex_machine(3, 24, 4, 40, 100));
  blink::approximate_joint_options options;
  for (std::size_t const rows : {0U, 800U}) {
    options.max_rows = rows;
    auto const packed =
        blink::pack_joint_routes_approximately(on.graph, on.capacity, on.nodes, options);
    expect_packing(on, packed);
    EXPECT_LE(packed.pairs.size(), on.capacity.size() / 2);
  }
}

TEST(approximate_joint_packing, says_what_it_cannot_pack) {
  auto on = to_network(blink::test::make_random_duplex_machine(1, 4, 2, 4));
  on.nodes.copies = on.nodes.is_switch;
  EXPECT_THROW(
      static_cast<void>(blink::pack_joint_routes_approximately(on.graph, on.capacity, on.nodes)),
      blink::planning_error);
  on.nodes.copies.clear();
  EXPECT_THROW(static_cast<void>(blink::pack_joint_routes_approximately(
                   on.graph, on.capacity, on.nodes, blink::approximate_joint_options{.gap = 0})),
               blink::precondition_error);
  on.graph.arcs.clear();
  on.capacity.clear();
  EXPECT_THROW(
      static_cast<void>(blink::pack_joint_routes_approximately(on.graph, on.capacity, on.nodes)),
      blink::planning_error);
}

}  // namespace approximate_joint_packing_test
