// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/core/work_budget.hpp>
#include <blink/planning/constraints/detail/shaped_candidates.hpp>
#include <blink/planning/constraints/restricted_machine.hpp>
#include <blink/planning/plan/detail/supplied_graph.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/planning/planners/detail/symmetric_plan.hpp>
#include <blink/planning/planners/plan_shares.hpp>
#include <blink/planning/planners/planners.hpp>
#include <blink/planning/planners/without_egress_excess.hpp>
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

namespace blink { inline namespace BLINK_ABI {

/// The rate that remains with a restriction and all restrictions before it.
struct restriction_step {
  std::string restriction;  ///< in words; "none" for the first
  rational rate;            ///< of the best plan found
  rational bound;           ///< no plan with these restrictions is faster; proven
};

/// A plan that respects constraints, and what each of them costs.
struct restricted_plan {
  blink::plan plan;
  std::vector<restriction_step> steps;  ///< the first: without restrictions; the last: the plan's
};

namespace detail {

/// The best plan without a shape.
[[nodiscard]] inline plan free_plan(topology const& machine, shaped_request const& wanted) {
  if (wanted.shares.empty()) return plan_unrestricted(machine, wanted.request);
  return plan_below_cuts(machine, wanted.request, wanted.shares,
                         [&](topology const& on, plan_request const& request) {
                           return plan_shares(on, request, wanted.shares);
                         });
}

/// The restrictions of shape in words, except the height.
[[nodiscard]] inline std::string shape_in_words(plan_constraints const& options) {
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

/// The best plan with a shape; appends to `steps`.
///
/// splittable: the machine, or the part of its capacity with which its switches split
[[nodiscard]] inline plan shaped_plan(topology const& machine, topology const& splittable,
                                      shaped_request const& wanted, plan free,
                                      std::vector<restriction_step>& steps) {
  auto const& options = wanted.request.constraints;
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
  add_shallow_packings(splittable, wanted, free, candidates);
  bool const done = std::ranges::any_of(candidates, [&](plan const& p) {
    return has_shape(p, options) && (p.rate == free.bound || options.trees_per_root ||
                                     (options.weight_unit && !options.max_trees));
  });
  if (!done && wanted.shares.empty() && !has_equal_roots(wanted.request.collective)) {
    auto other = wanted.request;
    other.planner = planned_by::blink;
    if (!other.root && has_one_root(other.collective)) {
      other.root = free.trees.front().root;
    }
    try {
      candidates.push_back(plan_unrestricted(machine, other));
    } catch (planning_error const&) {  // the planner `blink` plans direct links only
    }
  }
  if (!done) {
    auto const reached = add_packed_plan(machine, wanted, free, candidates);
    if (options.max_height) {
      auto bound = steps.back().bound;
      if (reached.bound && *reached.bound > 0) bound = std::min(bound, *reached.bound);
      steps.push_back({"max_height " + std::to_string(*options.max_height), reached.rate, bound});
    } else {  // trees of smaller height, if they are as good
      auto lower = wanted;
      lower.request.constraints.max_height = max_height(free);
      add_packed_plan(machine, lower, free, candidates);
    }
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
  if (has_one_root(wanted.request.collective) &&
      best->trees.front().root != free.trees.front().root) {  // bound and proof depend on the root
    auto from_there = wanted;
    from_there.request.root = best->trees.front().root;
    free = free_plan(machine, from_there);
  }
  free.trees = best->trees;
  free.rate = best->rate;
  return free;  // its bound and proof hold for every plan from that root
}

/// The body of `make_restricted_plan`, without its budget.
[[nodiscard]] inline restricted_plan plan_restricted(topology const& machine,
                                                     plan_request const& request) {
  validate(machine);
  auto const& options = request.constraints;
  auto const given = restricted_machine(machine, request);
  detail::shaped_request wanted{request, {}};
  if (!options.shares.empty()) {
    for (int const at : given.rank_positions()) {
      auto const found = options.shares.find(given.nodes[static_cast<std::size_t>(at)].id);
      wanted.shares.push_back(found == options.shares.end() ? 1 : found->second);
    }
  }
  bool const shaped = options.max_trees || options.max_height || options.weight_unit ||
                      options.trees_per_root || !options.required_links.empty();
  if (shaped && !has_spanning_trees(request.collective)) {
    throw input_error("options: limits on trees are for collectives over spanning trees, not for " +
                      std::string(to_text(request.collective)));
  }
  if (request.planner != planned_by::exact && (shaped || !options.shares.empty())) {
    throw input_error("options: planner " + request.planner +
                      " has its own trees; limits on trees and shares need the planner exact");
  }
  restricted_plan result;
  // The planner `exact` needs forward collectives. Other planners have no shape to keep.
  auto const planned = [&](topology const& on, auto const& make) {
    auto const with = [&](topology const& forward, plan_request const& as) {
      wanted.request = as;
      return make(forward);
    };
    return request.planner == planned_by::exact ? detail::plan_forward(on, request, with)
                                                : with(on, request);
  };
  if (!options.forbidden_links.empty()) {
    auto without = request;
    without.constraints.forbidden_links.clear();
    without.constraints.required_links.clear();
    without.constraints.symmetries.clear();
    auto const p = planned(restricted_machine(machine, without),
                           [&](topology const& whole) { return detail::free_plan(whole, wanted); });
    result.steps.push_back({"none", p.rate, p.bound});
  }
  auto const free_plan = [&](topology const& forward) {
    try {
      return detail::free_plan(forward, wanted);
    } catch (planning_error const& reason) {
      if (options.forbidden_links.empty() && options.forwarding_ranks.empty()) throw;
      throw planning_error(
          std::string("options: with ") +
          (options.forbidden_links.empty() ? "" : "forbidden_links") +
          (options.forbidden_links.empty() || options.forwarding_ranks.empty() ? "" : " and ") +
          (options.forwarding_ranks.empty() ? "" : "forwarding_ranks") + ": " + reason.what());
    }
  };
  auto p = planned(given, [&](topology const& forward) {
    auto free = free_plan(forward);
    result.steps.push_back(
        {options.forbidden_links.empty() ? "none" : "forbidden_links", free.rate, free.bound});
    if (!shaped) return free;
    auto const splittable = without_egress_excess(forward, wanted.request, wanted.shares).machine;
    return detail::shaped_plan(forward, splittable, wanted, std::move(free), result.steps);
  });
  p.forwarding_ranks = options.forwarding_ranks;
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

}  // namespace detail

/// Plans as `make_plan` within the constraints of the request, and reports the cost of each
/// constraint.
///
/// Forbidden links and forwarding ranks change the machine. The plan is as good as without
/// constraints on that machine. Plans with shares or with k trees for each root are optimal. Plans
/// with a weight unit are optimal for all collectives but all_reduce, if heights do not matter.
///
/// max_height: a linear program over trees of that height gives the best rate, proven for up to
///             `shallow_arborescences_exact` ranks.
/// max_trees, and all other combinations: the plan is the best that a search finds. The restriction
///             costs at most the difference between the plan's rate and `bound`.
///
/// Source: column generation over trees: F. Barahona, "Packing spanning trees", Math. of Operations
///         Research 20, 1995; few trees by relaxation: Wang et al., "Blink", MLSys 2020.
/// Time:   milliseconds to a second for 8 ranks.
/// Post:   the plan passes `check_plan` on `machine` and names its forwarding ranks, forbidden
///         links and shares. Its bound is the one without restrictions on the shape of trees.
/// Throws: input_error for constraints that contradict each other, the request or the machine, and
///         for limits on trees or shares with another planner than `exact`;
///         planning_error if no plan was found, or the budget is spent before.
[[nodiscard]] inline restricted_plan make_restricted_plan(topology const& machine,
                                                          plan_request const& request) {
  return within_budget(request.budget, "a plan with these constraints",
                       [&] { return detail::plan_restricted(machine, request); });
}

}}  // namespace blink::BLINK_ABI
