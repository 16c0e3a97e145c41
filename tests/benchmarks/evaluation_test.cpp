// SPDX-License-Identifier: Apache-2.0
// The published evaluations: counts, the computed table, and the simulation beside it.
#include <blink/topology/built_in_machines.hpp>

#include "../../benchmarks/evaluation/allocations.hpp"
#include "../../benchmarks/evaluation/winners.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// A folder may be compiled as one source.
namespace evaluation_test {

using namespace blink;

namespace {

std::vector<bench::allocation_rates> const& evaluated_allocations() {
  static auto const all = bench::evaluate_allocations();
  return all;
}

/// Allocations of one machine, and those of them without a ring of NVLinks.
std::pair<int, int> count_allocations(bool volta) {
  int count = 0, without = 0;
  for (auto const& each : evaluated_allocations()) {
    if (each.is_volta() != volta) continue;
    ++count;
    without += each.all_reduce.rings ? 0 : 1;
    EXPECT_EQ(each.broadcast.rings.has_value(), each.all_reduce.rings.has_value()) << each.name;
  }
  return {count, without};
}

TEST(evaluation, has_46_and_14_allocations_of_which_21_and_5_have_no_ring) {
  EXPECT_EQ(count_allocations(true), std::pair(46, 21));
  EXPECT_EQ(count_allocations(false), std::pair(14, 5));
}

// The values were computed by an independent program from exact optima, max-flows and rings.
TEST(evaluation, speed_ups_are_the_known_ones) {
  struct known {
    bool volta;
    collective kind;
    std::size_t hop;
    double most, mean;
  };
  for (auto const& [volta, kind, hop, most, mean] :
       {known{true, collective::broadcast, 0, 7.633, 2.165},
        known{true, collective::broadcast, 1, 5.725, 1.898},
        known{true, collective::broadcast, 2, 4.580, 1.715},
        known{true, collective::all_reduce, 0, 12.213, 3.079},
        known{true, collective::all_reduce, 1, 9.160, 2.700},
        known{true, collective::all_reduce, 2, 7.328, 2.438},
        known{false, collective::broadcast, 0, 3.083, 1.631},
        known{false, collective::broadcast, 1, 2.312, 1.472},
        known{false, collective::broadcast, 2, 1.850, 1.359},
        known{false, collective::all_reduce, 0, 4.933, 2.001},
        known{false, collective::all_reduce, 1, 3.700, 1.806},
        known{false, collective::all_reduce, 2, 2.960, 1.667}}) {
    SCOPED_TRACE(std::string(volta ? "V " : "P ") + std::string(to_text(kind)) + " over " +
                 std::to_string(bench::pcie_hops[hop]) + " GB/s");
    auto const sum = bench::summarise(evaluated_allocations(), volta, kind, hop);
    EXPECT_NEAR(sum.computed.most, most, 0.001);
    EXPECT_NEAR(sum.computed.mean, mean, 0.001);
    // Steps of 2 us cost the trees of five GPUs, whose first result takes eight, 2.5 %.
    EXPECT_NEAR(sum.simulated.most / sum.computed.most, 1, 0.025);
    EXPECT_NEAR(sum.simulated.mean / sum.computed.mean, 1, 0.02);
  }
}

TEST(evaluation, simulated_rates_approach_the_plans) {
  double worst = 1;
  for (auto const& each : evaluated_allocations()) {
    for (auto const* of_kind : {&each.broadcast, &each.all_reduce}) {
      std::vector<bench::rate_pair> rates{of_kind->trees};
      if (of_kind->rings) rates.push_back(*of_kind->rings);
      rates.insert(rates.end(), of_kind->fallback.begin(), of_kind->fallback.end());
      for (auto const& rate : rates) {
        EXPECT_LE(rate.simulated, rate.computed * (1 + 1e-9)) << each.name;
        EXPECT_GT(rate.simulated, 0.9 * rate.computed) << each.name;
        worst = std::min(worst, rate.simulated / rate.computed);
      }
    }
  }
  RecordProperty("worst", std::to_string(worst));
}

TEST(evaluation, predicted_winners_do_not_lose) {
  for (auto const* name : {"dgx1v", "dgx2"}) {
    for (auto const kind : {collective::all_reduce, collective::all_gather}) {
      auto const count = bench::count_winners(*make_built_in_machine(name), kind, 1 << 16, 1 << 24);
      EXPECT_EQ(count.sizes, 9);
      EXPECT_EQ(count.corrected_losses, 0) << name << " " << to_text(kind);
      EXPECT_LE(count.corrected_worst, 1.05);
      EXPECT_EQ(count.between_losses, 0) << name << " " << to_text(kind);
    }
  }
}

// A ring of four fills its links with any chunk, so the smallest would be the best by a hair.
TEST(cost_model_chunks, are_no_smaller_than_they_gain) {
  test::capacity_matrix matrix(4, std::vector<std::int64_t>(4, 0));
  for (std::size_t i = 0; i < 4; ++i) matrix[i][(i + 1) % 4] = 6;
  auto const machine = test::direct_machine(matrix);
  auto const ring = make_plan(machine, {collective::all_reduce, {}, planned_by::ring});
  double const bytes = 1 << 30;
  auto const predicted = predict(cost_of(machine, ring), bytes);
  EXPECT_GT(*std::ranges::min_element(predicted.chunk_bytes), 65536);
  EXPECT_LT(predicted.seconds, 1.002 * bytes / (ring.rate.to_double() * 1e9));
  EXPECT_GT(bench::simulated_rate(machine, ring, bytes), 0.99 * ring.rate.to_double());
}

}  // namespace
}  // namespace evaluation_test
