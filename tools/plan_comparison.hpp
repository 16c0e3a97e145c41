// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/work_budget.hpp>
#include <blink/planning/plan/plan.hpp>

#include "arguments.hpp"
#include "table_files.hpp"

namespace blink::tools {

/// The largest height of a plan's trees; 0 if there are none.
[[nodiscard]] int max_height(plan const& p);

/// Prints what the planner `ring` gets, if it is cheap, or with `all` what every planner gets.
///
/// files: of the table; they are written with `all` only
void show_comparison(allocation const& place, plan const& chosen, work_budget const& budget,
                     bool all, table_files const& files);

}  // namespace blink::tools
