// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/planning/cost/cost_model.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A factor on the cost model's prediction for a size; see `correct_predictions`.
struct prediction_correction {
  double bytes = 0;
  double factor = 1;  ///< real seconds over predicted seconds
};

/// One plan for a collective, with its cost.
struct plan_candidate {
  blink::plan plan;
  plan_cost cost;
  /// True if the plan is a reduce-scatter whose trees each carry the whole buffer, which makes it
  /// an all-reduce; see `schedule::is_one_shot`.
  bool is_one_shot = false;
  std::vector<prediction_correction> corrections = {};  ///< by size; none: the prediction holds
};

/// The name of the candidate's planner, with " one-shot" for a one-shot plan.
[[nodiscard]] inline std::string name_of(plan_candidate const& candidate) {
  return candidate.plan.planner + (candidate.is_one_shot ? " one-shot" : "");
}

/// The bytes that the plan moves for a buffer of `bytes`: one-shot trees each carry all of it.
[[nodiscard]] inline double planned_bytes(plan_candidate const& candidate, double bytes) {
  return candidate.is_one_shot ? bytes * static_cast<double>(candidate.plan.ranks.size()) : bytes;
}

/// The factor on the predicted seconds for a buffer of `bytes`: linear in the logarithm of the size
/// between two corrections, constant outside.
[[nodiscard]] inline double correction_for(plan_candidate const& candidate, double bytes) {
  auto const& all = candidate.corrections;
  if (all.empty()) return 1;
  auto const above = std::ranges::upper_bound(all, bytes, {}, &prediction_correction::bytes);
  if (above == all.begin()) return all.front().factor;
  if (above == all.end()) return all.back().factor;
  auto const& below = *std::prev(above);
  double const way = std::log(bytes / below.bytes) / std::log(above->bytes / below.bytes);
  return below.factor + way * (above->factor - below.factor);
}

/// The expected seconds for a buffer of `bytes`. Time: as `predict`.
[[nodiscard]] inline double seconds_for(plan_candidate const& candidate, double bytes) {
  return predict(candidate.cost, planned_bytes(candidate, bytes)).seconds *
         correction_for(candidate, bytes);
}

/// The plans of all planners, and the reasons of the planners that have none.
struct plan_candidates {
  std::vector<plan_candidate> plans;
  std::vector<std::pair<std::string, std::string>> refused;  ///< planner, reason
};

/// The plans of all planners for one request; `request.planner` is ignored.
///
/// Without a root, a broadcast or reduce takes the root that the first planner with a plan chooses,
/// for all planners.
///
/// Post:   every plan passes `check_plan`.
/// Throws: planning_error if no planner has a plan; what `cost_of` throws; what `make_plan` throws,
///         except planning_error.
[[nodiscard]] inline plan_candidates all_plans(topology const& machine, plan_request request,
                                               cost_parameters const& parameters = {}) {
  plan_candidates result;
  for (auto const name : planner_names) {
    request.planner = std::string(name);
    try {
      auto p = make_plan(machine, request);
      if (is_substitute(p, name)) throw planning_error("its budget was spent");
      if (!p.trees.empty() && has_one_root(request.collective)) {
        request.root = p.trees.front().root;
      }
      auto cost = cost_of(machine, p, parameters);
      result.plans.push_back({std::move(p), std::move(cost)});
    } catch (planning_error const& reason) {
      result.refused.emplace_back(request.planner, reason.what());
    } catch (overflow_error const& reason) {
      result.refused.emplace_back(request.planner, reason.what());
    }
  }
  if (result.plans.empty()) {
    throw planning_error("no planner has a plan for machine '" + machine.name +
                         "'; exact: " + result.refused.front().second);
  }
  return result;
}

/// The fastest candidate for a size, and its time.
struct plan_choice {
  std::size_t candidate = 0;  ///< position in `plan_candidates::plans`; the first of equals
  double seconds = 0;
};

/// The candidate that is expected to be the fastest for a buffer of `bytes`. Time: `predict` for
/// each candidate.
[[nodiscard]] inline plan_choice fastest(plan_candidates const& candidates, double bytes) {
  plan_choice best;
  for (std::size_t i = 0; i < candidates.plans.size(); ++i) {
    double const seconds = seconds_for(candidates.plans[i], bytes);
    if (i == 0 || seconds < best.seconds) best = {i, seconds};
  }
  return best;
}

/// The size in bytes from which on `candidate` is used.
struct plan_crossover {
  std::int64_t bytes = 0;
  std::size_t candidate = 0;
};

