// SPDX-License-Identifier: Apache-2.0
// The simulation is compared with times computed by hand, and the cost model with the simulation.
#include <blink/planning/choose_plan.hpp>
#include <blink/planning/cost/cost_model.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/simulation/simulate.hpp>
#include <blink/topology/copying_switches.hpp>
#include <blink/topology/machines.hpp>

#include "support/random_graphs.hpp"
#include "support/small_machines.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

// Rooms may be compiled as one source.
namespace simulate_test { namespace {

using namespace blink;

constexpr double giga = 1e9;

/// A broadcast along 0 -> 1 -> ... -> n-1, with one tree of the whole rate.
plan chain_plan(int n, std::int64_t rate) {
  plan p{collective::broadcast, "by hand", "GB/s", "", {}, rate, 0, {}, {}};
  tree t{0, rate, {}, {}};
  for (int i = 0; i < n; ++i) p.ranks.push_back(i);
  for (int i = 0; i + 1 < n; ++i) t.broadcast.push_back({i, i + 1, {i, i + 1}});
  p.trees.push_back(t);
  return p;
}

topology line_machine(int n, std::int64_t capacity) {
  auto machine = machines::line(n);
  machine.unit = "GB/s";
  for (auto& l : machine.links) l.capacity = capacity;
  return machine;
}

TEST(simulate, chain_takes_height_plus_chunks_less_one_steps) {
  auto machine = line_machine(5, 10);
  for (auto& l : machine.links) l.latency_seconds = 3e-6;
  auto const p = chain_plan(5, 10);
  simulation_options const options{.start_seconds = 1e-6, .step_seconds = 2e-6};
  for (int const chunks : {1, 2, 7, 100}) {
    double const chunk = 1e6;
    auto const result = simulate(machine, p, chunk * chunks, chunk, options);
    // Each of the four edges adds its latency once, because latencies do not delay the next chunk.
    double const expected = 1e-6 + (4 + chunks - 1) * (2e-6 + chunk / (10 * giga)) + 4 * 3e-6;
    EXPECT_NEAR(result.seconds, expected, 1e-12) << chunks;
    EXPECT_EQ(result.messages, 4 * chunks);
    EXPECT_NEAR(result.busy_seconds.at({0, 1}), chunk * chunks / (10 * giga), 1e-12);
    EXPECT_EQ(result.busy_seconds.at({1, 0}), 0);
  }
}

/// Over a switch that copies and reduces, each rank's data crosses each port once in each
/// direction. Forwarding takes nearly twice that time.
TEST(simulate, switches_that_copy_and_reduce) {
  auto const forwarding = machines::dgx2();
  auto const copying = with_copying_switches(forwarding, "all");
  plan_request const request{collective::all_reduce, {}, "exact"};
  simulation_options const options{.start_seconds = 0, .step_seconds = 0, .window = 0};
  double const bytes = 1.5e9, chunk = 1e6;
  auto const by_copies = simulate(copying, make_plan(copying, request), bytes, chunk, options);
  auto const by_trees = simulate(forwarding, make_plan(forwarding, request), bytes, chunk, options);
  EXPECT_NEAR(by_copies.seconds, bytes / (150 * giga), 5e-5);
  EXPECT_NEAR(by_trees.seconds, bytes / (80 * giga), 5e-5);
  for (auto const& [link, busy] : by_copies.busy_seconds) {
    EXPECT_NEAR(busy, bytes / (150 * giga), 1e-9) << link.first << " -> " << link.second;
  }
}

TEST(simulate, children_share_the_port_of_their_parent) {
  auto const machine = test::star_machine(5, 20);
  plan p{collective::broadcast, "by hand", "GB/s", "", {0, 1, 2, 3, 4}, 5, 0, {}, {}};
  tree t{0, 5, {}, {}};
  for (int i = 1; i < 5; ++i) t.broadcast.push_back({0, i, {0, 5, i}});
  p.trees.push_back(t);
  auto const seconds = [&](double bytes, double chunk) {
    return simulate(machine, p, bytes, chunk, {.start_seconds = 0, .step_seconds = 1e-6}).seconds;
  };
  EXPECT_NEAR(seconds(1e6, 1e6), 1e-6 + 4 * 1e6 / (20 * giga), 1e-12);
  // With ten chunks the port is never idle, because chunks of other edges hide each step.
  EXPECT_NEAR(seconds(1e7, 1e6), 1e-6 + 4 * 1e7 / (20 * giga), 1e-12);
}

TEST(simulate, all_reduce_turns_round_at_the_root_chunk_by_chunk) {
  auto const machine = line_machine(3, 1);
  plan p{collective::all_reduce, "by hand", "GB/s", "", {0, 1, 2}, 1, 0, {}, {}};
  p.trees.push_back({0, 1, {{2, 1, {2, 1}}, {1, 0, {1, 0}}}, {{0, 1, {0, 1}}, {1, 2, {1, 2}}}});
  auto const result = simulate(machine, p, 3e6, 1e6, {.start_seconds = 0, .step_seconds = 0});
  EXPECT_NEAR(result.seconds, (4 + 3 - 1) * 1e-3, 1e-12);
}

TEST(simulate, large_messages_approach_the_rate_of_the_plan) {
  for (auto const& machine : {machines::dgx1v(), machines::dgx1p(), machines::dgx2()}) {
    for (auto const kind : {collective::broadcast, collective::all_reduce, collective::all_gather,
                            collective::reduce_scatter, collective::reduce}) {
      auto const p = make_plan(machine, {kind, {}, "exact"});
      double const bytes = 4e9;
      auto const chunks = predict(cost_of(machine, p), bytes).chunk_bytes;
      double const rate = bytes / simulate(machine, p, bytes, chunks).seconds;
      EXPECT_GT(rate, 0.93 * p.rate.to_double() * giga) << machine.name << to_text(kind);
      EXPECT_LT(rate, 1.0000001 * p.rate.to_double() * giga) << machine.name << to_text(kind);
    }
  }
}

TEST(simulate, refuses_what_it_cannot_run) {
  auto const machine = line_machine(3, 1);
  auto const p = chain_plan(3, 1);
  EXPECT_THROW((void)simulate(machine, p, 1e12, 1.0), input_error);
  EXPECT_THROW((void)simulate(machine, p, -1, 1.0), precondition_error);
  EXPECT_THROW((void)simulate(machine, p, 1, 0.0), precondition_error);
  EXPECT_THROW((void)simulate(machine, p, 1, std::vector<double>{}), precondition_error);
  EXPECT_THROW((void)simulate(machines::line(3), p, 1, 1.0), input_error);  // unit "links"
  EXPECT_NO_THROW((void)simulate(machines::line(3), p, 1, 1.0, {.bytes_per_unit = 1e9}));
  auto gap = machine;
  gap.links.clear();
  EXPECT_THROW((void)simulate(gap, p, 1, 1.0), planning_error);
}

/// The largest factor between model and simulation, over small to large sizes.
double largest_factor(topology const& machine, plan const& p, cost_parameters const& parameters) {
  auto const cost = cost_of(machine, p, parameters);
  simulation_options const options{parameters.start_seconds, parameters.step_seconds,
                                   parameters.bytes_per_unit};
  double largest = 1;
  for (double bytes = 64; bytes <= 256 * 1024 * 1024; bytes *= 16) {
    auto const model = predict(cost, bytes);
    auto const simulated = simulate(machine, p, bytes, model.chunk_bytes, options);
    double const factor = model.seconds / simulated.seconds;
    largest = std::max(largest, std::max(factor, 1 / factor));
  }
  return largest;
}

TEST(cost_model, is_exact_on_chains) {
  auto machine = line_machine(6, 25);
  for (auto& l : machine.links) l.latency_seconds = 1e-6;
  EXPECT_LT(largest_factor(machine, chain_plan(6, 25), {}), 1.0001);
}

TEST(cost_model, agrees_with_the_simulation_on_every_planners_plans) {
  double worst = 1;
  for (auto const& machine :
       {machines::dgx1v(), machines::dgx1p(), machines::dgx2(), machines::dgx_h100()}) {
    for (int kind = 0; kind < 5; ++kind) {
      plan_request const request{static_cast<collective>(kind), {}, "exact"};
      for (auto const& candidate : all_plans(machine, request).plans) {
        auto const& p = candidate.plan;
        SCOPED_TRACE(machine.name + " " + std::string(to_text(p.collective)) + " " + p.planner);
        double const factor = largest_factor(machine, p, {.start_seconds = 0});
        // Planners that ignore the machine make messages queue for shared links.
        bool const fits_the_machine = p.planner == "exact" || p.planner == "blink" ||
                                      p.planner == "ring" || p.planner == "one_hop" ||
                                      p.planner == "double_tree";
        EXPECT_LT(factor, fits_the_machine ? 1.5 : 1.9);
        worst = std::max(worst, factor);
      }
    }
  }
  RecordProperty("worst", std::to_string(worst));
}

TEST(cost_model, agrees_with_the_simulation_on_random_machines) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    auto const random = test::make_connected_graph(seed, 3 + seed % 5, 2, 5);
    topology machine;
    machine.name = "random";
    for (int v = 0; v < random.graph.vertex_count; ++v)
      machine.nodes.push_back({v, node_kind::rank, {}, 0});
    for (std::size_t e = 0; e < random.capacity.size(); ++e) {
      auto const& a = random.graph.arcs[e];
      if (random.capacity[e] == 0) continue;
      machine.links.push_back({a.tail, a.head, 10 * random.capacity[e], 1e-6, link_kind::nvlink});
    }
    for (int kind = 0; kind < 5; ++kind) {
      auto const p = make_plan(machine, {static_cast<collective>(kind), {}, "exact"});
      EXPECT_LT(largest_factor(machine, p, {.start_seconds = 0}), 2.0) << kind;
    }
  }
}

}}  // namespace simulate_test
