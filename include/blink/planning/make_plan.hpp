// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/work_budget.hpp>
#include <blink/planning/constraints/restricted_plan.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/planning/planners/planners.hpp>
#include <blink/topology/topology.hpp>

namespace blink { inline namespace BLINK_ABI {

/// Plans a collective over all ranks of a machine, with the planner and constraints of the request.
///
/// machine: the allocation: call `subset` first, and `only_links` to leave links unused.
/// Post:    passes `check_plan`; `bound` and `proof` belong to the machine and do not depend on the
///          planner, so rate / bound is the quality of the plan.
/// Throws:  input_error for an unknown planner, a root that is not a rank, or an invalid machine;
///          planning_error with the reason if the planner finds no plan.
///          With constraints also as `make_restricted_plan`.
[[nodiscard]] inline plan make_plan(topology const& machine, plan_request const& request) {
  if (!request.constraints.empty()) return make_restricted_plan(machine, request).plan;
  return within_budget(request.budget, "a plan", [&] {
    validate(machine);
    return detail::plan_unrestricted(machine, request);
  });
}

}}  // namespace blink::BLINK_ABI
