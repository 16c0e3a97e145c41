// SPDX-License-Identifier: Apache-2.0
#include "checked_plan.hpp"

#include <blink/planning/check/check_plan.hpp>
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

std::vector<listed_planner> all_planners() {
  std::vector<listed_planner> result;
  for (auto const& each : planners)
    result.push_back({std::string(each.name), std::string(each.about)});
  return result;
}

}  // namespace blink::tools
