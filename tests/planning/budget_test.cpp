// SPDX-License-Identifier: Apache-2.0
// Plans whose budget of time or memory is spent: sound, never missing, with a bound that holds.
#include <blink/core/work_budget.hpp>
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/choose_plan.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/planning/repair_plan.hpp>
#include <blink/topology/machines.hpp>

#include "support/expect_error.hpp"
#include "support/random_machines.hpp"
#include "support/small_machines.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// Test folders may be compiled as one source.
namespace budget_test { namespace {

using namespace blink;

constexpr work_budget no_time{1e-9, 1e18};
constexpr work_budget no_memory{1e9, 1};

plan sound_plan(topology const& machine, plan_request const& request) {
  auto p = make_plan(machine, request);
  EXPECT_EQ(check_plan(machine, p).fault.value_or(""), "") << to_text(p.collective);
  EXPECT_LE(p.rate, p.bound) << to_text(p.collective);
  if (request.collective != collective::barrier) {
    EXPECT_GT(p.rate, rational(0)) << to_text(p.collective);
  }
  return p;
}

/// A random permutation of the ranks without a rank that stays, for permute.
std::vector<int> destinations_of(topology const& machine) {
  std::vector<int> ids;
  for (int const at : machine.rank_positions()) {
    ids.push_back(machine.nodes[static_cast<std::size_t>(at)].id);
  }
  std::rotate(ids.begin(), ids.begin() + 1, ids.end());
  return ids;
}

TEST(plan_budget, a_spent_budget_leaves_a_sound_plan_of_every_collective) {
  for (auto const& machine :
       {machines::dgx1v(), machines::dgx_a100(3), test::make_random_machine(3, 6, 2, 8),
        test::make_random_duplex_machine(5, 9, 0, 10)}) {
    for (auto const& each : collective_table) {
      for (auto const& budget : {no_time, no_memory}) {
        SCOPED_TRACE(machine.name + " " + std::string(each.name));
        plan_request request{each.kind};
        if (each.kind == collective::permute) request.destinations = destinations_of(machine);
        request.budget = budget;
        auto const hasty = sound_plan(machine, request);
        request.budget = {};
        if (is_point_to_point(each.kind) && has_root(each.kind)) continue;  // not the best root
        if (has_one_root(each.kind)) request.root = hasty.trees.front().root;
        auto const fresh = sound_plan(machine, request);
        EXPECT_LE(hasty.rate, fresh.bound);
        EXPECT_LE(fresh.rate, hasty.bound);
      }
    }
  }
}

TEST(plan_budget, enough_changes_nothing) {
  auto const machine = machines::dgx1v();
  for (auto const kind : {collective::all_reduce, collective::all_gather, collective::all_to_all}) {
    plan_request request{kind};
    auto const without = make_plan(machine, request);
    request.budget = {1e6, 1e15};
    auto const with = make_plan(machine, request);
    EXPECT_EQ(with.planner, without.planner);
    EXPECT_EQ(with.trees, without.trees);
  }
}

TEST(plan_budget, no_budget_is_an_error_of_the_input) {
  auto const machine = machines::dgx1v();
  for (double const wrong : {0.0, -1.0, std::nan("")}) {
    plan_request request;
    request.budget = {wrong, 1e9};
    EXPECT_ERROR((void)make_plan(machine, request), "a budget of no time");
    request.budget = {1, wrong};
    EXPECT_ERROR((void)make_plan(machine, request), "a budget of no memory");
  }
}

TEST(plan_budget, constraints_that_are_not_met_in_time_are_an_error) {
  plan_request request{collective::all_reduce};
  request.constraints.max_trees = 3;
  request.budget = no_time;
  EXPECT_ERROR((void)make_plan(machines::dgx1v(), request), "the budget was spent before");
}

TEST(plan_budget, repair_plans_anew_where_old_trees_take_too_long) {
  auto machine = machines::dgx1v();
  for (auto const kind : {collective::broadcast, collective::all_gather, collective::all_reduce}) {
    auto const old = make_plan(machine, {kind});
    auto changed = machine;
    changed.links.front().capacity /= 2;
    auto const again = repair_plan(changed, old, no_time);
    EXPECT_EQ(check_plan(changed, again.plan).fault.value_or(""), "");
    EXPECT_GT(again.plan.rate, rational(0));
  }
  EXPECT_ERROR((void)repair_plan(machine, make_plan(machine, {}), {0, 1}), "a budget of no time");
}

TEST(bound_of_parts, holds_and_passes_the_checker) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    auto machine = seed % 2 == 0 ? test::make_random_machine(seed, 4 + seed % 3, seed % 3, 6)
                                 : test::make_random_duplex_machine(seed, 4 + seed % 3, 0, 5);
    for (std::size_t v = 0; v < machine.nodes.size() && seed % 4 < 2; ++v) {
      machine.nodes[v].server =
          machine.nodes[v].kind == node_kind::rank ? static_cast<int>(v % 2) : -1;
    }
    for (auto const& each : collective_table) {
      if (!has_spanning_trees(each.kind)) continue;
      plan p;
      try {
        p = make_plan(machine, {each.kind});
      } catch (planning_error const&) {
        continue;
      }
      auto const found = bound_of_parts(machine, each.kind, p.trees.front().root);
      EXPECT_GE(found.bound, p.rate) << each.name;
      p.bound = found.bound;
      p.proof = found.proof;
      EXPECT_EQ(check_plan(machine, p).fault.value_or(""), "") << each.name;
    }
  }
}

TEST(budget_scope, memory_that_grows_beyond_the_budget_is_noticed) {
  constexpr std::size_t bytes = std::size_t{64} << 20;
  detail::budget_scope const scope(work_budget{1e9, bytes / 4.0});
  detail::budget_scope::poll();
  std::vector<char> const memory(bytes, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // memory is looked at now and then
  EXPECT_THROW(detail::budget_scope::poll(), detail::budget_spent);
  EXPECT_EQ(memory.back(), 1);
}

TEST(plan_budget, planners_whose_budget_is_spent_are_named) {
  plan_request request{collective::all_reduce};
  request.budget = no_time;
  auto const found = all_plans(machines::dgx_a100(3), request);
  std::map<std::string, std::string> const refused(found.refused.begin(), found.refused.end());
  for (auto const* name : {planned_by::exact, planned_by::approximate}) {
    EXPECT_EQ(refused.at(name), "its budget was spent");
  }
  std::set<std::string> names;
  for (auto const& each : found.plans) names.insert(each.plan.planner);
  EXPECT_EQ(names.size(), found.plans.size());
  EXPECT_TRUE(names.contains(planned_by::binomial));
}

TEST(budget_scope, an_inner_scope_ends_no_later_than_those_around_it) {
  using detail::budget_scope;
  budget_scope::poll();  // without a scope there is no limit
  budget_scope const outer(work_budget{1e-9, 1e18});
  budget_scope const inner(work_budget{1e9, 1e18});
  EXPECT_THROW(budget_scope::poll(), detail::budget_spent);
  {
    detail::unlimited_scope const whole;
    budget_scope::poll();
    EXPECT_FALSE(budget_scope::part(0.5).is_limited());
  }
  EXPECT_THROW(budget_scope::poll(), detail::budget_spent);
}

}}  // namespace budget_test
