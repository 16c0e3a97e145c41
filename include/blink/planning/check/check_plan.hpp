// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/check/detail/check_bound.hpp>
#include <blink/planning/check/detail/check_trees.hpp>
#include <blink/planning/check/detail/check_walk.hpp>
#include <blink/planning/check/detail/view_index.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The result of a check: the first fault in words, or the values computed from the plan.
struct check_report {
  std::optional<std::string> fault;  ///< nothing if the plan is sound
  rational rate;                     ///< recomputed from the weights
  std::optional<rational> bound;     ///< from the certificate alone; nothing without one
  std::map<std::pair<int, int>, rational> load;  ///< by (from, to) node ids, in the plan's unit
  explicit operator bool() const { return !fault.has_value(); }
};

/// Checks a plan against a machine from their definitions alone.
///
/// The check shares no code with the planners, so that neither can hide the other's mistake. It
/// verifies that
/// - the ranks exist;
/// - every path runs over links of the machine, through switches and member ranks;
/// - each phase of each tree spans all ranks, or its members, without a cycle;
/// - in a run chunk by chunk, every contribution arrives exactly once at each rank that needs it,
///   and no rank waits without end;
/// - loads stay within capacities;
/// - rate and root shares are as stated;
/// - the certificate is valid and yields the stated bound, and rate <= bound.
///
/// machine: the whole machine or the allocation. Only the plan's ranks, the switches, and links of
///          the kind `plan.links` count; all links if it is empty. For cuts and partitions, links
///          of switches at dead ends do not count, because nothing that moves from rank to rank
///          uses them.
/// window:  chunks in flight on an edge in that run
/// Pre:     window > 0.
/// Post:    any fault of the plan is in the report; it does not throw for one.
/// Throws: overflow_error if a sum of weights or a bound does not fit into 64 bits.
/// Time:    O(trees * ranks * (path length + window)). For prices also a search for cheapest routes
///          from each part of the machine that prices separate, and the square of their number.
[[nodiscard]] inline check_report check_plan(topology const& machine, plan const& plan,
                                             int window = 2) {
  check_report report;
  report.fault = detail::first_fault([&] {
    expects(window > 0, "check_plan: expected window > 0");
    auto const view = detail::member_view(machine, plan);
    detail::view_index const index(view);
    detail::tree_check trees(view, index, plan);
    detail::symbolic_run run(index, plan, window);
    std::vector<rational> load(index.links().size());
    for (std::size_t i = 0; i < plan.trees.size(); ++i) {
      for (int const link : trees.check(i)) {
        load[static_cast<std::size_t>(link)] += plan.trees[i].weight;
      }
      run.check(i);
      report.rate += plan.trees[i].weight;
    }
    for (std::size_t link = 0; link < load.size(); ++link) {
      if (load[link] == rational(0)) continue;
      auto const& of = index.links()[link];
      std::pair const ends(index.id(of.from), index.id(of.to));
      report.load.emplace(ends, load[link]);
      if (load[link] > of.capacity) {
        throw detail::plan_fault("link " + std::to_string(ends.first) + " -> " +
                                 std::to_string(ends.second) + " carries " + load[link].to_text() +
                                 " of a capacity of " + of.capacity.to_text());
      }
    }
    report.rate = detail::check_shares(plan, report.rate);
    report.bound = detail::bound_of(view, index, plan);
    if (!report.bound && plan.bound != rational(0)) {
      throw detail::plan_fault("no certificate proves the bound of " + plan.bound.to_text() +
                               " that the plan claims");
    }
    if (report.bound && *report.bound != plan.bound) {
      throw detail::plan_fault("the certificate proves a bound of " + report.bound->to_text() +
                               ", the plan claims " + plan.bound.to_text());
    }
    if (report.bound && report.rate > *report.bound) {
      throw detail::plan_fault("the rate " + report.rate.to_text() + " is above the bound " +
                               report.bound->to_text());
    }
  });
  return report;
}

}}  // namespace blink::BLINK_ABI
