// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/choose_tuning.hpp>
#include <blink/simulation/correct_predictions.hpp>
#include <blink/topology/built_in_machines.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <set>
#include <string>

// A folder may be compiled as one source.
namespace correct_predictions_test {

using namespace blink;

namespace {

constexpr std::int64_t first = 64, last = std::int64_t{1} << 24;

// On two servers of MI250 the model takes box_tree for twice as fast as it is.
TEST(correct_predictions, expected_times_are_those_of_the_simulation) {
  for (auto const* name : {"mi250:2", "dgx1v"}) {
    auto const machine = *make_built_in_machine(name);
    auto candidates = all_algorithms(machine, {collective::all_reduce, {}, "exact"});
    auto const predicted = candidates;
    correct_predictions(machine, candidates, first, last);
    int corrected = 0, compared = 0;
    for (std::size_t i = 0; i < candidates.plans.size(); ++i) {
      auto const& each = candidates.plans[i];
      for (std::int64_t size = first; size <= last; size *= 2) {
        auto const bytes = static_cast<double>(size);
        double const seconds = seconds_for(each, bytes);
        corrected += seconds != seconds_for(predicted.plans[i], bytes);
        if (seconds > 1.5 * fastest(candidates, bytes).seconds) continue;
        auto const moved = planned_bytes(each, bytes);
        double const simulated =
            simulate(machine, each.plan, moved, predict(each.cost, moved).chunk_bytes).seconds;
        EXPECT_LE(std::abs(simulated / seconds - 1), 0.05 + 1e-9) << name_of(each) << " " << size;
        ++compared;
      }
    }
    EXPECT_GT(corrected, 0) << name;
    EXPECT_GT(compared, 20) << name;
  }
}

// On rings, tori and servers, the chosen planner is as fast as any other, as simulated.
TEST(correct_predictions, no_planner_is_faster_than_the_chosen_one) {
  std::set<std::string> winners;
  for (auto const* name : {"ring:16", "torus:3x3", "torus:4x4", "dgx_a100:2"}) {
    auto machine = *make_built_in_machine(name);
    if (machine.unit != "GB/s") {
      machine.unit = "GB/s";
      for (auto& l : machine.links) {
        l.capacity *= 25;
        l.latency_seconds = 1e-6;
      }
    }
    auto candidates = all_plans(machine, {collective::all_reduce, {}, "exact"});
    correct_predictions(machine, candidates, first, last);
    for (std::int64_t size = first; size <= last; size *= 4) {
      auto const bytes = static_cast<double>(size);
      auto const simulated = [&](plan_candidate const& each) {
        auto const moved = planned_bytes(each, bytes);
        return simulate(machine, each.plan, moved, predict(each.cost, moved).chunk_bytes).seconds;
      };
      auto const& chosen = candidates.plans[fastest(candidates, bytes).candidate];
      double const seconds = simulated(chosen);
      winners.insert(chosen.plan.planner);
      for (auto const& each : candidates.plans) {
        EXPECT_LE(seconds, 1.05 * simulated(each))
            << name << " " << size << ": " << name_of(chosen) << ", " << name_of(each);
      }
    }
  }
  for (auto const* each : {"one_hop", "trivance", "swing", "exact"}) {
    EXPECT_TRUE(winners.contains(each)) << each;
  }
}

TEST(correct_predictions, predictions_stay_where_nothing_is_simulated) {
  auto const machine = *make_built_in_machine("mi250:2");
  auto candidates = all_plans(machine, {collective::all_reduce, {}, "exact"});
  auto const predicted = candidates;
  correction_options none;
  none.most_messages = 0;
  correct_predictions(machine, candidates, first, last, {}, none);
  for (std::size_t i = 0; i < candidates.plans.size(); ++i) {
    EXPECT_EQ(seconds_for(candidates.plans[i], 1e6), seconds_for(predicted.plans[i], 1e6));
  }
  EXPECT_THROW(correct_predictions(machine, candidates, 0, 8), precondition_error);
  EXPECT_THROW(correct_predictions(machine, candidates, 9, 8), precondition_error);
}

}  // namespace
}  // namespace correct_predictions_test
