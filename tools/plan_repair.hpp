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
/// ranks:  as --ranks; empty: those of the old plan that the machine still has
/// budget: for all planning
[[nodiscard]] repaired show_repair(std::string const& machine, std::string const& ranks,
                                   std::string const& old_file, work_budget const& budget);

}  // namespace blink::tools
