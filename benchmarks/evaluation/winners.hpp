// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/choose_plan.hpp>
#include <blink/planning/choose_tuning.hpp>
#include <blink/planning/cost/cost_model.hpp>
#include <blink/simulation/correct_predictions.hpp>
#include <blink/simulation/simulate.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

// The planner that is predicted to be the fastest, beside all others in the simulation.

namespace blink::bench {

/// The sizes of one machine and collective at which a predicted winner loses in the simulation.
struct winner_count {
  int sizes = 0;
  std::size_t plans = 0;
  int model_losses = 0;      ///< of the cost model alone
  double model_worst = 1;    ///< largest time over the fastest
  int corrected_losses = 0;  ///< of `correct_predictions`, as `blink plan --sizes` and tuning files
  double corrected_worst = 1;
  int between_losses = 0;  ///< the same at one and a half times each size: no correction is there
  double between_worst = 1;
};

/// Counts sizes that double from `first` to `last`, for which predictions are corrected. A winner
/// loses if it takes more than `margin` longer than another candidate. Candidates are simulated
/// unless their busiest link alone takes so long that they cannot beat the winner.
///
/// Pre:    1 <= first <= last.
/// Throws: std::logic_error for a plan that does not pass `check_plan`; as `all_algorithms`.
[[nodiscard]] inline winner_count count_winners(topology const& machine, collective kind,
                                                std::int64_t first, std::int64_t last,
                                                double margin = 0.05) {
  auto const candidates = all_algorithms(machine, {kind, {}, planned_by::exact});
  for (auto const& each : candidates.plans) {
    if (auto const report = check_plan(machine, each.plan); !report) {
      throw std::logic_error(machine.name + ", " + name_of(each) + ": " + *report.fault);
    }
  }
  auto corrected = candidates;
  correct_predictions(machine, corrected, first, 2 * last);
  auto const changes = crossovers(corrected, first, 2 * last);

  // The simulated times of both winners over that of the fastest candidate.
  struct ratios {
    double model = 1, corrected = 1;
  };
  auto const ratios_at = [&](std::int64_t size) {
    auto const bytes = static_cast<double>(size);
    constexpr double unknown = std::numeric_limits<double>::infinity();
    std::vector<double> seconds(candidates.plans.size(), unknown);
    auto const simulated = [&](std::size_t i) {
      auto const& each = candidates.plans[i];
      double const moved = planned_bytes(each, bytes);
      if (seconds[i] == unknown) {
        seconds[i] =
            simulate(machine, each.plan, moved, predict(each.cost, moved).chunk_bytes).seconds;
      }
      return seconds[i];
    };
    auto const by_model = fastest(candidates, bytes).candidate;
    auto const by_correction = candidate_for(changes, size);
    double best = std::min(simulated(by_model), simulated(by_correction));
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      auto const& each = candidates.plans[i];
      if (planned_bytes(each, bytes) * each.cost.seconds_per_byte >= best) continue;
      best = std::min(best, simulated(i));
    }
    return ratios{seconds[by_model] / best, seconds[by_correction] / best};
  };

  winner_count result;
  result.plans = candidates.plans.size();
  auto const count = [&](double ratio, int& losses, double& worst) {
    losses += ratio > 1 + margin ? 1 : 0;
    worst = std::max(worst, ratio);
  };
  for (auto size = first; size <= last; size *= 2, ++result.sizes) {
    auto const here = ratios_at(size);
    count(here.model, result.model_losses, result.model_worst);
    count(here.corrected, result.corrected_losses, result.corrected_worst);
    count(ratios_at(size + size / 2).corrected, result.between_losses, result.between_worst);
  }
  return result;
}

}  // namespace blink::bench
