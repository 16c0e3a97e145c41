// SPDX-License-Identifier: Apache-2.0
#include "checked_plan.hpp"

#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/check/complete_cut.hpp>
#include <blink/planning/make_plan.hpp>

#include <stdexcept>
#include <utility>

namespace blink::tools {

plan_and_report checked(allocation const& place, plan made) {
  made.links = place.links;
  plan_and_report result{complete_cut(place.whole, std::move(made)), {}};
  result.report = check_plan(place.whole, result.plan);
  if (!result.report) {
    throw std::runtime_error("the plan of planner " + result.plan.planner +
                             " does not pass the checker: " + *result.report.fault);
  }
  return result;
}

plan_and_report checked_plan(allocation const& place, plan_request const& request) {
  return checked(place, make_plan(place.machine, request));
}

std::vector<listed_planner> all_planners() {
  std::vector<listed_planner> result;
  for (auto const& each : planners)
    result.push_back({std::string(each.name), std::string(each.about)});
  return result;
}

}  // namespace blink::tools
