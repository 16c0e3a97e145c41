// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>

#include "arguments.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace blink::tools {

/// A plan, and what the checker computed from it.
struct plan_and_report {
  blink::plan plan;
  check_report report;
};

/// Returns the plan as the independent checker accepts it on the whole machine. Tools show, write
/// and run no other plan.
///
/// place:  the part of the machine that the plan was made for
/// Throws: std::runtime_error if the plan does not pass the checker; overflow_error if the checker
///         needs larger numbers.
[[nodiscard]] plan_and_report checked(allocation const& place, plan made);

/// Plans, and checks the plan.
/// Throws: as `make_plan` and `checked`.
[[nodiscard]] plan_and_report checked_plan(allocation const& place, plan_request const& request);

/// A planner, and a line about it.
struct listed_planner {
  std::string name;
  std::string about;
};
[[nodiscard]] std::vector<listed_planner> all_planners();

}  // namespace blink::tools
