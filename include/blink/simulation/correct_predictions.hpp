// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/planning/choose_plan.hpp>
#include <blink/planning/cost/cost_model.hpp>
#include <blink/simulation/simulate.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// Limits on what is simulated, and on predictions that stay.
struct correction_options {
  double tolerance = 0.05;  ///< a prediction that is wrong by no more than this share stays
  double slowest = 2;       ///< plans slower than this times the fastest are not simulated
  std::int64_t most_messages = 100'000;  ///< plans with more messages are not simulated
};

/// Compares the predictions of the cost model with simulations, and corrects those that differ.
///
/// The sizes double from `first` to `last`. At each, the candidates that may be the fastest are
/// simulated. A candidate gets the factor between the simulated and the predicted time if they
/// differ by more than `tolerance`, and otherwise the factor 1. A candidate that is not simulated
/// keeps the factor of the size before.
///
/// first, last: sizes of the whole buffer in bytes
/// machine:     the one that the candidates were planned for
/// simulated:   as the candidates' costs: the same start, step and rate of a unit
/// Post:   `seconds_for`, `fastest` and `crossovers` use the corrected times.
/// Time:   O(log(last / first)) simulations of each candidate, of at most `most_messages` messages.
/// Pre:    1 <= first <= last; the candidates are no barriers.
/// Throws: precondition_error if the precondition on sizes does not hold; input_error if the unit
///         has no known rate.
inline void correct_predictions(topology const& machine, plan_candidates& candidates,
                                std::int64_t first, std::int64_t last,
                                simulation_options simulated = {},
                                correction_options const& options = {}) {
  expects(1 <= first && first <= last, "correct_predictions: expected 1 <= first <= last");
  for (auto& each : candidates.plans) each.corrections.clear();
  for (auto size = first;; size = std::min(last, size * 2)) {
    auto const bytes = static_cast<double>(size);
    double const best = fastest(candidates, bytes).seconds;
    for (auto& each : candidates.plans) {
      double const moved = planned_bytes(each, bytes);
      auto const predicted = predict(each.cost, moved);
      double factor = each.corrections.empty() ? 1 : each.corrections.back().factor;
      if (predicted.seconds <= options.slowest * best &&
          count_messages(each.plan, moved, predicted.chunk_bytes) <=
              static_cast<double>(options.most_messages)) {
        factor = simulate(machine, each.plan, moved, predicted.chunk_bytes, simulated).seconds /
                 predicted.seconds;
        if (std::abs(factor - 1) <= options.tolerance) factor = 1;
      }
      each.corrections.push_back({bytes, factor});
    }
    if (size == last) break;
  }
}

}}  // namespace blink::BLINK_ABI
