// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/planning/planners/plan_direct.hpp>
#include <blink/planning/planners/prove_bound.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {
namespace detail {

/// A plan without trees that has the bound, and the shares unless they are equal.
[[nodiscard]] inline plan plan_of_shares(topology const& machine, plan_request const& request,
                                         std::vector<std::int64_t> const& shares) {
  plan result = empty_plan(machine, request);
  bool const equal =
      std::ranges::all_of(shares, [&](std::int64_t s) { return s == shares.front(); });
  if (!equal) result.shares = shares;
  auto proven = prove_bound(machine, request.collective, 0, shares);
  result.bound = proven.bound;
  result.proof = std::move(proven.proof);
  return result;
}

}  // namespace detail

/// Plans all-gather with unequal shares of the ranks, optimally on any machine. Each rank roots
/// arborescences of a total weight in proportion to its share.
///
/// shares: by rank, in the order of the machine's ranks; a rank with 0 roots nothing.
/// Source: L. Zhao et al., "ForestColl", 2024; Edmonds 1973.
/// Time:   as all-gather by `plan_direct`.
/// Post:   rate = bound, proven by a cut; the weights of each rank's trees are in proportion to the
///         shares.
/// Throws: as `prove_bound`, and as `plan_direct`; precondition_error for negative shares, or not
///         one for each rank; precondition_error for another collective, as `make_plan` plans a
///         reduce-scatter on the reversed machine.
[[nodiscard]] inline plan plan_shares(topology const& machine, plan_request const& request,
                                      std::vector<std::int64_t> shares) {
  detail::expect_kind(request, collective::all_gather, "plan_shares");
  shares = detail::reduced_shares(machine, std::move(shares));
  auto result = detail::plan_of_shares(machine, request, shares);
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
