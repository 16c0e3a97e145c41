// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/planning/plan/detail/routed_forest.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <utility>

namespace blink { inline namespace BLINK_ABI {

/// Plans a collective in one step each way: every rank roots a share and reaches all others
/// directly. Made for a switch (DGX-2), where it is optimal; on other machines a hop is a route.
///
/// all_reduce, all_gather, reduce_scatter: N stars, one for each rank's share.
/// broadcast, reduce: N-1 trees of two hops (root, one other rank, all the rest), which send each
///                    byte only once from the root: one star would share the root's port N-1 times.
///
/// Source: Wang et al., "Blink: Fast and Generic Collectives for Distributed ML", MLSys 2020,
///         section 3.5 (the stars).
/// Time:   O(N^2 L) for N ranks and L links.
/// Post:   `bound` is 0 and there is no certificate: `make_plan` adds the machine's own.
/// Throws: planning_error for collectives whose trees do not span, and if the ranks are not
///         connected.
[[nodiscard]] inline plan plan_one_hop(topology const& machine, plan_request const& request) {
  detail::routed_forest forest(machine, request);
  auto const ranks = forest.ranks();
  if (ranks.size() == 1) return std::move(forest).finish();
  bool const one_root =
      request.collective == collective::broadcast || request.collective == collective::reduce;
  int const root = request.root.value_or(ranks.front());
  // Ranks that must root equal shares make one group; more than a few groups cost time.
  constexpr std::size_t most_groups = 32;
  bool const together = has_equal_roots(request.collective) || ranks.size() > most_groups;
  int group = 0;
  for (int const center : ranks) {
    if (one_root && center == root) continue;
    detail::tree_hops hops;
    if (one_root) hops.emplace_back(root, center);
    for (int const other : ranks) {
      if (other != center && !(one_root && other == root)) hops.emplace_back(center, other);
    }
    forest.add(one_root ? root : center, hops, 1, together ? 0 : group++);
  }
  return std::move(forest).finish();
}

}}  // namespace blink::BLINK_ABI
