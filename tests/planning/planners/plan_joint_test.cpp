// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/constraints/plan_fixed_trees.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/planning/planners/plan_blink.hpp>
#include <blink/planning/planners/plan_joint.hpp>
#include <blink/planning/planners/plan_shares.hpp>
#include <blink/planning/planners/prove_bound.hpp>
#include <blink/topology/copying_switches.hpp>
#include <blink/topology/machines.hpp>
#include <blink/topology/subset.hpp>

#include "support/expect_error.hpp"
#include "support/random_machines.hpp"
#include "support/small_machines.hpp"
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <variant>
#include <vector>

// Rooms may be compiled as one source.
namespace plan_joint_test { namespace {

using namespace blink;

plan sound_plan(topology const& machine) {
  auto p = plan_joint(machine, {collective::all_reduce, {}, "exact"});
  EXPECT_EQ(check_plan(machine, p).fault.value_or(""), "");
  EXPECT_EQ(p.rate, p.bound);
  return p;
}

TEST(plan_joint, agrees_with_the_planners_of_direct_links_and_of_one_switch) {
  plan_request const request{collective::all_reduce, {}, "exact"};
  for (unsigned chosen = 3; chosen < 256; chosen += 7) {
    auto const machine = test::direct_machine(test::part_of(test::dgx1v_matrix(25), chosen));
    SCOPED_TRACE(chosen);
    try {
      auto const direct = plan_direct(machine, request);
      EXPECT_EQ(sound_plan(machine).rate, direct.rate);
    } catch (planning_error const&) {
      EXPECT_THROW((void)plan_joint(machine, request), planning_error);
    }
  }
  for (int n = 2; n < 9; ++n) {
    auto const machine = test::star_machine(n, 7);
    EXPECT_EQ(sound_plan(machine).rate, plan_switch(machine, request).rate);
  }
}

TEST(plan_joint, planners_of_one_collective_refuse_others) {
  auto const machine = test::direct_machine(test::dgx1v_matrix(25));
  plan_request const broadcasts{collective::broadcast, {}, "exact"};
  EXPECT_ERROR((void)plan_joint(machine, broadcasts), "plan_joint: broadcast, expected all_reduce");
  EXPECT_ERROR((void)plan_approximate(machine, broadcasts),
               "plan_approximate: broadcast, expected all_reduce");
  EXPECT_ERROR((void)plan_shares(machine, broadcasts, {}),
               "plan_shares: broadcast, expected all_gather");
  EXPECT_ERROR((void)plan_fixed_trees(machine, broadcasts, 2),
               "plan_fixed_trees: broadcast, expected all_gather");
  EXPECT_ERROR((void)plan_blink(machine, {collective::all_gather, {}, "blink"}),
               "plan_blink: another collective, expected broadcast or all_reduce");
}

TEST(plan_joint, is_proven_on_random_machines) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    sound_plan(test::make_random_machine(seed, 2 + seed % 7, 1 + seed % 6, 6 + seed % 9));
    sound_plan(test::make_random_duplex_machine(seed, 2 + seed % 7, 1 + seed % 6, seed % 9));
  }
}

/// A switch that offers more than it takes in: forwarding cannot use the egress excess.
TEST(plan_joint, is_proven_behind_unbalanced_switches) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    auto machine = test::make_random_machine(seed, 2 + seed % 5, 1 + seed % 4, 6);
    for (auto& l : machine.links) {
      bool const from_switch =
          machine.nodes[static_cast<std::size_t>(l.tail)].kind == node_kind::switch_node;
      if (from_switch == (seed % 2 == 0)) l.capacity *= 1 + static_cast<std::int64_t>(seed % 5);
    }
    sound_plan(machine);
  }
}

TEST(plan_joint, adds_parallel_links_up) {
  auto machine = test::star_machine(4, 3);
  auto const once = machine.links;
  machine.links.insert(machine.links.end(), once.begin(), once.end());
  EXPECT_EQ(sound_plan(machine).rate, rational(4));
}

