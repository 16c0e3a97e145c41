// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collective.hpp>
#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/planning/detail/rank_graph.hpp>
#include <blink/planning/detail/restricted_packing.hpp>
#include <blink/planning/detail/symmetric_plan.hpp>
#include <blink/planning/forest.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/planning/plan_fixed_trees.hpp>
#include <blink/planning/plan_options.hpp>
#include <blink/planning/plan_request.hpp>
#include <blink/planning/plan_shares.hpp>
#include <blink/planning/without_surplus.hpp>
#include <blink/rational.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace blink::inline BLINK_ABI {

/// What remains of the rate with a restriction and all before it.
struct restriction_step {
  std::string restriction;  ///< in words; "none" for the first
  rational rate;            ///< of the best plan found
  rational bound;           ///< no plan with these restrictions is faster; proven
};

/// A plan that respects options, and what each of them cost.
struct restricted_plan {
  blink::plan plan;
  std::vector<restriction_step> steps;  ///< the first without restrictions, the last the plan's
};

namespace detail {

/// Options for the shape of trees, on a machine that has the others, for a collective whose trees
/// are packed outwards.
struct shaped_request {
  plan_request request;
  plan_options options;
  std::vector<std::int64_t> shares;  ///< by rank; empty: equal
};

[[nodiscard]] inline int max_height(plan const& p) {
  int result = 0;
  for (auto const& t : p.trees) result = std::max(result, height(t));
  return result;
}

/// Does the plan have the wanted shape?
[[nodiscard]] inline bool has_shape(plan const& p, plan_options const& options) {
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

/// The best plan without a shape.
[[nodiscard]] inline plan free_plan(topology const& machine, shaped_request const& wanted) {
  if (wanted.shares.empty()) return make_plan(machine, wanted.request);
  if (!wanted.request.cut_surplus) return plan_shares(machine, wanted.request, wanted.shares);
  auto result = plan_shares(without_surplus(machine, wanted.request, wanted.shares), wanted.request,
                            wanted.shares);
  auto const proven = bound_of_shares(machine, wanted.request.collective, wanted.shares);
  result.bound = proven.bound;
  result.proof = proven.proof;
  return result;
}

/// Plans by whole trees, where heights do not matter: exact for broadcast, all-gather.
inline void add_whole_tree_plans(topology const& machine, shaped_request const& wanted,
                                 plan const& free, std::vector<plan>& candidates) {
  auto const& options = wanted.options;
  if (options.max_height || wanted.request.collective == collective::all_reduce) return;
  if (wanted.request.collective == collective::broadcast) {
    if (!options.weight_unit) return;
    auto const scale = rational(1, machine.steps_per_unit) / *options.weight_unit;
    auto const whole = in_whole_trees(machine, scale);
    auto request = wanted.request;
    if (!request.root) request.root = free.trees.front().root;
    try {
      auto p = make_plan(whole, request);
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
        equal_root_rate(whole, capacities_of(whole), whole.rank_positions(), shares).rate_per_root;
    auto p = empty_plan(machine, wanted.request.collective, "exact");
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

/// Optimal packings, and those of k trees a root, that happen to be low enough.
inline void add_low_packings(topology const& machine, shaped_request const& wanted,
                             plan const& free, std::vector<plan>& candidates) {
  auto const& options = wanted.options;
  if (!options.max_height || options.weight_unit ||
      wanted.request.collective == collective::all_reduce) {
    return;
  }
  constexpr int tries = 24;
  arborescence_packing_options const low{.preferred_height = *options.max_height, .tries = tries};
  auto p = empty_plan(machine, wanted.request.collective, "exact");
  if (wanted.request.collective == collective::broadcast) {
    int const root = machine.position_of(free.trees.front().root);
    pack_out_trees(machine, {{root, free.rate * machine.steps_per_unit}}, p, low);
    candidates.push_back(std::move(p));
    return;
  }
  auto const shares = reduced_shares(machine, wanted.shares);
  constexpr std::int64_t most_trees = 12;  // a root; more are seldom low
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

/// Plans by linear programming over trees of the height.
inline void add_packed_plan(topology const& machine, shaped_request const& wanted, plan const& free,
                            std::vector<plan>& candidates, std::vector<restriction_step>& steps) {
  auto const& options = wanted.options;
  auto const ranks = machine.rank_positions();
  tree_family family;
  family.collective = wanted.request.collective;
  family.height = options.max_height.value_or(0);
  packing_shape shape;
  shape.height = family.height;
  shape.required = options.required_links;
  if (options.weight_unit) shape.unit = *options.weight_unit * machine.steps_per_unit;
  std::vector<std::vector<int>> root_sets(1);  // one packing each; the best is kept
  if (family.collective == collective::broadcast) {
    root_sets.clear();
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      int const id = machine.nodes[static_cast<std::size_t>(ranks[i])].id;
      bool const tried = wanted.request.root ? id == *wanted.request.root
                                             : ranks.size() <= low_arborescences_exact ||
                                                   id == free.trees.front().root;
      if (tried) root_sets.push_back({static_cast<int>(i)});
    }
  } else {
    for (std::size_t i = 0; i < ranks.size(); ++i) root_sets[0].push_back(static_cast<int>(i));
  }
  std::int64_t roots = 1;
  if (family.collective == collective::all_gather) {
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
  rational with_height;
  std::optional<rational> bound(rational(0));
  for (auto const& set : root_sets) {
    family.roots = set;
    restricted_packer packer(machine, family);
    auto packed = packer.pack(shape);
    with_height = std::max(with_height, machine.in_units(packed.rate_with_height));
    if (bound && packed.bound_with_height) {
      bound = std::max(*bound, machine.in_units(*packed.bound_with_height));
    } else {
      bound.reset();
    }
    if (packed.trees.empty()) continue;
    auto p = empty_plan(machine, family.collective, "exact");
    for (auto& t : packed.trees) {
      t.weight = machine.in_units(t.weight);
      p.rate += t.weight;
      p.trees.push_back(std::move(t));
    }
    candidates.push_back(std::move(p));
  }
  if (family.collective == collective::all_gather && bound) {
    // A bundle has one tree, or share trees, of each rank.
    std::int64_t copies = 0;
    for (auto const s : reduced_shares(machine, wanted.shares)) copies += s;
    with_height *= copies;
    bound = *bound * copies;
  }
  if (options.max_height) {
    if (with_height == rational(0)) {
      throw planning_error("options: no trees of height " + std::to_string(*options.max_height) +
                           " or less span the ranks" +
                           (bound ? "" : ", as far as the search found"));
    }
    bool const proven = bound && *bound > rational(0) && *bound < steps.back().bound;
    steps.push_back({"max_height " + std::to_string(*options.max_height), with_height,
                     proven ? *bound : steps.back().bound});
  }
}

/// In words, but for the height.
[[nodiscard]] inline std::string shape_in_words(plan_options const& options) {
  std::vector<std::string> parts;
  if (options.weight_unit) parts.push_back("weight_unit " + options.weight_unit->to_text());
  if (options.trees_per_root) {
    parts.push_back("trees_per_root " + std::to_string(*options.trees_per_root));
  }
  if (options.max_trees) parts.push_back("max_trees " + std::to_string(*options.max_trees));
  if (!options.required_links.empty()) parts.emplace_back("required_links");
  std::string result;
  for (auto const& part : parts) result += (result.empty() ? "" : ", ") + part;
  return result;
}

/// The best plan with a shape; adds to `steps`. `splittable`: the machine, or as much of it as
/// makes its switches split.
[[nodiscard]] inline plan shaped_plan(topology const& machine, topology const& splittable,
                                      shaped_request const& wanted, plan free,
                                      std::vector<restriction_step>& steps) {
  auto const& options = wanted.options;
  if (free.trees.empty() || has_shape(free, options)) {
    if (options.max_height) {
      steps.push_back({"max_height " + std::to_string(*options.max_height), free.rate, free.bound});
    }
    if (auto const words = shape_in_words(options); !words.empty()) {
      steps.push_back({words, free.rate, free.bound});
    }
    return free;
  }
  std::vector<plan> candidates;
  add_whole_tree_plans(splittable, wanted, free, candidates);
  add_low_packings(splittable, wanted, free, candidates);
  bool const done = std::ranges::any_of(candidates, [&](plan const& p) {
    return has_shape(p, options) && (p.rate == free.bound || options.trees_per_root ||
                                     (options.weight_unit && !options.max_trees));
  });
  if (!done && wanted.shares.empty() && !has_equal_roots(wanted.request.collective)) {
    auto other = wanted.request;
    other.planner = "blink";
    if (!other.root && other.collective == collective::broadcast) {
      other.root = free.trees.front().root;
    }
    try {
      candidates.push_back(make_plan(machine, other));
    } catch (planning_error const&) {  // it plans direct links only
    }
  }
  if (!done) {
    add_packed_plan(machine, wanted, free, candidates, steps);
    // Lower trees, if they are as good.
    auto lower = wanted;
    lower.options.max_height = max_height(free);
    std::vector<restriction_step> unused{{"none", free.rate, free.bound}};
    if (!options.max_height) add_packed_plan(machine, lower, free, candidates, unused);
  }
  plan const* best = nullptr;
  auto const merit = [](plan const& p) {
    return std::tuple(-p.rate, p.trees.size(), max_height(p));
  };
  for (auto const& p : candidates) {
    if (has_shape(p, options) && (best == nullptr || merit(p) < merit(*best))) best = &p;
  }
  if (best == nullptr) {
    throw planning_error("options: no plan found with " +
                         (options.max_height
                              ? "max_height " + std::to_string(*options.max_height) + " "
                              : std::string()) +
                         shape_in_words(options));
  }
  if (options.max_height && steps.back().restriction.rfind("max_height", 0) == 0) {
    for (auto const& p : candidates) {
      if (max_height(p) <= *options.max_height) {
        steps.back().rate = std::max(steps.back().rate, p.rate);
      }
    }
  }
  if (auto const words = shape_in_words(options); !words.empty()) {
    steps.push_back({words, best->rate, steps.back().bound});
  }
  free.trees = best->trees;
  free.rate = best->rate;
  return free;  // with its bound and proof, which hold for every plan
}

}  // namespace detail

/// Plans a collective with options: limits on trees, heights and weights, forbidden and required
/// links, ranks that only forward, unequal shares, k trees a root, symmetries.
///
/// Forbidden links and relays change the machine, and the plan is as good as without options on that
/// one. Shares and k trees a root are optimal. So are whole weights of broadcast, reduce, all-gather
/// and reduce-scatter, if heights do not matter. For a bounded height, a linear program over trees of
/// that height gives the best rate, proven for up to `low_arborescences_exact` ranks. Few trees, and
/// all else together, are searched: the plan is the best found, its distance from `bound` is at most
/// what the restriction costs.
///
/// Source: column generation over trees: F. Barahona, "Packing spanning trees", Math. of Operations
///         Research 20, 1995; few trees by relaxation: Wang et al., "Blink", MLSys 2020.
/// Time:   milliseconds to a second for 8 ranks.
/// Post:   the plan passes `check_plan` on `machine`, names its relays, forbidden links and shares;
///         its bound is the one without options for the shape of trees.
/// Throws: input_error for options that contradict each other, the request or the machine;
///         planning_error if no plan was found.
[[nodiscard]] inline restricted_plan plan_with_options(topology const& machine,
                                                       plan_request const& request,
                                                       plan_options const& options) {
  validate(machine);
  auto given = restricted_machine(machine, request, options);
  detail::shaped_request wanted{request, options, {}};
  bool const cuts_surplus = request.cut_surplus || options.cut_surplus;
  wanted.request.cut_surplus = cuts_surplus;
  if (!options.shares.empty()) {
    for (int const at : given.rank_positions()) {
      auto const found = options.shares.find(given.nodes[static_cast<std::size_t>(at)].id);
      wanted.shares.push_back(found == options.shares.end() ? 1 : found->second);
    }
  }
  bool const shaped = options.max_trees || options.max_height || options.weight_unit ||
                      options.trees_per_root || !options.required_links.empty();
  if ((is_flow(request.collective) || request.collective == collective::barrier) && shaped) {
    throw input_error("options: limits on trees are for collectives over spanning trees, not for " +
                      std::string(to_text(request.collective)));
  }
  if (request.planner != "exact" && (shaped || !options.shares.empty())) {
    throw input_error("options: planner " + request.planner +
                      " has its own trees; limits on trees and shares need the planner exact");
  }
  restricted_plan result;
  if (!options.forbidden_links.empty()) {
    auto without = options;
    without.forbidden_links.clear();
    without.required_links.clear();
    without.symmetries.clear();
    auto const whole = restricted_machine(machine, request, without);
    auto const p = detail::free_plan(whole, wanted);
    result.steps.push_back({"none", p.rate, p.bound});
  }
  bool const turned =
      request.collective == collective::reduce || request.collective == collective::reduce_scatter;
  if (turned && request.planner == "exact") {
    given = detail::turned_round(std::move(given));
    wanted.request.collective =
        request.collective == collective::reduce ? collective::broadcast : collective::all_gather;
    for (auto& link : wanted.options.required_links) std::swap(link.first, link.second);
  }
  auto const free_plan = [&] {
    try {
      if (!turned) return detail::free_plan(given, wanted);
      return detail::planned_turned_round(given, [&] { return detail::free_plan(given, wanted); });
    } catch (unbalanced_switch const&) {
      throw;
    } catch (planning_error const& reason) {
      if (options.forbidden_links.empty() && options.relays.empty()) throw;
      throw planning_error(
          std::string("options: with ") +
          (options.forbidden_links.empty() ? "" : "forbidden_links") +
          (options.forbidden_links.empty() || options.relays.empty() ? "" : " and ") +
          (options.relays.empty() ? "" : "relays") + ": " + reason.what());
    }
  };
  auto p = free_plan();
  result.steps.push_back(
      {options.forbidden_links.empty() ? "none" : "forbidden_links", p.rate, p.bound});
  if (shaped && cuts_surplus) {
    p = detail::shaped_plan(given, without_surplus(given, wanted.request, wanted.shares), wanted,
                            std::move(p), result.steps);
  } else if (shaped) {
    p = detail::shaped_plan(given, given, wanted, std::move(p), result.steps);
  }
  if (turned && request.planner == "exact") {
    given = detail::turned_round(std::move(given));
    p = detail::mirrored(std::move(p), given);
  }
  p.relays = options.relays;
  p.forbidden_links = options.forbidden_links;
  if (!options.symmetries.empty()) {
    p = detail::symmetric_plan(std::move(p), options.symmetries);
    if (options.max_trees && p.trees.size() > static_cast<std::size_t>(*options.max_trees)) {
      throw planning_error("options: the symmetries make " + std::to_string(p.trees.size()) +
                           " trees, more than max_trees " + std::to_string(*options.max_trees));
    }
    if (!detail::has_shape(p, options)) {
      throw planning_error("options: the symmetries make more trees, or of other weights, than " +
                           detail::shape_in_words(options) + " allows");
    }
    result.steps.push_back({"symmetries", p.rate, result.steps.back().bound});
  }
  result.plan = std::move(p);
  return result;
}

}  // namespace blink::inline BLINK_ABI
