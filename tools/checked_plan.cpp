// SPDX-License-Identifier: Apache-2.0
#include "checked_plan.hpp"

#include <blink/planning/check_plan.hpp>
#include <blink/planning/make_plan.hpp>

#include <stdexcept>

namespace blink::tools {

plan checked_plan(topology const& machine, std::string const& links, plan_request const& request) {
  auto result = make_plan(machine, request);
  result.links = links;
  auto const report = check_plan(machine, result);
  if (!report) {
    throw std::runtime_error("the plan of planner " + request.planner +
                             " does not pass the checker: " + *report.fault);
  }
  return result;
}

std::vector<std::string> all_planners() {
  return {planner_names.begin(), planner_names.end()};
}

}  // namespace blink::tools
