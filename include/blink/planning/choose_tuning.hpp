// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/planning/choose_plan.hpp>
#include <blink/planning/cost/cost_model.hpp>
#include <blink/planning/plan/make_schedule.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/schedule/tuning_table.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The plans of all planners. For an all-reduce, also their one-shot forms: the trees of a
/// reduce-scatter, each with the whole buffer.
///
/// Throws: as `all_plans`.
[[nodiscard]] inline plan_candidates all_algorithms(topology const& machine,
                                                    plan_request const& request,
                                                    cost_parameters const& parameters = {}) {
  auto result = all_plans(machine, request, parameters);
  if (request.collective != collective::all_reduce) return result;
  auto to_each = request;
  to_each.collective = collective::reduce_scatter;
  try {
    for (auto& each : all_plans(machine, to_each, parameters).plans) {
      each.is_one_shot = true;
      result.plans.push_back(std::move(each));
    }
  } catch (planning_error const& reason) {
    result.refused.emplace_back("one-shot", reason.what());
  }
  return result;
}

/// A tuning table of the candidates that are expected to be the fastest, with the sizes from which
/// on each is used.
///
/// bytes_per_unit: rate of one capacity unit, bytes per second
/// first, last:    sizes of the whole buffer in bytes; the first entry also holds below, the last
///                 above
/// Time:   as `crossovers`, and `make_schedule` for each algorithm of the table.
/// Pre:    1 <= first <= last.
/// Throws: as `crossovers` and `make_schedule`, including planning_error if switches copy in the
///         best plan, which cannot run.
[[nodiscard]] inline tuning_table choose_tuning(topology const& machine,
                                                plan_candidates const& candidates,
                                                double bytes_per_unit, std::int64_t first,
                                                std::int64_t last) {
  tuning_table result;
  std::vector<std::size_t> position(candidates.plans.size(), SIZE_MAX);
  for (auto const& change : crossovers(candidates, first, last)) {
    auto const& chosen = candidates.plans[change.candidate];
    auto& algorithm = position[change.candidate];
    if (algorithm == SIZE_MAX) {
      algorithm = result.algorithms.size();
      auto plan = make_schedule(machine, chosen.plan, bytes_per_unit);
      plan.is_one_shot = chosen.is_one_shot;
      result.algorithms.push_back({name_of(chosen), std::move(plan)});
    }
    if (!chosen.is_one_shot) result.collective = chosen.plan.collective;
    auto const from = result.ranges.empty() ? 0 : static_cast<std::size_t>(change.bytes);
    result.ranges.push_back({from, algorithm, 0});
  }
  validate(result);
  return result;
}

/// A tuning table for a request by the cost model, to begin with before `tune` measures.
///
/// Time:   every planner once or twice, and as above.
/// Throws: as `all_algorithms` and `make_schedule`; input_error if the machine's unit has no known
///         rate.
[[nodiscard]] inline tuning_table choose_tuning(topology const& machine,
                                                plan_request const& request,
                                                cost_parameters const& parameters = {},
                                                std::int64_t first = 8,
                                                std::int64_t last = std::int64_t{1} << 30) {
  double const unit =
      parameters.bytes_per_unit > 0 ? parameters.bytes_per_unit : bytes_per_second(machine.unit);
  return choose_tuning(machine, all_algorithms(machine, request, parameters), unit, first, last);
}

}}  // namespace blink::BLINK_ABI
