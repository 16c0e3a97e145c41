// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/topology/machines.hpp>
#include <blink/topology/subset.hpp>
#include <blink/topology/without_routes.hpp>

#include "support/brute_force.hpp"
#include "support/random_machines.hpp"
#include "support/small_machines.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

// Rooms may be compiled as one source.
namespace make_plan_test { namespace {

using namespace blink;

plan sound_plan(topology const& machine, plan_request const& request) {
  auto p = make_plan(machine, request);
  auto const report = check_plan(machine, p);
  EXPECT_EQ(report.fault.value_or(""), "") << request.planner << " " << to_text(p.collective);
  return p;
}

bool strongly_connected(test::capacity_matrix const& matrix) {
  return test::best_all_gather(matrix) > rational(0);
}

/// The exact planner against brute force, for every collective and root.
void expect_optimal(test::capacity_matrix const& matrix, bool symmetric) {
  auto const machine = test::direct_machine(matrix);
  auto const n = static_cast<int>(matrix.size());
  auto transposed = matrix;
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    for (std::size_t j = 0; j < matrix.size(); ++j) transposed[j][i] = matrix[i][j];
  }
  for (int root = 0; root < n; ++root) {
    auto const r = static_cast<std::size_t>(root);
    EXPECT_EQ(sound_plan(machine, {collective::broadcast, root, "exact"}).rate,
              test::best_broadcast(matrix, r));
    EXPECT_EQ(sound_plan(machine, {collective::reduce, root, "exact"}).rate,
              test::best_broadcast(transposed, r));
  }
  EXPECT_EQ(sound_plan(machine, {collective::all_gather, {}, "exact"}).rate,
            test::best_all_gather(matrix));
  EXPECT_EQ(sound_plan(machine, {collective::reduce_scatter, {}, "exact"}).rate,
            test::best_all_gather(transposed));
  auto const all_reduce = sound_plan(machine, {collective::all_reduce, {}, "exact"});
  if (symmetric) {
    EXPECT_EQ(all_reduce.rate, test::best_symmetric_all_reduce(matrix));
  }
  EXPECT_EQ(all_reduce.rate, all_reduce.bound);
}

TEST(make_plan, is_optimal_on_every_subset_of_both_dgx1) {
  for (auto const& whole : {test::dgx1v_matrix(1), test::dgx1p_matrix(1)}) {
    for (unsigned chosen = 1; chosen < 256; ++chosen) {
      auto const matrix = test::part_of(whole, chosen);
      if (matrix.size() < 2) continue;
      SCOPED_TRACE("subset " + std::to_string(chosen));
      if (strongly_connected(matrix)) {
        expect_optimal(matrix, true);
      } else {
        EXPECT_THROW((void)make_plan(test::direct_machine(matrix), {}), planning_error);
      }
    }
  }
}

TEST(make_plan, is_optimal_on_random_machines) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    auto const n = 2 + random() % 5;
    bool const symmetric = seed % 2 == 0;
    test::capacity_matrix matrix(n, std::vector<std::int64_t>(n, 0));
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        if (i != j && random() % 3 != 0) matrix[i][j] = 1 + static_cast<int>(random() % 6);
      }
    }
    if (symmetric) {
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < i; ++j) matrix[i][j] = matrix[j][i];
      }
    }
    if (strongly_connected(matrix)) {
      expect_optimal(matrix, symmetric);
    } else {
      EXPECT_THROW(
          (void)make_plan(test::direct_machine(matrix), {collective::all_gather, {}, "exact"}),
          planning_error);
    }
  }
}

/// Capacities up to a million, so that nothing depends on small numbers.
TEST(make_plan, is_optimal_on_random_machines_with_large_capacities) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed + 1000);
    auto const n = 2 + random() % 4;
    bool const symmetric = seed % 2 == 0;
    test::capacity_matrix matrix(n, std::vector<std::int64_t>(n, 0));
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        if (i != j && (j == (i + 1) % n || random() % 3 != 0)) {
          matrix[i][j] = 1 + static_cast<int>(random() % 1'000'000);
        }
      }
    }
    if (symmetric) {
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < i; ++j) matrix[i][j] = matrix[j][i];
      }
    }
    if (strongly_connected(matrix)) expect_optimal(matrix, symmetric);
  }
}

