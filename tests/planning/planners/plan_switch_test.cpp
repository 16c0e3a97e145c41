// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/planning/planners/plan_switch.hpp>

#include "support/small_machines.hpp"
#include <gtest/gtest.h>

namespace {

using namespace blink;

rational expected_rate(collective kind, std::int64_t n, rational const& port) {
  switch (kind) {
    case collective::broadcast:
    case collective::reduce:
      return port;
    case collective::all_gather:
    case collective::reduce_scatter:
      return port * n / (n - 1);
    default:  // all_reduce
      break;
  }
  return port * n / (2 * (n - 1));
}

TEST(plan_switch, is_optimal_for_every_collective_and_size) {
  for (int n = 2; n <= 17; ++n) {
    auto const machine = test::star_machine(n, 150);
    for (int kind = 0; kind < 5; ++kind) {
      plan_request const request{static_cast<collective>(kind), {}, "exact"};
      SCOPED_TRACE(std::to_string(n) + " ranks, " + std::string(to_text(request.collective)));
      auto const p = make_plan(machine, request);
      auto const report = check_plan(machine, p);
      EXPECT_EQ(report.fault.value_or(""), "");
      EXPECT_EQ(p.rate, expected_rate(request.collective, n, 150));
      EXPECT_EQ(report.bound, p.rate);
      for (auto const& t : p.trees) EXPECT_LE(height(t), 2);
    }
  }
}

TEST(plan_switch, honours_the_root) {
  auto const machine = test::star_machine(5, 3);
  for (auto const kind : {collective::broadcast, collective::reduce}) {
    auto const p = make_plan(machine, {kind, 3});
    for (auto const& t : p.trees) EXPECT_EQ(t.root, 3);
  }
}

TEST(plan_switch, one_rank_has_nothing_to_do) {
  auto const p = plan_switch(test::star_machine(1, 3), {collective::all_reduce, {}, "exact"});
  EXPECT_TRUE(p.trees.empty());
  EXPECT_EQ(p.rate, rational(0));
}

TEST(plan_switch, refuses_unequal_ports_and_links_beside_the_switch) {
  auto unequal = test::star_machine(4, 3);
  unequal.links.front().capacity = 2;
  EXPECT_THROW((void)plan_switch(unequal, {}), planning_error);
  auto beside = test::star_machine(4, 3);
  beside.links.push_back({0, 1, 3, 0, link_kind::nvlink});
  EXPECT_THROW((void)plan_switch(beside, {}), planning_error);
}

}  // namespace
