// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/topology/topology.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace blink::tools {

/// Returns a plan that the independent checker accepts. Tools show, write and run no other plan.
///
/// links:  the one kind of link that the machine was reduced to; empty: all links.
/// Throws: as `make_plan`; std::runtime_error if the plan does not pass the checker.
[[nodiscard]] plan checked_plan(topology const& machine, std::string const& links,
                                plan_request const& request);

/// A planner, and a line about it.
struct listed_planner {
  std::string name;
  std::string about;
};
[[nodiscard]] std::vector<listed_planner> all_planners();

}  // namespace blink::tools
