// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/check_plan.hpp>

#include "support/small_machines.hpp"
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace {

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

TEST(CheckPlan, AcceptsASoundPlanAndRecomputesItsFacts) {
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

TEST(CheckPlan, NamesTheFaultOfEachBrokenPlan) {
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
       "waits for ever for chunk 0 of the reduction"},
      {"cycle down", [](plan& p) { p.trees[0].broadcast = {{1, 2, {1, 2}}, {2, 1, {2, 1}}}; },
       "waits for ever for chunk 0 of the broadcast"},
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

TEST(CheckPlan, AcceptsPricesAndWeakCuts) {
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

TEST(CheckPlan, RefusesUnequalSharesOfAnAllGather) {
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

TEST(CheckPlan, KeepsToTheMembersOfAnAllocation) {
  auto const machine = test::direct_machine({{0, 1, 0}, {1, 0, 1}, {0, 1, 0}});  // a line
  plan p;
  p.collective = collective::broadcast;
  p.unit = "GB/s";
  p.ranks = {0, 2};
  p.trees = {{0, rational(1), {}, {{0, 2, {0, 1, 2}}}}};
  p.rate = rational(1);
  EXPECT_NE(fault_of(machine, p).find("no usable link 0 -> 1"), std::string::npos);
}

}  // namespace
