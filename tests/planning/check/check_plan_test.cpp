// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/check/check_plan.hpp>

#include "support/small_machines.hpp"
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

// Rooms may be compiled as one source.
namespace check_plan_test { namespace {

using namespace blink;

// Three ranks in a triangle, one unit each way: all-reduce at 3/2 by three paths of weight 1/2.
topology triangle() {
  return test::direct_machine({{0, 1, 1}, {1, 0, 1}, {1, 1, 0}});
}

plan triangle_all_reduce() {
  plan p;
  p.collective = collective::all_reduce;
  p.planner = "by hand";
  p.unit = "GB/s";
  p.ranks = {0, 1, 2};
  for (int root = 0; root < 3; ++root) {
    int const a = (root + 1) % 3;
    int const b = (root + 2) % 3;
    p.trees.push_back({root,
                       rational(1, 2),
                       {{a, root, {a, root}}, {b, root, {b, root}}},
                       {{root, a, {root, a}}, {root, b, {root, b}}}});
  }
  p.rate = p.bound = rational(3, 2);
  p.proof = partition_certificate{{{0}, {1}, {2}}};
  return p;
}

std::string fault_of(topology const& machine, plan const& p) {
  return check_plan(machine, p).fault.value_or("sound");
}

TEST(check_plan, accepts_a_sound_plan_and_recomputes_its_facts) {
  auto const report = check_plan(triangle(), triangle_all_reduce());
  EXPECT_EQ(report.fault.value_or(""), "");
  EXPECT_EQ(report.rate, rational(3, 2));
  EXPECT_EQ(report.bound, rational(3, 2));
  EXPECT_EQ(report.load.size(), 6U);
  for (auto const& [ends, load] : report.load) EXPECT_EQ(load, rational(1));
}

struct mutation {
  char const* name;
  std::function<void(plan&)> apply;
  char const* fault;  // a part of the expected text
};

TEST(check_plan, names_the_fault_of_each_broken_plan) {
  std::vector<mutation> const mutations{
      {"rank twice", [](plan& p) { p.ranks[1] = 0; }, "rank 0 is named twice"},
      {"unknown rank", [](plan& p) { p.ranks[1] = 7; }, "rank 7 is not a rank"},
      {"other unit", [](plan& p) { p.unit = "links"; }, "counts in 'links'"},
      {"unused kind", [](plan& p) { p.links = "pcie"; }, "no usable link"},
      {"negative weight", [](plan& p) { p.trees[0].weight = rational(-1); }, "tree 0: weight -1"},
      {"rate", [](plan& p) { p.rate = rational(2); }, "the weights sum to 3/2"},
      {"bound", [](plan& p) { p.bound = rational(2); }, "proves a bound of 3/2"},
      {"too heavy",
       [](plan& p) {
         p.trees[0].weight = rational(1);
         p.rate = rational(2);
       },
       "carries 3/2 of a capacity of 1"},
      {"edge lost", [](plan& p) { p.trees[1].reduce.pop_back(); }, "has 1 edges, expected 2"},
      {"sends twice", [](plan& p) { p.trees[0].reduce[1] = {1, 2, {1, 2}}; }, "rank 1 sends twice"},
      {"root sends", [](plan& p) { p.trees[0].reduce[1] = {0, 2, {0, 2}}; }, "rank 0 is the root"},
      {"cycle up", [](plan& p) { p.trees[0].reduce = {{1, 2, {1, 2}}, {2, 1, {2, 1}}}; },
       "waits without end for chunk 0 of the reduction"},
      {"cycle down", [](plan& p) { p.trees[0].broadcast = {{1, 2, {1, 2}}, {2, 1, {2, 1}}}; },
       "waits without end for chunk 0 of the broadcast"},
      {"path elsewhere", [](plan& p) { p.trees[0].reduce[0].path = {1, 2}; }, "does not lead"},
      {"path too short", [](plan& p) { p.trees[0].reduce[0].path = {}; }, "does not lead"},
      {"no trees",
       [](plan& p) {
         p.trees.clear();
         p.rate = rational(0);
       },
       "no trees"},
      {"part missing", [](plan& p) { p.proof = partition_certificate{{{0}, {1}}}; },
       "must cover all ranks"},
      {"part twice", [](plan& p) { p.proof = partition_certificate{{{0, 1}, {1}, {2}}}; },
       "named twice"},
      {"one part", [](plan& p) { p.proof = partition_certificate{{{0, 1, 2}}}; }, "two parts"},
      {"cut of nothing", [](plan& p) { p.proof = cut_certificate{{}}; },
       "the cut must hold a rank"},
      {"cheap prices", [](plan& p) { p.proof = price_certificate{{{0, 1, rational(1)}}}; },
       "expected at least 1"},
      {"price of no link", [](plan& p) { p.proof = price_certificate{{{0, 0, rational(1)}}}; },
       "of no usable link"},
      {"phase too many", [](plan& p) { p.collective = collective::broadcast; }, "reduce edges"},
  };
  for (auto const& m : mutations) {
    SCOPED_TRACE(m.name);
    auto p = triangle_all_reduce();
    m.apply(p);
    auto const fault = fault_of(triangle(), p);
    EXPECT_NE(fault.find(m.fault), std::string::npos) << fault;
  }
}

TEST(check_plan, accepts_prices_and_weak_cuts) {
  auto p = triangle_all_reduce();
  price_certificate prices;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      if (i != j) prices.prices.push_back({i, j, rational(1, 4)});
    }
  }
  p.proof = prices;
  EXPECT_EQ(fault_of(triangle(), p), "sound");
  p.proof = cut_certificate{{0}};  // a cut of 2: true, but not tight
  p.bound = rational(2);
  EXPECT_EQ(fault_of(triangle(), p), "sound");
}

