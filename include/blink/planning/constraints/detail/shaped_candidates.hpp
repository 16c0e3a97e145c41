// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/constraints/detail/restricted_packing.hpp>
#include <blink/planning/constraints/plan_fixed_trees.hpp>
#include <blink/planning/constraints/restricted_machine.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/planning/planners/plan_shares.hpp>
#include <blink/planning/planners/planners.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

// Plans whose trees may have a wanted shape (few, low, of whole weights, over given links). Each
// function searches in another way. The caller keeps the best plan that has the shape.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The wanted shape of trees, for a collective whose trees are packed outwards. The machine already
/// has the other constraints.
struct shaped_request {
  plan_request request;
  std::vector<std::int64_t> shares;  ///< by rank; empty: equal
};

[[nodiscard]] inline int max_height(plan const& p) {
  int result = 0;
  for (auto const& t : p.trees) result = std::max(result, height(t));
  return result;
}

/// True if the plan has the wanted shape.
[[nodiscard]] inline bool has_shape(plan const& p, plan_constraints const& options) {
  if (options.max_trees && p.trees.size() > static_cast<std::size_t>(*options.max_trees)) {
    return false;
  }
  if (options.max_height && max_height(p) > *options.max_height) return false;
  std::map<int, int> trees_at;
  for (auto const& t : p.trees) {
    if (options.weight_unit && (t.weight / *options.weight_unit).denominator() != 1) return false;
    ++trees_at[t.root];
  }
  for (auto const& [root, count] : trees_at) {
    if (options.trees_per_root && count > *options.trees_per_root) return false;
  }
  std::set<std::pair<int, int>> used;
  for (auto const& t : p.trees) {
    for (auto const* phase : {&t.reduce, &t.broadcast}) {
      for (auto const& e : *phase) {
        for (std::size_t i = 0; i + 1 < e.path.size(); ++i) used.emplace(e.path[i], e.path[i + 1]);
      }
    }
  }
  return std::ranges::all_of(options.required_links,
                             [&](auto const& link) { return used.contains(link); });
}

/// Adds plans of trees with whole weights, if heights do not matter: exact for broadcast and
/// all-gather.
inline void add_whole_tree_plans(topology const& machine, shaped_request const& wanted,
                                 plan const& free, std::vector<plan>& candidates) {
  auto const& options = wanted.request.constraints;
  if (options.max_height || has_both_phases(wanted.request.collective)) return;
  if (has_one_root(wanted.request.collective)) {
    if (!options.weight_unit) return;
    auto const scale = rational(1, machine.steps_per_unit) / *options.weight_unit;
    auto const whole = in_whole_trees(machine, scale);
    auto request = wanted.request;
    if (!request.root) request.root = free.trees.front().root;
    try {
      auto p = plan_unrestricted(whole, request);
      for (auto& t : p.trees) t.weight *= *options.weight_unit;
      p.rate *= *options.weight_unit;
      candidates.push_back(std::move(p));
    } catch (planning_error const&) {  // no whole tree fits
    }
    return;
  }
  auto const shares = reduced_shares(machine, wanted.shares);
  if (options.weight_unit) {
    auto const scale = rational(1, machine.steps_per_unit) / *options.weight_unit;
    auto const whole = in_whole_trees(machine, scale);
    auto const k =
        all_gather_rate(whole, capacities_of(whole), whole.rank_positions(), shares).rate_per_root;
    auto p = empty_plan(machine, wanted.request);
    auto count = k.numerator() / k.denominator();
    if (count > 0 && !trees_fit(machine, scale, count, shares)) {  // a switch is in the way
      std::int64_t fails = count;
      for (count = 0; fails - count > 1;) {
        auto const middle = count + (fails - count) / 2;
        (trees_fit(machine, scale, middle, shares) ? count : fails) = middle;
      }
    }
    if (count > 0) {
      pack_whole_trees(machine, scale, count, shares, p);
      candidates.push_back(std::move(p));
    }
    return;
  }
  std::int64_t roots = 0;
  for (auto const s : shares) roots += s > 0 ? 1 : 0;
  constexpr std::int64_t most_frontier = 64;
  auto most = options.trees_per_root ? *options.trees_per_root : most_frontier;
  if (options.max_trees) most = std::min<std::int64_t>(most, *options.max_trees / roots);
  if (!options.trees_per_root && !options.max_trees) return;
  std::int64_t k = most;
  if (!options.trees_per_root) {
    auto const frontier = tree_count_frontier(machine, wanted.request, most, shares);
    if (!frontier.empty()) k = frontier.back().trees_per_root;
  }
  candidates.push_back(plan_fixed_trees(machine, wanted.request, k, shares));
}