/// The bounds are cuts or prices, recomputed by the checker: a plan that reaches one is optimal.
TEST(make_plan, reaches_the_bound_on_random_machines_with_switches) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    unsigned const largest = seed % 3 == 0 ? 1'000'000 : 6;
    auto const machine =
        seed % 2 == 0
            ? test::make_random_machine(seed, 2 + seed % 7, 1 + seed % 5, 4 + seed % 11, largest)
            : test::make_random_duplex_machine(seed, 2 + seed % 7, 1 + seed % 5, seed % 8, largest);
    for (auto const kind : {collective::broadcast, collective::reduce, collective::all_gather,
                            collective::reduce_scatter, collective::all_reduce}) {
      auto const p = sound_plan(machine, {kind, {}, "exact"});
      EXPECT_EQ(p.rate, p.bound) << to_text(kind);
    }
  }
}

TEST(make_plan, boxes_behind_networks_get_few_low_trees) {
  struct row {
    topology machine;
    std::size_t trees;
    int height;
  };
  for (auto const& [machine, trees, most] :
       {row{machines::dgx_a100(2), 39, 2}, row{machines::dgx_h100(2), 24, 5},
        row{machines::dgx_a100(4), 32, 2}, row{machines::dgx_h100(4), 64, 4}}) {
    auto const p = sound_plan(machine, {collective::all_gather, {}, "exact"});
    EXPECT_EQ(p.rate, p.bound) << machine.name;
    EXPECT_LE(p.trees.size(), trees) << machine.name;
    for (auto const& t : p.trees) EXPECT_LE(height(t), most) << machine.name;
  }
}

TEST(make_plan, large_machines_of_like_ranks) {
  for (auto const& machine : {machines::dgx_a100(13), machines::torus(10, 10)}) {
    auto const p = make_plan(machine, {collective::all_gather, {}, "exact"});
    EXPECT_EQ(p.rate, p.bound);
    auto const report = check_plan(machine, p, 1);
    EXPECT_EQ(report.fault.value_or(""), "");
  }
}

TEST(make_plan, all_reduce_in_two_phases_where_that_is_optimal) {
  for (auto const& machine : {machines::dgx_a100(2), machines::dgx_h100(3), machines::mi250(2)}) {
    auto const all_gather = sound_plan(machine, {collective::all_gather, {}, "exact"});
    auto const all_reduce = sound_plan(machine, {collective::all_reduce, {}, "exact"});
    EXPECT_EQ(all_reduce.rate, all_reduce.bound);
    EXPECT_EQ(all_reduce.rate * 2, all_gather.rate);
    EXPECT_EQ(all_reduce.trees.size(), all_gather.trees.size());
  }
  // Half of a server of MI250: the phases overlap better than that.
  auto const part =
      subset(machines::mi250(2), {0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23});
  EXPECT_FALSE(plan_two_phases(part, {}).has_value());
  auto const joint = sound_plan(part, {collective::all_reduce, {}, "exact"});
  EXPECT_EQ(joint.rate, rational(128));
  EXPECT_EQ(joint.bound, rational(128));
}

/// Rank 0 sends one unit to a switch that offers one to each of two others: forwarding cannot reach
/// the rate that the cuts allow.
TEST(make_plan, a_switch_that_does_not_copy_sends_twice) {
  topology machine;
  machine.name = "copying";
  for (int i = 0; i < 3; ++i) machine.nodes.push_back({i, node_kind::rank, ""});
  machine.nodes.push_back({7, node_kind::switch_node, "splitter"});
  machine.links = {{0, 3, 1}, {3, 1, 1}, {3, 2, 1}, {1, 0, 1}, {2, 0, 1}};
  EXPECT_EQ(sound_plan(machine, {collective::broadcast, 0}).rate, rational(1, 2));
}

TEST(make_plan, full_dgx1_has_few_shallow_trees) {
  auto const v = test::direct_machine(test::dgx1v_matrix(25));
  auto const p = test::direct_machine(test::dgx1p_matrix(20));
  auto const tallest = [](plan const& of) {
    int result = 0;
    for (auto const& t : of.trees) result = std::max(result, height(t));
    return result;
  };
  for (int root = 0; root < 8; ++root) {
    auto const on_v = sound_plan(v, {collective::broadcast, root, "exact"});
    EXPECT_EQ(on_v.rate, rational(150));
    EXPECT_EQ(on_v.trees.size(), 6U);
    // The lowest possible, by enumeration of all trees.
    EXPECT_EQ(tallest(on_v), root % 4 < 2 ? 4 : 5);
    auto const on_p = sound_plan(p, {collective::broadcast, root, "exact"});
    EXPECT_EQ(on_p.rate, rational(80));
    EXPECT_EQ(on_p.trees.size(), 4U);
    EXPECT_EQ(tallest(on_p), 3);
  }
  auto const all_reduce = sound_plan(v, {collective::all_reduce, {}, "exact"});
  EXPECT_EQ(all_reduce.rate, rational(600, 7));
  EXPECT_LE(all_reduce.trees.size(), 10U);
  EXPECT_EQ(sound_plan(p, {collective::all_reduce, {}, "exact"}).rate, rational(320, 7));
}

