// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/check/detail/check_prices.hpp>
#include <blink/planning/check/detail/view_index.hpp>
#include <blink/planning/plan/detail/member_view.hpp>
#include <blink/planning/plan/groups_plan.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The result of a check of groups: the first fault in words, or the loads of all groups together.
struct groups_report {
  std::optional<std::string> fault;              ///< nothing if the plans are sound
  std::map<std::pair<int, int>, rational> load;  ///< by (from, to) node ids, in the plans' unit
  explicit operator bool() const { return !fault.has_value(); }
};

namespace detail {

/// The exact fraction cost / one.
/// Throws: overflow_error if it does not fit into 64 bits.
[[nodiscard]] inline rational fraction_of(unit_cost const& unit) {
  wide_cost a = unit.cost;
  for (wide_cost b = unit.one; b != 0; a = std::exchange(b, a % b)) {
  }
  if (a == 0) return 0;
  if (unit.one / a > INT64_MAX) {
    throw overflow_error("check_groups: a cost needs more than 64 bits, expected less");
  }
  return {static_cast<std::int64_t>(unit.cost / a), static_cast<std::int64_t>(unit.one / a)};
}

/// Checks the levels: each proves its bound, and limits its groups.
inline void check_levels(topology const& machine, groups_plan const& groups) {
  std::vector<plan> on_all;  // each group, where all others forward
  for (auto const& each : groups.plans) {
    auto& p = on_all.emplace_back(each);
    p.forwarding_ranks = groups.forwarding_ranks;
    for (auto const& other : groups.plans) {
      if (&other == &each) continue;
      p.forwarding_ranks.insert(p.forwarding_ranks.end(), other.ranks.begin(), other.ranks.end());
    }
  }
  std::set<std::size_t> before;
  std::optional<rational> last;
  for (std::size_t k = 0; k < groups.levels.size(); ++k) {
    auto const& level = groups.levels[k];
    auto const fail = [&](std::string const& what) {
      throw plan_fault("level " + std::to_string(k) + ": " + what);
    };
    std::optional<rational> rest;
    rational cost, sum;
    std::vector<rational> unit(groups.plans.size());
    for (std::size_t g = 0; g < groups.plans.size(); ++g) {
      if (groups.plans[g].ranks.size() < 2) continue;
      auto const view = member_view(machine, on_all[g]);
      view_index const index(view);
      if (!rest) {
        (void)read_prices(index, level.proof, 1);
        rest = value_of_prices(index, level.proof);
      }
      auto one = cost_of_unit(view, index, on_all[g], level.proof);
      if (is_point_to_point(on_all[g].collective)) one.one *= blocks_of(on_all[g]);
      unit[g] = fraction_of(one);
      sum += unit[g];
      if (before.contains(g)) {
        *rest -= unit[g] * groups.plans[g].rate;
      } else {
        cost += unit[g];
      }
    }
    if (sum > rational(1)) fail("a unit of all rates costs " + sum.to_text() + ", expected 1");
    if (level.groups.empty()) fail("it has no group");
    for (auto const g : level.groups) {
      if (g >= groups.plans.size() || !before.insert(g).second) {
        fail("group " + std::to_string(g) + " is unknown or in two levels");
      }
      if (unit[g] == rational(0)) fail("its prices do not limit group " + std::to_string(g));
    }
    std::optional<rational> least;
    for (std::size_t g = 0; g < groups.plans.size(); ++g) {
      bool const is_here = std::ranges::count(level.groups, g) != 0;
      if (groups.plans[g].ranks.size() < 2 || (before.contains(g) && !is_here)) continue;
      if (!least || groups.plans[g].rate < *least) least = groups.plans[g].rate;
    }
    if (level.rate != *least) {
      fail("the least rate is " + least->to_text() + ", it claims " + level.rate.to_text());
    }
    if (last && level.rate < *last) fail("its rate is below that of the level before");
    last = level.rate;
    auto const bound = *rest / cost;
    if (bound != level.bound) {
      fail("the prices prove a bound of " + bound.to_text() + ", it claims " +
           level.bound.to_text());
    }
    if (level.rate > bound) fail("the rate is above the bound");
  }
  for (std::size_t g = 0; g < groups.plans.size(); ++g) {
    if (before.contains(g) == (groups.plans[g].ranks.size() > 1)) continue;
    throw plan_fault("group " + std::to_string(g) +
                     " is in no level, or has one rank and is in one");
  }
}

}  // namespace detail

/// Checks plans of groups against a machine from their definitions alone.
///
/// It verifies that
/// - each plan is sound by itself (`check_plan`);
/// - groups have no common ranks, and all plans together keep to the capacities;
/// - each level proves its bound, by prices that limit each of its groups.
///
/// machine: the whole machine or the allocation
/// Post:    any fault is in the report; it does not throw for one.
/// Throws:  overflow_error if a sum does not fit into 64 bits.
/// Time:    the sum of the plans; for each level, that of `check_plan` with prices for all.
[[nodiscard]] inline groups_report check_groups(topology const& machine,
                                                groups_plan const& groups) {
  groups_report report;
  report.fault = detail::first_fault([&] {
    std::map<int, std::size_t> group_of;
    std::map<std::pair<int, int>, rational> capacity;
    for (std::size_t g = 0; g < groups.plans.size(); ++g) {
      auto const& p = groups.plans[g];
      auto const where = "group " + std::to_string(g) + ": ";
      if (p.links != groups.plans.front().links) {
        throw detail::plan_fault(where + "it uses another kind of link than the first group");
      }
      for (int const id : p.ranks) {
        if (!group_of.emplace(id, g).second) {
          throw detail::plan_fault(where + "rank " + std::to_string(id) + " is in two groups");
        }
      }
      auto const alone = check_plan(machine, p);
      if (!alone) throw detail::plan_fault(where + *alone.fault);
      if (alone.rate != p.rate) {
        throw detail::plan_fault(where + "the rate is " + alone.rate.to_text() + ", it claims " +
                                 p.rate.to_text());
      }
      for (auto const& [ends, load] : alone.load) report.load[ends] += load;
      for (auto const& [ends, c] : detail::member_view(machine, p).capacity) {
        capacity.insert_or_assign(ends, c);
      }
    }
    for (int const id : groups.forwarding_ranks) {
      if (group_of.contains(id)) {
        throw detail::plan_fault("forwarding rank " + std::to_string(id) + " is in a group");
      }
    }
    for (auto const& [ends, load] : report.load) {
      if (load <= capacity.at(ends)) continue;
      throw detail::plan_fault("link " + std::to_string(ends.first) + " -> " +
                               std::to_string(ends.second) + " carries " + load.to_text() +
                               " of all groups, of a capacity of " + capacity.at(ends).to_text());
    }
    detail::check_levels(machine, groups);
  });
  return report;
}

}}  // namespace blink::BLINK_ABI
