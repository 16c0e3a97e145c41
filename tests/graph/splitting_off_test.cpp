// SPDX-License-Identifier: Apache-2.0
#include <blink/graph/max_flow.hpp>
#include <blink/graph/splitting_off.hpp>
#include <blink/packing/trees/all_gather_rate.hpp>
#include <blink/topology/machines.hpp>

#include "support/random_machines.hpp"
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

// Test folders may be compiled as one source.
namespace splitting_off_test { namespace {

using namespace blink;

struct input {
  std::vector<std::int64_t> capacity;
  std::vector<bool> is_switch;
  std::vector<root_supply> supplies;
  std::vector<int> group;
};

/// Equal supplies at the highest rate. Capacities are scaled so that the supplies are integers.
input equal_supplies(topology const& machine) {
  input result;
  for (auto const& l : machine.links) result.capacity.push_back(l.capacity);
  for (auto const& n : machine.nodes) {
    result.is_switch.push_back(n.kind == node_kind::switch_node);
    result.group.push_back(n.server);
  }
  auto const rate =
      all_gather_rate(machine, result.capacity, machine.rank_positions()).rate_per_root;
  for (auto& c : result.capacity) c *= rate.denominator();
  for (int const r : machine.rank_positions()) result.supplies.push_back({r, rate.numerator()});
  return result;
}

/// Checks that the supplies flow into every rank, and that routes lead over switches along links.
/// Full routes fill no link over its capacity.
void expect_sound(topology const& machine, input const& in, split_graph const& split) {
  auto const n = static_cast<int>(machine.nodes.size());
  arc_list graph{n + 1, {}};
  std::vector<std::int64_t> capacity;
  std::map<std::pair<int, int>, std::int64_t> load;
  for (auto const& r : split.routes) {
    ASSERT_GE(r.path.size(), 2u);
    EXPECT_GT(r.capacity, 0);
    EXPECT_EQ(r.path.front(), r.tail);
    EXPECT_EQ(r.path.back(), r.head);
    for (std::size_t i = 0; i < r.path.size(); ++i) {
      bool const end = i == 0 || i + 1 == r.path.size();
      EXPECT_EQ(in.is_switch[static_cast<std::size_t>(r.path[i])], !end);
      if (i > 0) load[{r.path[i - 1], r.path[i]}] += r.capacity;
    }
    graph.arcs.push_back({r.tail, r.head});
    capacity.push_back(r.capacity);
  }
  std::map<std::pair<int, int>, std::int64_t> available;
  for (std::size_t e = 0; e < machine.links.size(); ++e) {
    available[{machine.links[e].tail, machine.links[e].head}] += in.capacity[e] * split.scale;
  }
  for (auto const& [ends, amount] : load) EXPECT_LE(amount, available[ends]);
  std::int64_t total = 0;
  for (auto const& s : in.supplies) {
    graph.arcs.push_back({n, s.root});
    capacity.push_back(s.amount * split.scale);
    total += s.amount * split.scale;
  }
  for (int v = 0; v < n; ++v) {
    if (in.is_switch[static_cast<std::size_t>(v)]) continue;
    EXPECT_EQ(max_flow(graph, n, v, capacity).value, total) << "into rank " << v;
  }
}

TEST(splitting_off, keeps_the_rate_of_every_root_on_random_machines) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    auto const machine = test::make_random_machine(seed, 2 + seed % 6, 1 + seed % 4, 6 + seed % 9);
    auto const in = equal_supplies(machine);
    expect_sound(machine, in, split_off_switches(machine, in.capacity, in.is_switch, in.supplies));
    auto const duplex =
        test::make_random_duplex_machine(seed, 2 + seed % 6, 1 + seed % 5, seed % 8);
    auto const both = equal_supplies(duplex);
    expect_sound(duplex, both,
                 split_off_switches(duplex, both.capacity, both.is_switch, both.supplies));
  }
}

TEST(splitting_off, keeps_the_rate_of_one_root) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    auto const machine = test::make_random_machine(seed, 2 + seed % 7, 1 + seed % 5, 4 + seed % 9);
    auto in = equal_supplies(machine);
    int const root = machine.rank_positions()[seed % machine.rank_positions().size()];
    std::int64_t smallest = INT64_MAX;
    for (int const v : machine.rank_positions()) {
      if (v != root) smallest = std::min(smallest, max_flow(machine, root, v, in.capacity).value);
    }
    in.supplies = {{root, smallest}};
    expect_sound(machine, in, split_off_switches(machine, in.capacity, in.is_switch, in.supplies));
  }
}

TEST(splitting_off, boxes_behind_networks) {
  for (auto const& machine : {machines::dgx_a100(2), machines::dgx_a100(4), machines::dgx_h100(3),
                              machines::mi250(2), machines::dgx2()}) {
    SCOPED_TRACE(machine.name);
    auto const in = equal_supplies(machine);
    auto const split =
        split_off_switches(machine, in.capacity, in.is_switch, in.supplies, in.group);
    expect_sound(machine, in, split);
    for (auto const& r : split.routes) EXPECT_LE(r.path.size(), 5u);  // over two NICs and a network
  }
}

/// Ranks 0 and 1 feed switch 3, which feeds rank 2 with more than it receives.
TEST(splitting_off, capacity_out_of_a_switch_that_is_not_needed_is_left_out) {
  arc_list const graph{4, {{0, 3}, {3, 1}, {3, 2}, {1, 3}, {2, 3}, {3, 0}, {1, 2}}};
  std::vector<std::int64_t> const capacity{2, 2, 9, 1, 1, 2, 3};
  std::vector<bool> const is_switch{false, false, false, true};
  auto const split = split_off_switches(graph, capacity, is_switch, {{0, 1}, {1, 1}, {2, 1}});
  EXPECT_FALSE(split.routes.empty());
}

/// A switch has one unit in and two out, both needed. Only a switch that copies could serve that.
TEST(splitting_off, a_switch_that_would_have_to_copy_is_named) {
  arc_list const graph{4, {{0, 3}, {3, 1}, {3, 2}}};
  std::vector<std::int64_t> const capacity{1, 1, 1};
  std::vector<bool> const is_switch{false, false, false, true};
  try {
    (void)split_off_switches(graph, capacity, is_switch, {{0, 1}});
    FAIL() << "expected unsplittable_switch";
  } catch (unsplittable_switch const& fault) {
    EXPECT_EQ(fault.vertex, 3);
  }
}

TEST(splitting_off, preconditions) {
  arc_list const graph{3, {{0, 2}, {2, 1}}};
  std::vector<bool> const is_switch{false, false, true};
  EXPECT_THROW((void)split_off_switches(graph, std::vector{1}, is_switch, {{0, 1}}),
               precondition_error);
  EXPECT_THROW((void)split_off_switches(graph, std::vector{1, -1}, is_switch, {{0, 1}}),
               precondition_error);
  EXPECT_THROW((void)split_off_switches(graph, std::vector{1, 1}, is_switch, {{2, 1}}),
               precondition_error);
  EXPECT_THROW((void)split_off_switches(graph, std::vector{std::int64_t{1} << 61, std::int64_t{1}},
                                        is_switch, {{0, 1}}),
               overflow_error);
}

}}  // namespace splitting_off_test