// What tests/topology/without_routes_test.cpp leaves of this machine has all its NVLinks.
TEST(make_plan, lost_pcie_ways_leave_the_rate_of_nvlinks) {
  auto const nvlinks = machines::dgx1v();
  auto left = machines::dgx1v_pcie();
  for (int a = 0; a < 8; ++a) {
    for (int b = a + 1; b < 8; ++b) {
      bool const is_joined =
          std::any_of(nvlinks.links.begin(), nvlinks.links.end(),
                      [&](struct link const& each) { return each.tail == a && each.head == b; });
      if (!is_joined) left = without_routes(left, {{a, b}});
    }
  }
  EXPECT_GE(make_plan(left, {}).rate, make_plan(nvlinks, {}).rate);
}

TEST(make_plan, allocation_of_six_gpus_beats_its_rings) {
  auto const machine = test::direct_machine(test::part_of(test::dgx1v_matrix(25), 0b111111));
  EXPECT_EQ(sound_plan(machine, {collective::all_reduce, {}, "exact"}).rate, rational(125, 2));
  EXPECT_EQ(sound_plan(machine, {collective::broadcast, {}, "exact"}).rate, rational(75));
  auto const ring = sound_plan(machine, {collective::all_reduce, {}, "ring"});
  EXPECT_EQ(ring.rate, rational(30));
  EXPECT_EQ(ring.bound, rational(125, 2));
  EXPECT_EQ(sound_plan(machine, {collective::broadcast, {}, "ring"}).rate, rational(50));
}

TEST(make_plan, every_planner_gives_a_sound_plan_or_says_why_not) {
  for (unsigned chosen = 1; chosen < 256; chosen += 3) {
    auto const matrix = test::part_of(test::dgx1v_matrix(25), chosen);
    if (matrix.size() < 2 || !strongly_connected(matrix)) continue;
    SCOPED_TRACE("subset " + std::to_string(chosen));
    auto const machine = test::direct_machine(matrix);
    for (auto const planner : planner_names) {
      for (int kind = 0; kind < 5; ++kind) {
        try {
          auto const p =
              sound_plan(machine, {static_cast<collective>(kind), {}, std::string(planner)});
          EXPECT_GT(p.rate, rational(0));
          EXPECT_LE(p.rate, p.bound);
        } catch (planning_error const& reason) {
          EXPECT_NE(planner, "exact") << reason.what();
        }
      }
    }
  }
}

TEST(make_plan, planners_work_behind_a_switch) {
  auto const machine = test::star_machine(6, 150);
  for (auto const planner : {"exact", "ring", "double_tree"}) {
    for (auto const kind : {collective::broadcast, collective::all_reduce}) {
      auto const p = sound_plan(machine, {kind, {}, planner});
      EXPECT_GT(p.rate, rational(0));
    }
  }
  EXPECT_EQ(sound_plan(machine, {collective::all_reduce, {}, "ring"}).rate, rational(90));
}

TEST(make_plan, refuses_unknown_planners_and_roots) {
  auto const machine = test::star_machine(3, 1);
  EXPECT_THROW((void)make_plan(machine, {collective::reduce, {}, "magic"}), input_error);
  EXPECT_THROW((void)make_plan(machine, {collective::reduce, 3, "exact"}), input_error);
  EXPECT_THROW((void)make_plan(machine, {collective::reduce, -1, "exact"}), input_error);
}

TEST(make_plan, large_capacities_are_exact_or_refused) {
  constexpr std::int64_t large = std::int64_t{1} << 40;
  auto const machine =
      test::direct_machine({{0, large, 1}, {large, 0, large - 1}, {1, large - 1, 0}});
  EXPECT_EQ(sound_plan(machine, {collective::broadcast, 0, "exact"}).rate, rational(large));
  EXPECT_EQ(sound_plan(machine, {collective::all_reduce, {}, "exact"}).rate, rational(large));
}

}}  // namespace make_plan_test
