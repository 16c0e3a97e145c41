// SPDX-License-Identifier: Apache-2.0
// SimGrid's runs are compared with times computed by hand, and then with blink's simulation.
#include <blink/planning/make_plan.hpp>

#include "referee_cases.hpp"
#include "support/small_machines.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace fluid_run_test { namespace {

using namespace blink_bench;

constexpr double giga = 1e9;
constexpr double mebibyte = 1 << 20;

blink::plan broadcast_of(std::vector<int> ranks, std::vector<blink::tree_edge> edges,
                         std::int64_t rate) {
  blink::plan p{
      blink::collective::broadcast, "by hand", "GB/s", "", std::move(ranks), rate, 0, {}, {}};
  p.trees.push_back({0, rate, {}, std::move(edges)});
  return p;
}

TEST(fluid_run, a_chain_takes_height_plus_chunks_less_one_steps) {
  auto machine = blink::machines::line(5);
  machine.unit = "GB/s";
  for (auto& l : machine.links) l.capacity = 10, l.latency_seconds = 3e-6;
  auto const plan = broadcast_of(
      {0, 1, 2, 3, 4}, {{0, 1, {0, 1}}, {1, 2, {1, 2}}, {2, 3, {2, 3}}, {3, 4, {3, 4}}}, 10);
  for (int const chunks : {1, 2, 7, 100}) {
    auto const result = run_fluid(machine, plan, {{1e6 * chunks, {1e6}}});
    double const expected = 5e-6 + (4 + chunks - 1) * (2e-6 + 1e6 / (10 * giga)) + 4 * 3e-6;
    EXPECT_NEAR(result[0].seconds, expected, 1e-12) << chunks;
    EXPECT_EQ(result[0].messages, 4 * chunks);
  }
}

/// Four children behind one port. Fair sharing gives each a quarter, so that all chunks end
/// together and the port rests during each step. In turn, each step but the first is hidden.
TEST(fluid_run, children_share_the_port_of_their_parent) {
  auto const machine = blink::test::star_machine(5, 20);
  std::vector<blink::tree_edge> edges;
  for (int i = 1; i < 5; ++i) edges.push_back({0, i, {0, 5, i}});
  auto const plan = broadcast_of({0, 1, 2, 3, 4}, edges, 5);
  fluid_options options;
  options.start_seconds = 0;
  double const chunk_at_port = 1e6 / (20 * giga);
  auto const fair = run_fluid(machine, plan, {{1e7, {1e6}}}, options);
  EXPECT_NEAR(fair[0].seconds, 10 * (2e-6 + 4 * chunk_at_port), 1e-12);
  options.sharing = fluid_sharing::in_turn;
  auto const in_turn = run_fluid(machine, plan, {{1e7, {1e6}}}, options);
  EXPECT_NEAR(in_turn[0].seconds, 2e-6 + 40 * chunk_at_port, 1e-12);
}

/// A receiver that takes ten times as long to pass a chunk on stops its sender after `window`.
TEST(fluid_run, the_window_stops_a_sender) {
  auto machine = blink::machines::line(3);
  machine.unit = "GB/s";
  for (auto& l : machine.links) l.capacity = std::max(l.tail, l.head) == 2 ? 1 : 10;
  auto const plan = broadcast_of({0, 1, 2}, {{0, 1, {0, 1}}, {1, 2, {1, 2}}}, 1);
  fluid_options options;
  options.start_seconds = options.step_seconds = 0;
  for (std::size_t const window : {0U, 1U, 2U, 4U}) {
    options.window = window;
    double const slow = 1e6 / giga, first = 1e6 / (10 * giga);
    // With one credit, each chunk waits until the one before it has left the middle.
    double const expected = window == 1 ? 8 * (first + slow) : first + 8 * slow;
    EXPECT_NEAR(run_fluid(machine, plan, {{8e6, {1e6}}}, options)[0].seconds, expected, 1e-12)
        << window;
  }
}

TEST(fluid_run, calls_follow_each_other_on_idle_links) {
  auto const machine = blink::machines::dgx1v();
  auto const plan = blink::make_plan(machine, {blink::collective::all_reduce, {}, "exact"});
  fluid_call const call{mebibyte, std::vector<double>(plan.trees.size(), 32768)};
  auto const results = run_fluid(machine, plan, {call, call, call});
  EXPECT_NEAR(results[1].seconds, results[0].seconds, 1e-9);
  EXPECT_NEAR(results[2].seconds, results[0].seconds, 1e-9);
  EXPECT_EQ(results[2].messages, results[0].messages);
}

TEST(fluid_run, refuses_what_it_cannot_run) {
  auto const machine = blink::test::star_machine(3, 1);
  auto const plan = broadcast_of({0, 1, 2}, {{0, 1, {0, 3, 1}}, {0, 2, {0, 3, 2}}}, 1);
  EXPECT_THROW((void)run_fluid(machine, plan, {{-1, {1}}}), blink::precondition_error);
  EXPECT_THROW((void)run_fluid(machine, plan, {{1, {0}}}), blink::precondition_error);
  EXPECT_THROW((void)run_fluid(machine, plan, {{1, {}}}), blink::precondition_error);
  EXPECT_THROW((void)run_fluid(blink::machines::line(3), plan, {{1, {1}}}), blink::input_error);
  auto gap = machine;
  gap.links.clear();
  EXPECT_THROW((void)run_fluid(gap, plan, {{1, {1}}}), std::runtime_error);
  // 1 and 2 wait for each other.
  auto const cycle = broadcast_of({0, 1, 2}, {{1, 2, {1, 3, 2}}, {2, 1, {2, 3, 1}}}, 1);
  EXPECT_THROW((void)run_fluid(machine, cycle, {{1, {1}}}), std::runtime_error);
}

/// Of the machines of the table, those whose runs take least.
TEST(simulators, agree_with_fair_sharing) {
  for (auto const& on : referee_machines()) {
    if (on.name == "DGX-2" || on.name == "torus 4 x 4") continue;
    for (auto const kind : {blink::collective::all_reduce, blink::collective::broadcast,
                            blink::collective::all_gather, blink::collective::reduce_scatter}) {
      for (auto const& row : compare_simulators(on, kind, {mebibyte, 16 * mebibyte})) {
        EXPECT_NEAR(row.blink_fair / row.simgrid_fair, 1, 0.05)
            << on.name << ' ' << blink::to_text(kind) << ' ' << row.bytes;
      }
    }
  }
}

/// All-gathers whose tree edges are one link each. Their times do not depend on the order of
/// chunks that are ready at the same instant. docs/results/referee.md explains the other cases.
TEST(simulators, agree_in_turn_on_direct_links) {
  for (auto const& on : referee_machines()) {
    if (!on.name.starts_with("DGX-1")) continue;
    for (auto const& row :
         compare_simulators(on, blink::collective::all_gather, {mebibyte, 16 * mebibyte})) {
      EXPECT_NEAR(row.blink_fifo / row.simgrid_in_turn, 1, 0.05) << on.name << ' ' << row.bytes;
    }
  }
}

}}  // namespace fluid_run_test
