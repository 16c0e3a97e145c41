// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/packing/trees/all_gather_rate.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/planning/planners/plan_direct.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {
namespace detail {

/// Shares by rank, divided by their common divisor; equal ones are 1 each. Checks them.
[[nodiscard]] inline std::vector<std::int64_t> reduced_shares(topology const& machine,
                                                              std::vector<std::int64_t> shares) {
  if (shares.empty()) shares.assign(machine.rank_positions().size(), 1);
  expects(shares.size() == machine.rank_positions().size(), "shares: one for each rank");
  std::int64_t divisor = 0;
  for (auto const s : shares) {
    expects(s >= 0, "shares: a share is negative");
    divisor = std::gcd(divisor, s);
  }
  expects(divisor > 0, "shares: all are 0");
  for (auto& s : shares) s /= divisor;
  return shares;
}

[[nodiscard]] inline std::vector<std::int64_t> capacities_of(topology const& machine) {
  std::vector<std::int64_t> result;
  for (auto const& l : machine.links) result.push_back(l.capacity);
  return result;
}

/// Names the shares in the plan, unless they are equal.
inline void name_shares(plan& p, std::vector<std::int64_t> const& shares) {
  for (auto const s : shares) {
    if (s != shares.front()) {
      p.shares = shares;
      return;
    }
  }
}

}  // namespace detail

/// A bound on the rate of all-gather or reduce-scatter where ranks root unequal parts, and its cut:
/// the sum of the shares times the smallest ratio of the capacity out of a set to the shares in it.
///
/// shares: by rank, in the order of the machine's ranks.
/// Time:   see `all_gather_rate`.
/// Throws: planning_error if the ranks are not connected; precondition_error for other collectives,
///         and unless the shares are one for each rank, not negative, and not all 0.
[[nodiscard]] inline plan bound_of_shares(topology const& machine, collective kind,
                                          std::vector<std::int64_t> shares) {
  expects(has_equal_roots(kind), "bound_of_shares: for all_gather and reduce_scatter");
  if (kind == collective::reduce_scatter) {
    return detail::reversed(
        bound_of_shares(detail::reversed(machine), collective::all_gather, std::move(shares)),
        machine);
  }
  plan result = detail::empty_plan(machine, {kind});
  shares = detail::reduced_shares(machine, std::move(shares));
  detail::name_shares(result, shares);
  if (result.ranks.size() < 2) return result;
  auto const optimum =
      all_gather_rate(machine, detail::capacities_of(machine), machine.rank_positions(), shares);
  if (optimum.rate_per_root == rational(0)) {
    throw planning_error("some ranks cannot send to all others");
  }
  rational all;
  for (auto const s : shares) all += s;
  result.bound = machine.in_units(optimum.rate_per_root * all);
  result.proof = detail::cut_at(machine, optimum.cut);
  return result;
}

/// Plans all-gather or reduce-scatter where ranks root unequal parts of the buffer, optimally, on
/// any machine: so many arborescences at each rank as its share demands.
///
/// shares: by rank, in the order of the machine's ranks; a rank with 0 roots nothing.
/// Source: L. Zhao et al., "ForestColl", 2024; Edmonds 1973.
/// Time:   as all-gather by `plan_direct`.
/// Post:   rate = bound, proven by a cut; the weights of each rank's trees are in proportion to the
///         shares.
/// Throws: as `bound_of_shares`, and as `plan_direct`.
[[nodiscard]] inline plan plan_shares(topology const& machine, plan_request const& request,
                                      std::vector<std::int64_t> shares) {
  shares = detail::reduced_shares(machine, std::move(shares));
  plan result = bound_of_shares(machine, request.collective, shares);
  if (result.ranks.size() < 2) return result;
  rational all;
  for (auto const s : shares) all += s;
  auto const for_one = result.bound * machine.steps_per_unit / all;  // steps for a share of 1
  std::vector<detail::rank_supply> supplies;
  auto const ranks = machine.rank_positions();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (shares[i] > 0) supplies.push_back({ranks[i], for_one * shares[i]});
  }
  detail::pack_out_trees(machine, supplies, result);
  return result;
}

}}  // namespace blink::BLINK_ABI
