// SPDX-License-Identifier: Apache-2.0
#include "../../tools/plan_in_use.hpp"

#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/planning/plan/make_schedule.hpp>
#include <blink/schedule/default_tuning.hpp>
#include <blink/topology/machines.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <string>
#include <vector>

namespace plan_in_use_test { namespace {

using blink::algorithm;
using blink::collective;
using blink::tools::difference;
using blink::tools::find_in_use;
using blink::tools::pair_bytes;
using blink::tools::plan_along;
using blink::tools::traffic_of;

constexpr double bytes = 1 << 20;

/// Each collective whose calls have several algorithms, or one by flows.
std::vector<collective> planned_collectives() {
  return {collective::broadcast,      collective::reduce,     collective::all_reduce,
          collective::all_gather,     collective::gather,     collective::scatter,
          collective::reduce_scatter, collective::all_to_all, collective::send_to_next};
}

TEST(plan_in_use, the_bytes_of_known_algorithms) {
  EXPECT_EQ(traffic_of(blink::chain_schedule(3, 0), collective::broadcast, 90),
            (pair_bytes{{{0, 1}, 90}, {{1, 2}, 90}}));
  EXPECT_EQ(traffic_of(blink::flat_schedule(3, 1), collective::reduce, 90),
            (pair_bytes{{{0, 1}, 90}, {{2, 1}, 90}}));
  pair_bytes each;  // of all pairs
  for (int from = 0; from < 3; ++from) {
    for (int to = 0; to < 3; ++to) {
      if (from != to) each[{from, to}] = 30;
    }
  }
  EXPECT_EQ(traffic_of(blink::star_schedule(3), collective::all_gather, 90), each);
  EXPECT_EQ(traffic_of(blink::star_schedule(3), collective::reduce_scatter, 90), each);
  EXPECT_EQ(traffic_of(blink::all_to_all_schedule(3), collective::all_to_all, 90), each);
  for (auto& [ends, amount] : each) amount = 60;  // there and back
  EXPECT_EQ(traffic_of(blink::star_schedule(3), collective::all_reduce, 90), each);
  for (auto& [ends, amount] : each) amount = 90;  // whole buffers
  EXPECT_EQ(traffic_of(blink::one_shot_schedule(3), collective::all_reduce, 90), each);
  EXPECT_EQ(traffic_of(blink::scatter_schedule(3, 2), collective::scatter, 90),
            (pair_bytes{{{2, 0}, 30}, {{2, 1}, 30}}));
  EXPECT_EQ(traffic_of(blink::send_to_next_schedule(3), collective::send_to_next, 90),
            (pair_bytes{{{0, 1}, 90}, {{1, 2}, 90}}));
  EXPECT_EQ(traffic_of(blink::permute_schedule({1, 0, 2}), collective::permute, 90),
            (pair_bytes{{{0, 1}, 90}, {{1, 0}, 90}}));
}

TEST(plan_in_use, weights_divide_the_buffer) {
  auto source = blink::flat_schedule(2, 0);
  source.trees.push_back(blink::flat_schedule(2, 1).trees[0]);
  source.trees[1].weight = 3;
  EXPECT_EQ(traffic_of(source, collective::all_reduce, 80),
            (pair_bytes{{{0, 1}, 80}, {{1, 0}, 80}}));
  source.trees[0].broadcast_parent.clear();
  EXPECT_EQ(traffic_of(source, collective::all_reduce, 80),
            (pair_bytes{{{0, 1}, 60}, {{1, 0}, 80}}));
}

TEST(plan_in_use, differences_are_shares_of_what_was_recorded) {
  pair_bytes const recorded{{{0, 1}, 60}, {{1, 0}, 40}};
  EXPECT_DOUBLE_EQ(difference(recorded, recorded), 0);
  EXPECT_DOUBLE_EQ(difference(recorded, {{{0, 1}, 50}, {{1, 0}, 40}}), 0.1);
  EXPECT_DOUBLE_EQ(difference(recorded, {{{0, 1}, 60}, {{2, 0}, 40}}), 0.8);
  EXPECT_DOUBLE_EQ(difference({}, {}), 1);  // nothing was recorded, so nothing is equal
}

TEST(plan_in_use, an_algorithm_is_found_by_its_bytes) {
  std::mt19937 random(1);
  std::size_t found = 0;
  for (auto const kind : planned_collectives()) {
    SCOPED_TRACE(std::string(blink::to_text(kind)));
    auto const known = blink::default_algorithms(kind, 5);
    for (std::size_t k = 0; k < known.size(); ++k) {
      auto recorded = traffic_of(known[k].source, kind, bytes);
      // Shares are whole elements.
      for (auto& [ends, amount] : recorded) amount += static_cast<double>(random() % 64) - 32;
      auto const at = find_in_use(known, kind, bytes, recorded);
      ASSERT_LT(at, known.size());
      // Another algorithm may send the same bytes between the same ranks.
      EXPECT_LT(difference(traffic_of(known[at].source, kind, bytes),
                           traffic_of(known[k].source, kind, bytes)),
                1e-9)
          << known[k].name << " as " << known[at].name;
      found += at == k ? 1 : 0;
      for (auto& [ends, amount] : recorded) amount *= 1.2;  // that of no algorithm
      EXPECT_EQ(find_in_use(known, kind, bytes, recorded), known.size()) << known[k].name;
    }
  }
  EXPECT_GE(found, 14U);
  EXPECT_EQ(find_in_use({}, collective::all_reduce, bytes, {{{0, 1}, 1}}), 0U);
}

TEST(plan_in_use, a_schedule_becomes_a_plan_that_the_checker_accepts) {
  auto const machine = blink::machines::dgx1v();
  for (auto const kind : planned_collectives()) {
    for (auto const& each : blink::default_algorithms(kind, 8)) {
      SCOPED_TRACE(std::string(blink::to_text(kind)) + " by " + each.name);
      auto const made = plan_along(each, kind, machine, {});
      EXPECT_GT(made.plan.rate, blink::rational(0));
      EXPECT_EQ(made.is_one_shot, each.source.is_one_shot);
      EXPECT_GT(blink::seconds_for(made, bytes), 0);
      if (each.name == "shared") continue;  // combines at other ranks than the root
      auto const report = blink::check_plan(machine, made.plan);
      EXPECT_TRUE(report) << *report.fault;
    }
  }
}

TEST(plan_in_use, a_plan_along_its_own_schedule_moves_the_same_bytes) {
  auto const machine = blink::machines::dgx1v();
  for (auto const kind : planned_collectives()) {
    SCOPED_TRACE(std::string(blink::to_text(kind)));
    for (auto const& each : blink::default_algorithms(kind, 8)) {
      if (each.name == "shared") continue;
      auto const made = plan_along(each, kind, machine, {});
      auto source = blink::make_schedule(machine, made.plan, 1e9);
      source.is_one_shot = made.is_one_shot;
      EXPECT_LT(difference(traffic_of(each.source, kind, bytes), traffic_of(source, kind, bytes)),
                1e-9)
          << each.name;
    }
  }
}

TEST(plan_in_use, a_plan_along_its_own_schedule_takes_about_as_long) {
  auto const machine = blink::machines::dgx1v();
  blink::plan_request request{collective::all_gather};
  auto const plan = blink::make_plan(machine, request);
  auto const seconds = blink::predict(blink::cost_of(machine, plan), bytes).seconds;
  algorithm const again{"again", blink::make_schedule(machine, plan, 1e9)};
  auto const made = plan_along(again, collective::all_gather, machine, {});
  // Routes may differ where several are as short, and the rate with them.
  EXPECT_NEAR(blink::seconds_for(made, bytes), seconds, 0.3 * seconds);
}

}}  // namespace plan_in_use_test