/// Adds optimal packings, and packings of k trees for each root. They may happen to be low enough.
inline void add_shallow_packings(topology const& machine, shaped_request const& wanted,
                                 plan const& free, std::vector<plan>& candidates) {
  auto const& options = wanted.request.constraints;
  if (!options.max_height || options.weight_unit || has_both_phases(wanted.request.collective)) {
    return;
  }
  constexpr int tries = 24;
  arborescence_packing_options const low{.preferred_height = *options.max_height, .tries = tries};
  auto p = empty_plan(machine, wanted.request);
  if (has_one_root(wanted.request.collective)) {
    int const root = machine.position_of(free.trees.front().root);
    pack_out_trees(machine, {{root, free.rate * machine.steps_per_unit}}, p, low);
    candidates.push_back(std::move(p));
    return;
  }
  auto const shares = reduced_shares(machine, wanted.shares);
  constexpr std::int64_t most_trees = 12;  // for each root; more trees are seldom low
  auto const most = std::min<std::int64_t>(
      most_trees, options.trees_per_root ? *options.trees_per_root : most_trees);
  rational copies;
  for (auto const s : shares) copies += s;
  for (auto const& point : tree_count_frontier(machine, wanted.request, most, shares)) {
    auto q = p;
    auto const weight = point.rate * machine.steps_per_unit / copies / point.trees_per_root;
    pack_whole_trees(machine, rational(1) / weight, point.trees_per_root, shares, q, low);
    candidates.push_back(std::move(q));
  }
}

/// The rate that trees of a height reach, in units.
struct height_limit {
  rational rate;                  ///< of the best packing found
  std::optional<rational> bound;  ///< proven; 0: no such trees exist
};

/// Adds plans by linear programming over trees of the height. Returns the rate and bound that the
/// height alone allows.
///
/// Throws: planning_error if no trees of the height wanted span the ranks.
inline height_limit add_packed_plan(topology const& machine, shaped_request const& wanted,
                                    plan const& free, std::vector<plan>& candidates) {
  auto const& options = wanted.request.constraints;
  auto const ranks = machine.rank_positions();
  tree_family family;
  family.collective = wanted.request.collective;
  family.height = options.max_height.value_or(0);
  packing_shape shape;
  shape.height = family.height;
  shape.required = options.required_links;
  if (options.weight_unit) shape.unit = *options.weight_unit * machine.steps_per_unit;
  std::vector<std::vector<int>> root_sets(1);  // one packing each; the best is kept
  if (has_one_root(family.collective)) {
    root_sets.clear();
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      int const id = machine.nodes[static_cast<std::size_t>(ranks[i])].id;
      bool const tried = wanted.request.root ? id == *wanted.request.root
                                             : ranks.size() <= shallow_arborescences_exact ||
                                                   id == free.trees.front().root;
      if (tried) root_sets.push_back({static_cast<int>(i)});
    }
  } else {
    for (std::size_t i = 0; i < ranks.size(); ++i) root_sets[0].push_back(static_cast<int>(i));
  }
  std::int64_t roots = 1;
  if (has_equal_roots(family.collective)) {
    constexpr std::int64_t most_copies = 4096;
    roots = 0;
    rational copies;
    if (!wanted.shares.empty()) family.shares = reduced_shares(machine, wanted.shares);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      auto const share = family.shares.empty() ? 1 : family.shares[i];
      roots += share > 0 ? 1 : 0;
      copies += share;
    }
    if (copies > rational(most_copies)) {
      throw planning_error("options: shares that sum to " + copies.to_text() +
                           " are too fine for trees of a shape, expected at most " +
                           std::to_string(most_copies));
    }
  }
  if (options.max_trees) shape.bundles = static_cast<std::size_t>(*options.max_trees / roots);
  if (options.trees_per_root) {
    shape.bundles = std::min(shape.bundles, static_cast<std::size_t>(*options.trees_per_root));
  }
  height_limit reached{0, rational(0)};
  for (auto const& set : root_sets) {
    family.roots = set;
    restricted_packer packer(machine, family);
    auto packed = packer.pack(shape);
    reached.rate = std::max(reached.rate, machine.in_units(packed.rate_with_height));
    if (reached.bound && packed.bound_with_height) {
      reached.bound = std::max(*reached.bound, machine.in_units(*packed.bound_with_height));
    } else {
      reached.bound.reset();
    }
    if (packed.trees.empty()) continue;
    auto p = empty_plan(machine, wanted.request);
    for (auto& t : packed.trees) {
      t.weight = machine.in_units(t.weight);
      p.rate += t.weight;
      p.trees.push_back(std::move(t));
    }
    candidates.push_back(std::move(p));
  }
  if (has_equal_roots(family.collective) && reached.bound) {
    // A bundle has one tree, or share trees, of each rank.
    std::int64_t copies = 0;
    for (auto const s : reduced_shares(machine, wanted.shares)) copies += s;
    reached.rate *= copies;
    reached.bound = *reached.bound * copies;
  }
  if (options.max_height && reached.rate == rational(0)) {
    throw planning_error("options: no trees of height " + std::to_string(*options.max_height) +
                         " or less span the ranks" +
                         (reached.bound ? "" : ", as far as the search found"));
  }
  return reached;
}

}}}  // namespace blink::BLINK_ABI::detail
