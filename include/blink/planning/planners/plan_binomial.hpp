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
#include <vector>

namespace blink { inline namespace BLINK_ABI {
namespace detail {

/// The binomial tree over any number of ranks: with ranks counted from the root on, the parent of a
/// rank is the number without its lowest set bit. Half of the edges join neighbours.
[[nodiscard]] inline tree_hops binomial_hops(std::vector<int> const& ranks, std::size_t root) {
  auto const n = ranks.size();
  tree_hops result;
  for (std::size_t i = 1; i < n; ++i) {  // a parent has a lower number than its children
    result.emplace_back(ranks[(root + (i & (i - 1))) % n], ranks[(root + i) % n]);
  }
  return result;
}

}  // namespace detail

/// Plans a collective over binomial trees in rank order: as few steps as possible, the baseline for
/// small messages. It does not look at the links.
///
/// broadcast, reduce, all_reduce: one tree (all-reduce: up and down again).
/// all_gather, reduce_scatter:    one tree for each rank's share.
///
/// Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication
///         operations in MPICH", IJHPCA 19, 2005.
/// Time:   O(N L) a tree for N ranks and L links.
/// Post:   height ceil(log2 N). `bound` is 0 and there is no certificate: `make_plan` adds the
///         machine's own.
/// Throws: planning_error for collectives whose trees do not span, and if the ranks are not
///         connected.
[[nodiscard]] inline plan plan_binomial(topology const& machine, plan_request const& request) {
  detail::routed_forest forest(machine, request);
  auto const ranks = forest.ranks();
  if (ranks.size() == 1) return std::move(forest).finish();
  int const root = request.root.value_or(ranks.front());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (!has_equal_roots(request.collective) && ranks[i] != root) continue;
    forest.add(ranks[i], detail::binomial_hops(ranks, i));
  }
  return std::move(forest).finish();
}

}}  // namespace blink::BLINK_ABI