TEST(check_plan, refuses_unequal_shares_of_an_all_gather) {
  plan p;
  p.collective = collective::all_gather;
  p.unit = "GB/s";
  p.ranks = {0, 1};
  p.trees = {{0, rational(1), {}, {{0, 1, {0, 1}}}}, {1, rational(1, 2), {}, {{1, 0, {1, 0}}}}};
  p.rate = rational(3, 2);
  auto const pair = test::direct_machine({{0, 1}, {1, 0}});
  EXPECT_NE(fault_of(pair, p).find("expected the equal share 3/4"), std::string::npos);
  p.trees[1].weight = rational(1);
  p.rate = p.bound = rational(2);
  p.proof = cut_certificate{{0}};
  EXPECT_EQ(fault_of(pair, p), "sound");
}

TEST(check_plan, keeps_to_the_members_of_an_allocation) {
  auto const machine = test::direct_machine({{0, 1, 0}, {1, 0, 1}, {0, 1, 0}});  // a line
  plan p;
  p.collective = collective::broadcast;
  p.unit = "GB/s";
  p.ranks = {0, 2};
  p.trees = {{0, rational(1), {}, {{0, 2, {0, 1, 2}}}}};
  p.rate = rational(1);
  EXPECT_NE(fault_of(machine, p).find("no usable link 0 -> 1"), std::string::npos);
}

// Three ranks on a line, one unit each way.
topology line() {
  return test::direct_machine({{0, 1, 0}, {1, 0, 1}, {0, 1, 0}});
}

tree path(std::vector<int> const& nodes, rational const& weight) {
  tree t{nodes.front(), weight, {}, {}, {nodes.front(), nodes.back()}};
  for (std::size_t i = 0; i + 1 < nodes.size(); ++i) {
    t.broadcast.push_back({nodes[i], nodes[i + 1], {nodes[i], nodes[i + 1]}});
  }
  return t;
}

// All-to-all on the line: the middle links carry two pairs each way, so x = 1/2.
plan line_all_to_all() {
  plan p;
  p.collective = collective::all_to_all;
  p.unit = "GB/s";
  p.ranks = {0, 1, 2};
  for (auto const& nodes :
       std::vector<std::vector<int>>{{0, 1}, {0, 1, 2}, {1, 0}, {1, 2}, {2, 1}, {2, 1, 0}}) {
    p.trees.push_back(path(nodes, rational(1, 2)));
  }
  p.rate = p.bound = rational(3, 2);
  p.proof = cut_certificate{{0}};
  return p;
}

TEST(check_plan, accepts_flows_of_each_kind) {
  auto p = line_all_to_all();
  EXPECT_EQ(fault_of(line(), p), "sound");
  EXPECT_EQ(check_plan(line(), p).rate, rational(3, 2));
  p.proof = price_certificate{{{0, 1, rational(1, 2)}}};  // the cut around rank 0 as prices
  EXPECT_EQ(fault_of(line(), p), "sound");

  p.collective = collective::gather;  // to rank 1, an eighth of the path from 0 by itself
  p.trees = {path({0, 1}, rational(1, 8)), path({2, 1}, rational(1)), path({0, 1}, rational(7, 8))};
  p.rate = p.bound = rational(3);
  p.proof = cut_certificate{{0}};
  EXPECT_EQ(fault_of(line(), p), "sound");
  p.proof = price_certificate{{{0, 1, rational(1, 2)}, {2, 1, rational(1, 2)}}};
  EXPECT_EQ(fault_of(line(), p), "sound");

  p.collective = collective::scatter;
  p.trees = {path({0, 1}, rational(1, 2)), path({0, 1, 2}, rational(1, 2))};
  p.rate = p.bound = rational(3, 2);
  p.proof = cut_certificate{{0}};
  EXPECT_EQ(fault_of(line(), p), "sound");

  p.collective = collective::send_to_next;
  p.trees = {path({0, 1}, rational(1)), path({1, 2}, rational(1))};
  p.rate = p.bound = rational(1);
  p.proof = cut_certificate{{0, 1}};
  EXPECT_EQ(fault_of(line(), p), "sound");

  p.collective = collective::permute;
  p.destinations = {2, 1, 0};
  p.trees = {path({0, 1, 2}, rational(1)), path({2, 1, 0}, rational(1))};
  EXPECT_EQ(fault_of(line(), p), "sound");
  p.destinations = {0, 1, 2};
  p.trees.clear();
  p.rate = p.bound = rational(0);
  p.proof = no_certificate{};
  EXPECT_EQ(fault_of(line(), p), "sound");
}

