// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/planning/plan/detail/routed_forest.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {
namespace detail {

/// The rank with which `rank` exchanges data in a round. `rank` is one of `count`, a power of two;
/// `reach` counts from log2(count) (far) down to 1 (neighbours). An involution.
using butterfly_partner = std::size_t (*)(std::size_t rank, int reach, std::size_t count);

/// Numbers that differ in one bit: 2^(reach - 1) away.
[[nodiscard]] inline std::size_t bit_partner(std::size_t rank, int reach, std::size_t) {
  return rank ^ (std::size_t{1} << static_cast<unsigned>(reach - 1));
}

/// Round the circle by (1 - (-2)^reach) / 3, even ranks one way and odd ranks the other: a third
/// nearer than one bit away.
[[nodiscard]] inline std::size_t bine_partner(std::size_t rank, int reach, std::size_t count) {
  std::int64_t power = 1;
  for (int i = 0; i < reach; ++i) power *= -2;
  auto const step = (1 - power) / 3;
  auto const n = static_cast<std::int64_t>(count);
  auto const there = static_cast<std::int64_t>(rank) + (rank % 2 == 0 ? step : -step);
  return static_cast<std::size_t>((there % n + n) % n);
}

/// The tree on which a butterfly spreads the data of one rank, in log2(N) rounds.
///
/// far_first: the rounds from the farthest to the nearest partner: then only one edge is long and
///            half of them are short; otherwise the other way round.
/// If N is no power of two: N - 2^k ranks hang as leaves below a neighbour.
[[nodiscard]] inline tree_hops butterfly_hops(std::vector<int> const& ranks, std::size_t root,
                                              butterfly_partner partner, bool far_first) {
  auto const n = ranks.size();
  auto const core = std::bit_floor(n);
  auto const folded = n - core;  // pairs of neighbours that act as one
  auto const rank_at = [&](std::size_t c) {
    if (c >= folded) return c + folded;
    return root == 2 * c + 1 ? root : 2 * c;
  };
  std::vector<std::size_t> reached{root < 2 * folded ? root / 2 : root - folded};
  tree_hops result;
  int const rounds = std::countr_zero(core);
  for (int round = 0; round < rounds; ++round) {
    int const reach = far_first ? rounds - round : round + 1;
    for (std::size_t i = reached.size(); i-- > 0;) {
      auto const to = partner(reached[i], reach, core);
      result.emplace_back(ranks[rank_at(reached[i])], ranks[rank_at(to)]);
      reached.push_back(to);
    }
  }
  for (std::size_t c = 0; c < folded; ++c) {
    auto const above = rank_at(c);
    result.emplace_back(ranks[above], ranks[above ^ 1U]);
  }
  return result;
}

[[nodiscard]] inline plan plan_butterfly(topology const& machine, plan_request const& request,
                                         butterfly_partner partner, bool far_first) {
  routed_forest forest(machine, request);
  auto const ranks = forest.ranks();
  if (ranks.size() == 1) return std::move(forest).finish();
  bool const one_root =
      request.collective == collective::broadcast || request.collective == collective::reduce;
  int const root = request.root.value_or(ranks.front());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (one_root && ranks[i] != root) continue;
    forest.add(ranks[i], butterfly_hops(ranks, i, partner, far_first));
  }
  return std::move(forest).finish();
}

}  // namespace detail

/// Plans all-gather by recursive doubling, reduce-scatter by recursive halving, and all-reduce by
/// the one after the other: each rank's share is reduced over the halving tree and spread over the
/// doubling one, nearest partners last up and first down. Half of the edges of a tree are long.
///
/// Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication
///         operations in MPICH", IJHPCA 19, 2005.
/// Time:   O(N^2 L) for N ranks and L links.
/// Post:   N trees of height log2 N, one more if N is no power of two. `bound` is 0 and there is no
///         certificate: `make_plan` adds the machine's own.
/// Throws: planning_error for other collectives, and if the ranks are not connected.
[[nodiscard]] inline plan plan_recursive_halving_doubling(topology const& machine,
                                                          plan_request const& request) {
  return detail::plan_butterfly(machine, request, detail::bit_partner, false);
}

/// The same with the rounds in the other order (vector halving with distance doubling, and back):
/// most data goes to near partners. One edge of a tree is long.
///
/// Source: R. Rabenseifner, "Optimization of collective reduction operations", ICCS 2004.
/// Time:   O(N^2 L) for N ranks and L links.
/// Post, Throws: as `plan_recursive_halving_doubling`.
[[nodiscard]] inline plan plan_rabenseifner(topology const& machine, plan_request const& request) {
  return detail::plan_butterfly(machine, request, detail::bit_partner, true);
}

/// Plans a collective over Bine trees: binomial trees whose partners are sums of powers of -2 away,
/// which cross a third less distance. One tree for broadcast and reduce, one for each rank's share
/// otherwise. It does not look at the links.
///
/// Source: D. De Sensi et al., "Bine trees: enhancing collective operations by optimizing
///         communication locality", SC 2025.
/// Time:   O(N^2 L) for N ranks and L links.
/// Post:   height as `plan_recursive_halving_doubling`. `bound` is 0 and there is no certificate:
///         `make_plan` adds the machine's own.
/// Throws: planning_error for collectives whose trees do not span, and if the ranks are not
///         connected.
[[nodiscard]] inline plan plan_bine(topology const& machine, plan_request const& request) {
  return detail::plan_butterfly(machine, request, detail::bine_partner, true);
}

}}  // namespace blink::BLINK_ABI
