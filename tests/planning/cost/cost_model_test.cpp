// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/choose_plan.hpp>
#include <blink/planning/choose_tuning.hpp>
#include <blink/planning/cost/cost_model.hpp>
#include <blink/topology/machines.hpp>

#include "support/small_machines.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace blink;

topology chain_machine(int n) {
  auto machine = machines::line(n);
  machine.unit = "GB/s";
  return machine;
}

plan chain_broadcast(topology const& machine) {
  auto p = make_plan(machine, {collective::broadcast, 0, "exact"});
  EXPECT_EQ(p.trees.size(), 1U);
  return p;
}

TEST(cost_model, is_the_formula_on_a_chain) {
  constexpr double a = 2e-6, b = 1e9;
  for (int const n : {3, 5, 9}) {
    auto const machine = chain_machine(n);
    auto const cost = cost_of(machine, chain_broadcast(machine),
                              {.start_seconds = 0, .step_seconds = a, .smallest_chunk_bytes = 1});
    double const h = n - 1;
    for (double const bytes : {1e3, 1e5, 1e7, 1e8}) {
      auto const time = predict(cost, bytes);
      double const best = std::sqrt(a * b * bytes / (h - 1));
      double const chunk = time.chunk_bytes.front();
      EXPECT_NEAR(time.seconds, (std::ceil(bytes / chunk - 1e-9) + h - 1) * (a + chunk / b), 1e-12);
      if (best < bytes / 2) {
        EXPECT_NEAR(chunk, best, 0.3 * best);
      }
      // No whole number of chunks is better.
      for (double chunks = 1; chunks < 1000; ++chunks) {
        double const other = (chunks + h - 1) * (a + bytes / chunks / b);
        EXPECT_LE(time.seconds, other * (1 + 1e-9)) << bytes << " in " << chunks;
      }
    }
  }
}

TEST(cost_model, a_barrier_costs_the_way_there_and_back) {
  auto machine = chain_machine(5);
  for (auto& l : machine.links) l.latency_seconds = 1e-6;
  auto const plans = all_plans(machine, {collective::barrier, {}, {}},
                               {.start_seconds = 5e-6, .step_seconds = 2e-6});
  ASSERT_FALSE(plans.plans.empty());
  for (auto const& each : plans.plans) {  // the rank in the middle is two steps from both ends
    EXPECT_NEAR(predict(each.cost, 0).seconds, 5e-6 + 4 * (2e-6 + 1e-6), 1e-12);
  }
}

TEST(cost_model, small_messages_cost_height_and_latency) {
  auto machine = chain_machine(4);
  for (auto& l : machine.links) l.latency_seconds = 1e-6;
  auto const cost =
      cost_of(machine, chain_broadcast(machine), {.start_seconds = 5e-6, .step_seconds = 2e-6});
  EXPECT_NEAR(predict(cost, 0).seconds, 5e-6 + 3 * (2e-6 + 1e-6), 1e-12);
  EXPECT_NEAR(predict(cost, 8).seconds, 5e-6 + 3 * (2e-6 + 1e-6 + 8e-9), 1e-12);
}

// Rank 0 has one port for the two edges at the root, and a rank below one of them. A first chunk
// waits for the other where the higher part is served last.
TEST(cost_model, the_highest_part_is_served_first) {
  constexpr double step = 2e-6, byte = 1e-9;
  auto machine = test::star_machine(4, 1);
  machine.unit = "GB/s";
  int const hub = machine.nodes.back().id;
  auto const edge = [&](int from, int to) { return tree_edge{from, to, {from, hub, to}}; };
  for (bool const high_first : {true, false}) {
    for (auto const kind : {collective::broadcast, collective::reduce}) {
      SCOPED_TRACE(std::string(to_text(kind)) + (high_first ? ", high first" : ", high last"));
      bool const up = kind == collective::reduce;
      auto const hop = [&](int near, int far) { return up ? edge(far, near) : edge(near, far); };
      std::vector<tree_edge> edges{hop(0, 2), hop(0, 1), hop(1, 3)};
      if (high_first) std::swap(edges[0], edges[1]);
      plan p{kind, "by hand", machine.unit, "", {0, 1, 2, 3}, rational(1), rational(1), {}, {}};
      p.trees.push_back({0, rational(1), {}, {}});
      (up ? p.trees[0].reduce : p.trees[0].broadcast) = edges;
      auto const cost = cost_of(machine, p, {.start_seconds = 0, .step_seconds = step});
      // To rank 3: two steps, each for one chunk. To rank 2: one step, in the time of two chunks.
      ASSERT_EQ(cost.trees.size(), 1U);
      ASSERT_EQ(cost.trees[0].paths.size(), 1U);
      EXPECT_NEAR(cost.trees[0].paths[0].seconds, 2 * step, 1e-12);
      EXPECT_NEAR(cost.trees[0].paths[0].seconds_per_byte, 2 * byte, 1e-15);
    }
  }
}