TEST(check_plan, names_the_fault_of_each_broken_flow) {
  std::vector<mutation> const mutations{
      {"no members", [](plan& p) { p.trees[1].members.clear(); },
       "tree 1: 0 members, expected two"},
      {"three members", [](plan& p) { p.trees[1].members = {0, 1, 2}; }, "tree 1: 3 members"},
      {"not reached", [](plan& p) { p.trees[0].members = {0, 2}; }, "misses member 2"},
      {"root no member", [](plan& p) { p.trees[0].members = {1, 2}; }, "the root is not a member"},
      {"member twice", [](plan& p) { p.trees[0].members = {0, 0}; }, "member 0 is not a rank"},
      {"unknown member", [](plan& p) { p.trees[0].members = {0, 7}; }, "member 7 is not a rank"},
      {"goes too far", [](plan& p) { p.trees[0].broadcast.push_back({1, 2, {1, 2}}); },
       "rank 2 is no member and forwards nothing"},
      {"pair lost", [](plan& p) { p.trees.pop_back(); },
       "rank 2 sends 0 to rank 0, expected the equal share 1/2"},
      {"unequal", [](plan& p) { p.trees[0].weight = rational(1, 4); },
       "rank 0 sends 1/2 to rank 2, expected the equal share 1/4"},
      {"sum as rate", [](plan& p) { p.rate = rational(3); }, "which is a rate of 3/2"},
      {"another collective", [](plan& p) { p.collective = collective::send_to_next; },
       "tree 1: rank 0 has nothing for rank 2"},
      {"spanning", [](plan& p) { p.collective = collective::all_gather; }, "which spans all ranks"},
      {"destinations", [](plan& p) { p.destinations = {1, 2, 0}; }, "belong to a permute only"},
      {"no destinations", [](plan& p) { p.collective = collective::permute; },
       "has 0 destinations, expected one for each of the 3"},
      {"destination twice",
       [](plan& p) {
         p.collective = collective::permute;
         p.destinations = {1, 1, 0};
       },
       "destination 1 of rank 1 is no rank of the plan, or named twice"},
      {"cycle", [](plan& p) { p.trees[1].broadcast = {{1, 2, {1, 2}}, {2, 1, {2, 1}}}; },
       "waits without end"},
      {"cut of no pair", [](plan& p) { p.proof = cut_certificate{{0, 1, 2}}; },
       "must hold a sender and miss its receiver"},
      {"low prices", [](plan& p) { p.proof = price_certificate{{{0, 1, rational(1, 3)}}}; },
       "cost 2/3, expected at least 1"},
      {"partition", [](plan& p) { p.proof = partition_certificate{{{0}, {1}, {2}}}; },
       "proves all_reduce only"},
  };
  for (auto const& m : mutations) {
    SCOPED_TRACE(m.name);
    auto p = line_all_to_all();
    m.apply(p);
    auto const fault = fault_of(line(), p);
    EXPECT_NE(fault.find(m.fault), std::string::npos) << fault;
  }
}

TEST(check_plan, a_barrier_carries_nothing) {
  plan p;
  p.collective = collective::barrier;
  p.unit = "GB/s";
  p.ranks = {0, 1, 2};
  p.trees = {{1, rational(0), {{0, 1, {0, 1}}, {2, 1, {2, 1}}}, {{1, 0, {1, 0}}, {1, 2, {1, 2}}}}};
  EXPECT_EQ(fault_of(line(), p), "sound");
  auto heavy = p;
  heavy.trees[0].weight = heavy.rate = rational(1);
  EXPECT_NE(fault_of(line(), heavy).find("tree 0: weight 1"), std::string::npos);
  auto proven = p;
  proven.proof = cut_certificate{{0}};
  EXPECT_NE(fault_of(line(), proven).find("no rate to prove"), std::string::npos);
  auto open = p;
  open.trees[0].broadcast.pop_back();
  EXPECT_NE(fault_of(line(), open).find("has 1 edges, expected 2"), std::string::npos);
  auto idle = p;
  idle.trees.clear();
  EXPECT_NE(fault_of(line(), idle).find("no trees"), std::string::npos);
}

}}  // namespace check_plan_test
