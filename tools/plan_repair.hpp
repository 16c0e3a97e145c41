// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/work_budget.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

#include "arguments.hpp"
#include "checked_plan.hpp"

#include <string>

namespace blink::tools {

/// A machine and the plan that was repaired for it.
struct repaired {
  allocation place;
  plan_and_report planned;
};

/// Repairs the plan of a file for the machine as it is now, checks it, and prints the difference.
/// choice: without --ranks, those of the old plan that the machine still has; its links are those
///         of the old plan
/// budget: for all planning
[[nodiscard]] repaired show_repair(machine_choice choice, std::string const& old_file,
                                   work_budget const& budget);

/// A machine that lost a link, and the plan that takes over.
struct detour {
  topology machine;
  blink::plan plan;
  std::string algorithm;  ///< as in "mended"
};

/// Repairs a plan after one of its links was lost.
///
/// machine:  where the plan was sound; only links of its kind and its ranks are used
/// from, to: node ids of the link
/// Throws:   as `repair_plan`: planning_error if there is no detour.
[[nodiscard]] detour find_detour(topology const& machine, plan const& old, int from, int to);

}  // namespace blink::tools