TEST(cost_model, large_messages_cost_size_over_rate) {
  auto const machine = machines::dgx1v();
  for (int kind = 0; kind < 5; ++kind) {
    auto const p = make_plan(machine, {static_cast<collective>(kind), {}, "exact"});
    auto const cost = cost_of(machine, p);
    EXPECT_NEAR(cost.seconds_per_byte, 1 / (p.rate.to_double() * 1e9), 1e-16);
    double const bytes = 1e11;
    EXPECT_NEAR(bytes / predict(cost, bytes).seconds, p.rate.to_double() * 1e9,
                0.02 * p.rate.to_double() * 1e9);
  }
}

TEST(cost_model, grows_with_the_size) {
  auto const candidates = all_plans(machines::dgx1v(), {collective::all_reduce, {}, "exact"});
  EXPECT_GE(candidates.plans.size(), 3U);
  for (auto const& each : candidates.plans) {
    double last = 0;
    for (double bytes = 1; bytes < 1e9; bytes *= 1.7) {
      double const now = predict(each.cost, bytes).seconds;
      EXPECT_GE(now, last * (1 - 1e-3)) << each.plan.planner << " " << bytes;
      last = now;
    }
  }
}

TEST(cost_model, needs_the_rate_of_a_unit) {
  auto const machine = machines::ring(4);
  auto const p = make_plan(machine, {collective::all_reduce, {}, "exact"});
  EXPECT_THROW((void)cost_of(machine, p), input_error);
  EXPECT_GT(predict(cost_of(machine, p, {.bytes_per_unit = 25e9}), 1e6).seconds, 1e6 / 50e9);
}

TEST(choose_plan, takes_low_trees_for_small_and_the_highest_rate_for_large_messages) {
  auto const machine = machines::dgx2();
  plan_request const request{collective::all_reduce, {}, "exact"};
  auto const candidates = all_plans(machine, request);
  auto const& large = candidates.plans[fastest(candidates, 1e10).candidate].plan;
  for (auto const& each : candidates.plans) EXPECT_LE(each.plan.rate, large.rate);
  EXPECT_EQ(choose_plan(machine, request, 1e10).planner, large.planner);
  auto const& small = candidates.plans[fastest(candidates, 8).candidate];
  double const least = predict(small.cost, 8).seconds;
  for (auto const& each : candidates.plans) EXPECT_LE(least, predict(each.cost, 8).seconds);
}

TEST(choose_methods, one_shot_for_the_smallest_and_full_links_for_the_largest) {
  for (auto const& machine : {machines::dgx1v(), machines::dgx2(), machines::dgx_h100()}) {
    SCOPED_TRACE(machine.name);
    plan_request const request{collective::all_reduce, {}, "exact"};
    auto const table = choose_tuning(machine, request);
    validate(table);
    auto const& smallest = table.algorithms[table.ranges.front().algorithm];
    auto const& largest = table.algorithms[table.ranges.back().algorithm];
    EXPECT_TRUE(smallest.source.is_one_shot) << smallest.name;
    EXPECT_FALSE(largest.source.is_one_shot) << largest.name;
    // Another planner stays in use where the optimum gains less than a hundredth.
    EXPECT_GE(predicted_bytes_per_second(largest.source, collective::all_reduce),
              make_plan(machine, request).rate.to_double() * 1e9 / (1 + least_gain));
    // A one-shot call moves as many buffers over the links as there are ranks.
    EXPECT_LT(predicted_bytes_per_second(smallest.source, collective::all_reduce),
              predicted_bytes_per_second(largest.source, collective::all_reduce));
    auto const candidates = all_algorithms(machine, request);
    for (auto const& range : table.ranges) {
      auto const bytes = static_cast<double>(std::max<std::size_t>(8, range.from_bytes));
      auto const best = candidates.plans[fastest(candidates, bytes).candidate];
      EXPECT_EQ(name_of(best), table.algorithms[range.algorithm].name) << bytes;
    }
  }
}