TEST(plan_joint, every_subset_of_one_box_and_half_the_other) {
  auto const whole = machines::dgx_h100(2);
  for (unsigned chosen = 1; chosen < 16; ++chosen) {
    std::vector<int> ids;
    for (auto const& n : whole.nodes) {
      if (n.kind != node_kind::rank) continue;
      if (n.server == 0 ? (n.id % 4 == 0) : (chosen >> (n.id % 4) & 1U) != 0) ids.push_back(n.id);
    }
    if (ids.size() < 2 || ids.size() > 7) continue;
    SCOPED_TRACE(chosen);
    sound_plan(subset(whole, ids));
  }
}

TEST(plan_joint, one_switch_that_copies_and_reduces_gives_the_poorest_port) {
  for (int n = 2; n < 9; ++n) {
    auto machine = test::star_machine(n, 7);
    machine.nodes.back().copies = machine.nodes.back().reduces = true;
    auto const equal = sound_plan(machine);
    EXPECT_EQ(equal.rate, rational(7));
    EXPECT_EQ(equal.trees.size(), 1U);
    for (std::size_t i = 0; i < machine.links.size(); i += 3) {
      auto uneven = machine;
      uneven.links[i].capacity = 3;
      uneven.links[(i + 1) % machine.links.size()].capacity = 9;
      EXPECT_EQ(sound_plan(uneven).rate, rational(3));
    }
    machine.nodes.back().reduces = false;  // no closed form
    EXPECT_GE(sound_plan(machine).rate, rational(7 * n, 2 * (n - 1)));
  }
}

TEST(plan_joint, is_proven_with_switches_that_copy_or_reduce) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    auto machine = seed % 2 == 0 ? test::make_random_machine(seed, 2 + seed % 5, 4, 9)
                                 : test::make_random_duplex_machine(seed, 3 + seed % 4, 4, 6);
    auto const plain = sound_plan(machine).rate;
    unsigned bits = seed * 2654435761U;
    for (auto& n : machine.nodes) {
      if (n.kind != node_kind::switch_node) continue;
      n.copies = (bits >> 3 & 1U) != 0;
      n.reduces = (bits >> 4 & 1U) != 0;
      bits = bits * 1664525U + 1013904223U;
    }
    auto const p = sound_plan(machine);
    EXPECT_GE(p.rate, plain);
    auto const proven = prove_bound(machine, collective::all_reduce, p.trees.front().root);
    EXPECT_EQ(proven.bound, p.rate);
    // The bound holds for plans of other planners.
    auto const other = make_plan(machine, {collective::all_reduce, {}, "double_tree"});
    EXPECT_EQ(check_plan(machine, other).fault.value_or(""), "");
    EXPECT_EQ(other.bound, p.rate);
  }
}

TEST(plan_joint, a_tree_that_needs_the_ability_is_refused_without_it) {
  auto const able = with_copying_switches(machines::dgx_h100(2), "nvlink");
  auto const p = sound_plan(able);
  EXPECT_EQ(p.rate, rational(400));
  auto without = able;
  for (auto& n : without.nodes) n.reduces = false;
  auto const fault = check_plan(without, p).fault.value_or("");
  EXPECT_NE(fault.find("cannot reduce"), std::string::npos) << fault;
}

TEST(plan_joint, too_many_switches_that_copy_are_named) {
  auto const machine = with_copying_switches(machines::dgx_a100(2), "all");
  try {
    (void)plan_joint(machine, {collective::all_reduce, {}, "exact"});
    FAIL() << "expected planning_error";
  } catch (planning_error const& fault) {
    EXPECT_NE(std::string(fault.what()).find("at most 10"), std::string::npos) << fault.what();
  }
}

