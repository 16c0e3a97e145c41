// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/cost/cost_model.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/simulation/simulate.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace blink::bench {

/// The bytes that evaluations simulate unless they say otherwise: 1 GiB.
inline constexpr double simulated_bytes = 1 << 30;

/// The machine with links of 25 GB/s and a latency of 1 us, if its unit has no rate.
[[nodiscard]] inline topology in_gigabytes(topology machine) {
  if (machine.unit == "GB/s") return machine;
  machine.unit = "GB/s";
  for (auto& l : machine.links) {
    l.capacity *= 25;
    l.latency_seconds = 1e-6;
  }
  return machine;
}

/// Plans for a machine, and checks the plan.
///
/// Throws: std::logic_error that names machine and planner if the plan has a fault; as `make_plan`.
[[nodiscard]] inline plan plan_checked(topology const& machine, plan_request const& request) {
  auto result = make_plan(machine, request);
  if (auto const report = check_plan(machine, result); !report) {
    throw std::logic_error(machine.name + ", " + std::string(to_text(request.collective)) + " by " +
                           request.planner + ": " + *report.fault);
  }
  return result;
}

/// The height of the highest tree.
[[nodiscard]] inline int highest_of(plan const& planned) {
  int result = 0;
  for (auto const& t : planned.trees) result = std::max(result, height(t));
  return result;
}

/// The simulated seconds of a plan, with the chunks that the cost model finds best for the size.
[[nodiscard]] inline double simulated_seconds(topology const& machine, plan const& planned,
                                              double bytes) {
  auto const chunks = predict(cost_of(machine, planned), bytes).chunk_bytes;
  return simulate(machine, planned, bytes, chunks).seconds;
}

/// The simulated rate of a plan in GB/s.
[[nodiscard]] inline double simulated_rate(topology const& machine, plan const& planned,
                                           double bytes) {
  return bytes / simulated_seconds(machine, planned, bytes) * 1e-9;
}

}  // namespace blink::bench