TEST(choose_methods, others_than_all_reduce_have_no_one_shot_form) {
  auto const table = choose_tuning(machines::dgx1v(), {collective::all_gather, {}, "exact"});
  validate(table);
  for (auto const& each : table.algorithms) EXPECT_FALSE(each.source.is_one_shot);
}

// A candidate in use is never slower than the fastest by more than the least gain. Each change
// gains more than that somewhere before the next.
TEST(choose_plan, crossovers_are_where_another_is_faster_by_a_hundredth) {
  int changes = 0, kept = 0;
  for (auto const& machine : {machines::dgx1v(), machines::dgx2()}) {
    for (auto const kind : {collective::broadcast, collective::all_reduce}) {
      auto const candidates = all_plans(machine, {kind, {}, "exact"});
      constexpr std::int64_t first = 8, last = std::int64_t{1} << 32;
      auto const found = crossovers(candidates, first, last);
      EXPECT_EQ(found.front().bytes, first);
      for (std::size_t i = 0; i < found.size(); ++i) {
        auto const at = static_cast<double>(found[i].bytes);
        EXPECT_EQ(fastest(candidates, at).candidate, found[i].candidate);
        if (i == 0) continue;
        ++changes;
        auto const& before = candidates.plans[found[i - 1].candidate];
        auto const& after = candidates.plans[found[i].candidate];
        auto const end = i + 1 < found.size() ? static_cast<double>(found[i + 1].bytes) : 2e10;
        double gain = 0;
        for (double bytes = at; bytes < end; bytes *= 1.01) {
          gain = std::max(gain, seconds_for(before, bytes) / seconds_for(after, bytes) - 1);
        }
        EXPECT_GT(gain, least_gain);
      }
      for (std::int64_t bytes = first; bytes <= last; bytes += 1 + bytes / 5) {
        auto const used = candidate_for(found, bytes);
        auto const best = fastest(candidates, static_cast<double>(bytes));
        double const seconds = seconds_for(candidates.plans[used], static_cast<double>(bytes));
        EXPECT_LE(seconds, best.seconds * (1 + least_gain) * (1 + 1e-9)) << bytes;
        kept += used != best.candidate;
      }
    }
  }
  EXPECT_GT(changes, 0);
  EXPECT_GT(kept, 0);
}

TEST(choose_plan, corrections_are_linear_in_the_logarithm_of_the_size) {
  plan_candidate candidate{make_plan(machines::dgx1v(), {collective::broadcast, {}, "exact"}), {}};
  candidate.cost = cost_of(machines::dgx1v(), candidate.plan);
  EXPECT_DOUBLE_EQ(correction_for(candidate, 1e6), 1);
  candidate.corrections = {{1e3, 2}, {1e5, 1}, {1e6, 1}};
  EXPECT_DOUBLE_EQ(correction_for(candidate, 8), 2);
  EXPECT_DOUBLE_EQ(correction_for(candidate, 1e4), 1.5);
  EXPECT_DOUBLE_EQ(correction_for(candidate, 1e9), 1);
  double const predicted = predict(candidate.cost, 1e4).seconds;
  EXPECT_DOUBLE_EQ(seconds_for(candidate, 1e4), 1.5 * predicted);
}

TEST(choose_plan, says_why_planners_refuse) {
  // Ranks 0, 1 and 4 of a DGX-1 lie on no ring.
  auto const machine = test::direct_machine(test::part_of(test::dgx1v_matrix(25), 0b10011));
  auto const candidates = all_plans(machine, {collective::all_reduce, {}, "exact"});
  bool named = false;
  for (auto const& [planner, reason] : candidates.refused) named = named || planner == "ring";
  EXPECT_TRUE(named);
  auto const apart = test::direct_machine({{0, 0}, {1, 0}});
  EXPECT_THROW((void)all_plans(apart, {collective::all_gather, {}, "exact"}), planning_error);
}

}  // namespace
