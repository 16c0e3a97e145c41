// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/schedule/tuning_table.hpp>

#include "arguments.hpp"
#include "plan_sizes.hpp"
#include "stall_analysis.hpp"

#include <map>
#include <string>
#include <vector>

namespace blink::tools {

/// A plan's name and the time that is predicted for it; 0 seconds: there is no prediction.
struct predicted_plan {
  std::string name;
  double seconds = 0;
};

/// Predictions for the calls of one bucket.
struct advised_bucket {
  predicted_plan in_use;  ///< its name is empty if no known plan has the calls' traffic
  predicted_plan best;    ///< that in use, if no plan is faster by more than `least_gain`
  /// By kind of link of the machine: the seconds of the plan in use with such links twice as fast.
  /// That of the best plan if the plan in use is not known.
  std::map<std::string, double> with_faster;

  /// The predicted time of the best plan over that of the plan in use; 1 if one is not known.
  [[nodiscard]] double ratio_of_best() const {
    return in_use.seconds > 0 && best.seconds > 0 ? best.seconds / in_use.seconds : 1;
  }
  /// The same with a kind of link twice as fast.
  [[nodiscard]] double ratio_with(std::string const& kind) const {
    auto const found = with_faster.find(kind);
    auto const before = in_use.seconds > 0 ? in_use.seconds : best.seconds;
    return found == with_faster.end() || before <= 0 ? 1 : found->second / before;
  }
};

/// Predictions for the calls of a loop.
struct stall_advice {
  std::string machine;                  ///< its name
  std::vector<std::string> link_kinds;  ///< of the machine
  std::vector<advised_bucket> buckets;  ///< as those of the loop
  /// For BLINK_TUNING: the fastest plans for the collectives whose plan in use is not the best.
  std::vector<tuning_table> better;
};

/// Predicts the times of a loop's calls: along the plan in use, the best plan, and faster links.
///
/// The plan in use is recognised by the bytes between ranks, among the plans for the machine, the
/// tables of BLINK_TUNING and the default. Calls whose inputs travel with them have no plan.
///
/// place: the machine of the loop's ranks
/// Throws: input_error if the machine has another number of ranks, or no known rate; what planners
///         throw.
[[nodiscard]] stall_advice advise(allocation const& place, loop_times const& loop,
                                  cost_options const& costs);

/// The predicted microseconds of an iteration whose calls take `ratio(bucket)` of the time for
/// moving data. At best, because calls that overlap with computation save less.
template <class Ratio>
[[nodiscard]] double predicted_iteration(loop_times const& loop, stall_advice const& advice,
                                         Ratio const& ratio) {
  double result = loop.iteration;
  for (std::size_t k = 0; k < loop.buckets.size(); ++k) {
    auto const& bucket = loop.buckets[k];
    result -= bucket.time - scaled_time(bucket, ratio(advice.buckets[k]));
  }
  return result;
}

}  // namespace blink::tools