TEST(plan_joint, prices_that_are_too_low_are_found) {
  auto const machine = test::make_random_machine(5, 5, 3, 8);
  auto p = plan_joint(machine, {collective::all_reduce, {}, "exact"});
  auto& prices = std::get<price_certificate>(p.proof).prices;
  ASSERT_FALSE(prices.empty());
  prices.front().price = prices.front().price * rational(9, 10);
  EXPECT_FALSE(check_plan(machine, p));
}

/// Small limits end the search; the plan says who made it, and is as sound.
TEST(plan_joint, falls_back_where_trees_take_too_long_to_grow) {
  plan_request const request{collective::all_reduce, {}, "exact"};
  int exact = 0, approximate = 0;
  for (unsigned seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    auto const machine = test::make_random_machine(seed, 7, 3, 12);
    auto const whole = plan_joint(machine, request);
    EXPECT_EQ(whole.planner, "exact");
    for (double const work : {0.0, 3e3, 1e9}) {
      auto const p = plan_joint(machine, request, {.max_growth_work = work});
      EXPECT_EQ(check_plan(machine, p).fault.value_or(""), "");
      (p.planner == "exact" ? exact : approximate) += 1;
      if (work == 0) {
        EXPECT_EQ(p.planner, "approximate");
      }
      if (work == 1e9) {
        EXPECT_EQ(p.trees, whole.trees);
      }
      EXPECT_LE(p.rate, whole.rate);
      EXPECT_GE(p.bound, whole.rate);
    }
  }
  EXPECT_GE(exact, 10);
  EXPECT_GE(approximate, 10);
  // Nobody else plans with switches that copy.
  auto const copying = with_copying_switches(machines::dgx_h100(2), "nvlink");
  EXPECT_EQ(plan_joint(copying, request, {.max_growth_work = 0}).planner, "exact");
}

TEST(plan_approximate, ends_at_the_smallest_cut) {
  // One narrow port, which prices find late.
  auto machine = machines::dgx_h100(2);
  for (auto& l : machine.links) {
    auto const& tail = machine.nodes[static_cast<std::size_t>(l.tail)];
    auto const& head = machine.nodes[static_cast<std::size_t>(l.head)];
    if (l.kind == link_kind::nvlink && (tail.id == 3 || head.id == 3)) l.capacity /= 18;
  }
  auto const cut = detail::smallest_cut(machine).first;
  auto const p = plan_approximate(machine, {collective::all_reduce, {}, planned_by::approximate});
  EXPECT_EQ(check_plan(machine, p).fault.value_or(""), "");
  EXPECT_LE(p.bound, cut);
  EXPECT_GE(p.rate.to_double() * 1.01, p.bound.to_double());

  auto const nodes = detail::to_node_graph(machine);
  approximate_joint_options options;
  options.max_rows = 0;  // weights only
  auto const steps = [&] {
    return pack_joint_routes_approximately(nodes.graph, nodes.capacity, detail::network_of(machine),
                                           options)
        .pivots;
  };
  auto const by_prices = steps();
  options.known_bound = (cut * machine.steps_per_unit).to_double();
  EXPECT_LT(steps(), by_prices);

  auto apart = test::star_machine(3, 1);
  apart.links.erase(apart.links.begin());
  EXPECT_THROW((void)plan_approximate(apart, {collective::all_reduce, {}, planned_by::approximate}),
               planning_error);
}

TEST(plan_joint, says_what_it_does_not_plan) {
  EXPECT_THROW((void)make_plan(test::star_machine(3, 1),
                               {collective::broadcast, {}, planned_by::approximate}),
               planning_error);
  auto cut = test::star_machine(3, 1);
  cut.links.erase(cut.links.begin());
  EXPECT_THROW((void)plan_joint(cut, {collective::all_reduce, {}, "exact"}), planning_error);
  auto const alone = plan_joint(test::star_machine(1, 1), {collective::all_reduce, {}, "exact"});
  EXPECT_TRUE(alone.trees.empty());
}

}}  // namespace plan_joint_test
