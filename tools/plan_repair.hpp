// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/work_budget.hpp>

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

}  // namespace blink::tools