/// The gain in time below which another candidate is not worth a change.
inline constexpr double least_gain = 0.01;

namespace detail {

/// The size that follows `bytes` where sizes grow by an eighth, at most `last`.
[[nodiscard]] constexpr std::int64_t next_size(std::int64_t bytes, std::int64_t last) {
  return std::min(last, bytes + std::max<std::int64_t>(1, bytes / 8));
}

/// The sizes between `first` and `last` at which the fastest candidate changes, by any gain.
[[nodiscard]] inline std::vector<plan_crossover> changes_of_fastest(
    plan_candidates const& candidates, std::int64_t first, std::int64_t last) {
  auto const winner = [&](std::int64_t bytes) {
    return fastest(candidates, static_cast<double>(bytes)).candidate;
  };
  std::vector<plan_crossover> result{{first, winner(first)}};
  // Appends the changes in (low, high]; the fastest candidates at both ends differ.
  auto const split = [&](auto const& self, std::int64_t low, std::size_t at_low, std::int64_t high,
                         std::size_t at_high) -> void {
    if (at_low == at_high) return;
    if (high - low == 1) {
      result.push_back({high, at_high});
      return;
    }
    auto const middle = low + (high - low) / 2;
    auto const at_middle = winner(middle);
    self(self, low, at_low, middle, at_middle);
    self(self, middle, at_middle, high, at_high);
  };
  auto at_low = result.front().candidate;
  for (std::int64_t low = first; low < last;) {
    auto const high = next_size(low, last);
    auto const at_high = winner(high);
    split(split, low, at_low, high, at_high);
    low = high;
    at_low = at_high;
  }
  return result;
}

}  // namespace detail

/// The sizes between `first` and `last`, in bytes, from which on another candidate is used.
///
/// The entry at `first` names the fastest candidate there. A candidate stays in use until another
/// is the fastest. That one must gain more than `least_gain` at a size for which it is the fastest.
///
/// The search visits sizes that grow by an eighth. Where the fastest candidate differs from that of
/// the size before, bisection finds the byte. A candidate that is the fastest only between two
/// visited sizes may be missed.
///
/// Time:   O(log(last / first) * 64) predictions of each candidate.
/// Pre:    1 <= first <= last.
/// Throws: precondition_error if the precondition does not hold.
[[nodiscard]] inline std::vector<plan_crossover> crossovers(plan_candidates const& candidates,
                                                            std::int64_t first, std::int64_t last) {
  expects(1 <= first && first <= last, "crossovers: expected 1 <= first <= last");
  auto const all = detail::changes_of_fastest(candidates, first, last);
  std::vector<plan_crossover> result{all.front()};
  for (std::size_t i = 1; i < all.size(); ++i) {
    auto const& used = candidates.plans[result.back().candidate];
    auto const end = i + 1 < all.size() ? all[i + 1].bytes - 1 : last;
    auto const is_worth_it = [&](std::int64_t bytes) {
      auto const size = static_cast<double>(bytes);
      return seconds_for(used, size) >
             (1 + least_gain) * seconds_for(candidates.plans[all[i].candidate], size);
    };
    bool worth_it = is_worth_it(all[i].bytes);
    for (auto bytes = all[i].bytes; bytes < end && !worth_it;) {
      bytes = detail::next_size(bytes, end);
      worth_it = is_worth_it(bytes);
    }
    if (worth_it && result.back().candidate != all[i].candidate) result.push_back(all[i]);
  }
  return result;
}

/// The candidate in use for `bytes`.
/// Pre: `changes` is what `crossovers` returns; bytes is not below its first size.
[[nodiscard]] inline std::size_t candidate_for(std::vector<plan_crossover> const& changes,
                                               std::int64_t bytes) {
  auto const above = std::ranges::upper_bound(changes, bytes, {}, &plan_crossover::bytes);
  return std::prev(above)->candidate;
}

/// The plan of all planners that is predicted to be the fastest for a buffer of `bytes`.
///
/// Pre:    bytes >= 0.
/// Throws: as `all_plans`; precondition_error if bytes < 0.
[[nodiscard]] inline plan choose_plan(topology const& machine, plan_request const& request,
                                      double bytes, cost_parameters const& parameters = {}) {
  auto candidates = all_plans(machine, request, parameters);
  return std::move(candidates.plans[fastest(candidates, bytes).candidate].plan);
}

}}  // namespace blink::BLINK_ABI
