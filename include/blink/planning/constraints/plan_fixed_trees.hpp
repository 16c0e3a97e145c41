// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/egress_excess.hpp>
#include <blink/packing/trees/all_gather_rate.hpp>
#include <blink/packing/trees/arborescence_packing.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/planning/planners/plan_direct.hpp>
#include <blink/planning/planners/plan_shares.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {
namespace detail {

/// The machine with capacities that count the trees of weight 1 / `scale` steps that fit on a link.
/// Links on which none fits are gone.
[[nodiscard]] inline topology in_whole_trees(topology machine, rational const& scale) {
  machine.steps_per_unit = 1;
  for (auto& l : machine.links) {
    auto const trees = scale * l.capacity;
    l.capacity = trees.numerator() / trees.denominator();
  }
  std::erase_if(machine.links, [](link const& l) { return l.capacity == 0; });
  return machine;
}

/// True if k trees for each share of 1 fit, each of the weight 1 / `scale` steps. If whole trees
/// give a switch egress excess, they fit only if the switch balances without that excess.
[[nodiscard]] inline bool trees_fit(topology const& machine, rational const& scale, std::int64_t k,
                                    std::vector<std::int64_t> const& shares) {
  auto const whole = in_whole_trees(machine, scale);
  auto const capacity = capacities_of(whole);
  auto const ranks = whole.rank_positions();
  if (all_gather_rate(whole, capacity, ranks, shares).rate_per_root < rational(k)) return false;
  std::vector<bool> is_switch;
  for (auto const& n : whole.nodes) is_switch.push_back(n.kind == node_kind::switch_node);
  if (unbalanced_switches(whole, capacity, is_switch).empty()) return true;
  std::vector<root_supply> supplies;
  for (std::size_t i = 0; i < ranks.size(); ++i) supplies.push_back({ranks[i], shares[i] * k});
  return remove_egress_excess(whole, capacity, is_switch, supplies).has_value();
}

/// Packs k trees of the weight 1 / `scale` steps for each share of 1 into `result`.
inline void pack_whole_trees(topology const& machine, rational const& scale, std::int64_t k,
                             std::vector<std::int64_t> const& shares, plan& result,
                             arborescence_packing_options const& options = {}) {
  auto const whole = in_whole_trees(machine, scale);
  std::vector<rank_supply> supplies;
  auto const ranks = machine.rank_positions();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (shares[i] > 0) supplies.push_back({ranks[i], shares[i] * k});
  }
  pack_out_trees(whole, supplies, result, options);
  result.rate = 0;
  for (auto& t : result.trees) {
    t.weight = machine.in_units(t.weight / scale);
    result.rate += t.weight;
  }
}

/// The smallest scale at which k trees for each share of 1 fit. The answer changes only at scales
/// that make a link's capacity times the scale whole; these are searched link by link.
[[nodiscard]] inline rational least_scale(topology const& machine, std::int64_t k,
                                          rational const& best_rate,
                                          std::vector<std::int64_t> const& shares) {
  std::set<std::int64_t> capacities;
  std::int64_t all = 0;
  for (auto const& l : machine.links) capacities.insert(l.capacity);
  for (auto const s : shares) all += s;
  auto const floor_of = [](rational const& r) { return r.numerator() / r.denominator(); };
  rational const least = rational(k) / best_rate;  // cuts allow nothing less
  if (trees_fit(machine, least, k, shares)) return least;
  // With this scale every link has room for all trees, and whole multiples keep switches balanced.
  rational best = floor_of(rational(k) * all / *capacities.begin()) + 1;
  for (auto const c : capacities) {
    std::int64_t low = floor_of(least * c);  // does not fit
    std::int64_t high = floor_of(best * c);  // at or below the best that fits
    if (high <= low || !trees_fit(machine, rational(high, c), k, shares)) continue;
    while (high - low > 1) {
      auto const middle = low + (high - low) / 2;
      (trees_fit(machine, rational(middle, c), k, shares) ? high : low) = middle;
    }
    best = std::min(best, rational(high, c));
  }
  return best;
}

}  // namespace detail

/// Plans all-gather with k trees of equal weight at each rank (k times its share, with unequal
/// shares), at the highest rate that such plans have.
///
/// With the weight 1/U of a tree, floor(U b) trees fit on a link of capacity b. A search finds the
/// smallest U at which the trees fit; the trees are then packed into these whole capacities. Equal
/// trees are joined.
///
/// shares: by rank, in the order of the machine's ranks; empty: equal.
/// Source: L. Zhao et al., "ForestColl", 2024 (fixed k).
/// Time:   O(capacities * log) times `all_gather_rate`, then as all-gather by `plan_direct`.
/// Post:   `bound` and `proof` are those without the restriction, so rate / bound shows its cost.
///         Behind switches whose routes need parts of trees, a rank may have more and lighter trees
///         of the same sum.
/// Throws: as `plan_shares`; precondition_error unless k >= 1.
[[nodiscard]] inline plan plan_fixed_trees(topology const& machine, plan_request const& request,
                                           std::int64_t k, std::vector<std::int64_t> shares = {}) {
  detail::expect_kind(request, collective::all_gather, "plan_fixed_trees");
  expects(k >= 1, "plan_fixed_trees: k is below 1, expected at least 1");
  shares = detail::reduced_shares(machine, std::move(shares));
  auto result = detail::plan_of_shares(machine, request, shares);
  if (result.ranks.size() < 2) return result;
  rational all;
  for (auto const s : shares) all += s;
  auto const scale =
      detail::least_scale(machine, k, result.bound * machine.steps_per_unit / all, shares);
  detail::pack_whole_trees(machine, scale, k, shares, result);
  return result;
}

/// One point of the trade between the number of trees and the rate.
struct tree_count_rate {
  std::int64_t trees_per_root = 0;
  rational rate;
};

/// The numbers of trees for each root, up to `most`, that are faster than all smaller numbers. The
/// list ends with the first number that reaches the optimum. (More trees are not always faster.)
///
/// Time:   `most` times the search of `plan_fixed_trees`, without packing.
/// Throws: as `plan_fixed_trees`.
[[nodiscard]] inline std::vector<tree_count_rate> tree_count_frontier(
    topology const& machine, plan_request const& request, std::int64_t most,
    std::vector<std::int64_t> shares = {}) {
  auto const forward = has_reduce_phase(request.collective) ? detail::reversed(machine) : machine;
  shares = detail::reduced_shares(machine, std::move(shares));
  auto const bound = prove_bound(forward, collective::all_gather, 0, shares).bound;
  std::vector<tree_count_rate> result;
  if (machine.rank_positions().size() < 2) return result;
  rational all;
  for (auto const s : shares) all += s;
  for (std::int64_t k = 1; k <= most; ++k) {
    auto const scale =
        detail::least_scale(forward, k, bound * machine.steps_per_unit / all, shares);
    auto const rate = machine.in_units(rational(k) * all / scale);
    if (result.empty() || rate > result.back().rate) result.push_back({k, rate});
    if (rate == bound) break;
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
