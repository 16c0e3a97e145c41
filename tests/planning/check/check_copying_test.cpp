// SPDX-License-Identifier: Apache-2.0
// What the checker says of plans with switches that copy or reduce, made by hand.
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/plan/make_schedule.hpp>

#include "support/small_machines.hpp"
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace {

using namespace blink;

/// Three ranks behind switch 3.
topology machine_with(bool copies, bool reduces) {
  auto machine = test::star_machine(3, 12);
  machine.nodes[3].copies = copies;
  machine.nodes[3].reduces = reduces;
  return machine;
}

tree_edge hop(int from, int to) {
  return {from, to, {from, to}};
}

/// Everything to the switch, the sum to rank 0, and back.
plan one_tree() {
  plan p;
  p.collective = collective::all_reduce;
  p.planner = "by hand";
  p.unit = "GB/s";
  p.ranks = {0, 1, 2};
  p.rate = p.bound = rational(12);
  p.proof = cut_certificate{{1}};
  p.trees = {
      {0, rational(12), {hop(1, 3), hop(2, 3), hop(3, 0)}, {hop(0, 3), hop(3, 1), hop(3, 2)}}};
  return p;
}

std::string fault_of(topology const& machine, plan const& p) {
  return check_plan(machine, p).fault.value_or("");
}

TEST(check_copying, a_switch_that_does_both_carries_the_whole_port) {
  EXPECT_EQ(fault_of(machine_with(true, true), one_tree()), "");
}

TEST(check_copying, without_the_ability_the_plan_is_refused) {
  EXPECT_NE(fault_of(machine_with(true, false), one_tree()).find("switch 3 cannot reduce"),
            std::string::npos);
  EXPECT_NE(fault_of(machine_with(false, true), one_tree()).find("switch 3 cannot copy"),
            std::string::npos);
}

TEST(check_copying, a_switch_with_one_neighbour_below_only_forwards) {
  auto p = one_tree();
  p.collective = collective::broadcast;
  p.proof = cut_certificate{{0}};
  p.trees = {{0, rational(12), {}, {hop(0, 3), hop(3, 1), {1, 2, {1, 3, 2}}}}};
  EXPECT_EQ(fault_of(machine_with(false, false), p), "");
}

TEST(check_copying, names_the_fault_of_each_broken_tree) {
  struct mutation {
    std::string expected;
    std::function<void(tree&)> apply;
  };
  std::vector<mutation> const mutations{
      {"sends twice", [](tree& t) { t.reduce.push_back(hop(3, 1)); }},
      {"receives twice", [](tree& t) { t.broadcast.push_back(hop(1, 3)); }},
      {"has nothing to send",
       [](tree& t) { t.reduce = {{1, 0, {1, 3, 0}}, {2, 0, {2, 3, 0}}, hop(3, 0)}; }},
      {"sends to no node", [](tree& t) { t.reduce = {hop(1, 3), hop(2, 3)}; }},
      {"receives from no node", [](tree& t) { t.broadcast = {hop(3, 1), hop(3, 2)}; }},
      {" edges, expected ", [](tree& t) { t.broadcast = {hop(0, 3), hop(3, 1)}; }},
      {"not a rank of the plan", [](tree& t) { t.root = 3; }},
      {"waits without end",
       [](tree& t) { t.reduce = {hop(1, 3), {3, 2, {3, 2}}, {2, 1, {2, 3, 1}}}; }},
  };
  for (auto const& [expected, apply] : mutations) {
    auto p = one_tree();
    apply(p.trees.front());
    auto const fault = fault_of(machine_with(true, true), p);
    EXPECT_NE(fault.find(expected), std::string::npos) << expected << " in: " << fault;
  }
}

/// Prices that prove 9 for a switch that forwards are worth less with one that copies and reduces.
TEST(check_copying, prices_must_hold_for_trees_over_the_switch) {
  auto p = one_tree();
  price_certificate prices;
  for (int rank = 0; rank < 3; ++rank) {
    prices.prices.push_back({rank, 3, rational(1, 8)});
    prices.prices.push_back({3, rank, rational(1, 8)});
  }
  p.proof = prices;
  p.rate = p.bound = rational(9);
  p.trees = {{0,
              rational(9),
              {{1, 2, {1, 3, 2}}, {2, 0, {2, 3, 0}}},
              {{0, 1, {0, 3, 1}}, {1, 2, {1, 3, 2}}}}};
  auto const halved = [&](std::int64_t denominator) {
    for (auto& price : std::get<price_certificate>(p.proof).prices) {
      price.price = rational(1, denominator);
    }
    p.bound = rational(72, denominator);
    p.trees.front().weight = p.rate = rational(4);
    return p;
  };
  EXPECT_EQ(fault_of(machine_with(false, false), halved(8)), "");
  EXPECT_NE(fault_of(machine_with(true, true), halved(8)).find("expected at least 1"),
            std::string::npos);
  EXPECT_NE(fault_of(machine_with(true, false), halved(8)).find("expected at least 1"),
            std::string::npos);
  EXPECT_EQ(fault_of(machine_with(true, true), halved(6)), "");
  EXPECT_NE(fault_of(machine_with(true, true), halved(7)).find("expected at least 1"),
            std::string::npos);
}

TEST(check_copying, what_runs_refuses_switches_in_trees) {
  EXPECT_THROW((void)make_schedule(machine_with(true, true), one_tree()), planning_error);
}

}  // namespace
