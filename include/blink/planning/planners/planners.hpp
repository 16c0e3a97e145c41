// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/work_budget.hpp>
#include <blink/planning/plan/detail/supplied_graph.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/planning/planners/plan_blink.hpp>
#include <blink/planning/planners/plan_exact.hpp>
#include <blink/planning/planners/plan_hybrid.hpp>
#include <blink/planning/planners/plan_joint.hpp>
#include <blink/planning/planners/plan_ring.hpp>
#include <blink/planning/planners/plan_three_phase.hpp>
#include <blink/planning/planners/prove_bound.hpp>
#include <blink/planning/planners/rank_patterns.hpp>
#include <blink/planning/planners/server_patterns.hpp>
#include <blink/planning/planners/torus_patterns.hpp>
#include <blink/topology/topology.hpp>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace blink { inline namespace BLINK_ABI {

/// The collectives whose trees span all ranks.
inline constexpr collective_set spanning_collectives{has_spanning_trees};

/// The collectives that do not need equal shares for all roots.
inline constexpr collective_set free_root_collectives{
    [](collective kind) { return has_spanning_trees(kind) && !has_equal_roots(kind); }};

/// Collectives in which every rank may root a share.
inline constexpr collective_set shared_root_collectives{
    [](collective kind) { return has_spanning_trees(kind) && !has_root(kind); }};

/// A planner, as the table `planners` lists it.
struct planner {
  std::string_view name;
  std::string_view about;  ///< one line for people
  plan (*make)(topology const&, plan_request const&);
  collective_set collectives;  ///< those that it plans on some machine
  /// True if `make` fills in bound and proof. Otherwise `make_plan` adds the machine's own.
  bool proves = false;
  bool is_simple = false;  ///< takes the place of another planner whose budget is spent
};

namespace detail {

/// Plans by a planner of forward collectives; see `plan_forward`.
template <plan (*Make)(topology const&, plan_request const&)>
[[nodiscard]] plan forward_only(topology const& machine, plan_request const& request) {
  return plan_forward(machine, request, Make);
}

}  // namespace detail

/// The collectives that the planner `exact` plans: all.
inline constexpr collective_set exact_collectives{[](collective) { return true; }};

/// All planners, in the order in which they are listed. To add a planner, add a line.
inline constexpr std::array planners{
    planner{planned_by::exact, "optimal, on any machine", detail::forward_only<detail::plan_exact>,
            exact_collectives, true},
    planner{planned_by::approximate, "near the optimum, with a stated gap: large uneven machines",
            plan_approximate, collective_set{collective::all_reduce}, true},
    planner{planned_by::blink, "multiplicative weights, then few trees (the Blink paper)",
            detail::forward_only<plan_blink>, free_root_collectives},
    planner{planned_by::one_hop, "a star for each rank's share; broadcast in two hops",
            detail::plan_pattern<detail::one_hop_trees>, spanning_collectives, false, true},
    planner{planned_by::three_phase, "optimal trees in each server, one hop among servers",
            detail::forward_only<plan_three_phase>, spanning_collectives},
    planner{planned_by::hybrid, "the optima on two kinds of link, used at once", plan_hybrid,
            spanning_collectives},
    planner{planned_by::ring, "directed rings, over switches one for each NIC", plan_ring,
            spanning_collectives},
    planner{planned_by::pcie_ring, "one ring by any route: what ring libraries fall back to",
            plan_pcie_ring, spanning_collectives},
    planner{planned_by::hierarchical_ring, "rings among servers and inside them",
            detail::plan_pattern<detail::hierarchical_rings>, spanning_collectives, false, true},
    planner{planned_by::double_tree, "two binary trees in rank order",
            detail::plan_pattern<detail::double_trees>, free_root_collectives},
    planner{planned_by::box_tree, "double binary trees among servers, chains inside",
            detail::plan_pattern<detail::box_trees>, free_root_collectives},
    planner{planned_by::binomial, "binomial trees in rank order",
            detail::plan_pattern<detail::binomial_trees>, spanning_collectives, false, true},
    planner{planned_by::bine, "binomial trees of shorter reach (powers of -2)",
            detail::plan_pattern<detail::butterfly_trees<detail::bine_partner, true>>,
            spanning_collectives},
    planner{planned_by::swing, "Bine butterflies along the dimensions of a torus, all links busy",
            detail::plan_pattern<detail::swing_trees>, spanning_collectives},
    planner{planned_by::trivance, "trees of log3 rounds on rings and tori, both ways at once",
            detail::plan_pattern<detail::trivance_trees>, spanning_collectives},
    planner{planned_by::recursive_halving_doubling, "butterfly, near partners first down",
            detail::plan_pattern<detail::butterfly_trees<detail::bit_partner, false>>,
            shared_root_collectives},
    planner{planned_by::rabenseifner, "butterfly, far partners first down",
            detail::plan_pattern<detail::butterfly_trees<detail::bit_partner, true>>,
            shared_root_collectives},
};

/// The names of `planners`, in the same order.
inline constexpr auto planner_names = [] {
  std::array<std::string_view, planners.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = planners[i].name;
  return names;
}();

/// The planner of this name.
/// Throws: input_error that lists the names, for any other text.
[[nodiscard]] inline planner const& planner_named(std::string_view name) {
  std::string known;
  for (auto const& each : planners) {
    if (each.name == name) return each;
    known += (known.empty() ? "" : ", ") + std::string(each.name);
  }
  throw input_error("unknown planner '" + std::string(name) + "', expected one of " + known);
}

/// True if a simple planner made the plan in place of `asked`, whose budget was spent.
[[nodiscard]] inline bool is_substitute(plan const& made, std::string_view asked) {
  return made.planner != asked && planner_named(made.planner).is_simple;
}

/// Throws: planning_error that names the planner's collectives, if the request is for another one.
inline void require_planned(std::string_view planner, collective_set const& collectives,
                            plan_request const& request) {
  if (collectives.contains(request.collective)) return;
  std::string known;
  for (auto const& each : collective_table) {
    if (!collectives.contains(each.kind)) continue;
    known += (known.empty() ? "" : ", ") + std::string(each.name);
  }
  throw planning_error(std::string(planner) + ": plans " + known + ", not " +
                       std::string(to_text(request.collective)));
}

namespace detail {

/// The fastest plan of the simple planners, which takes the place of one by `chosen`.
[[nodiscard]] inline plan plan_simply(planner const& chosen, topology const& machine,
                                      plan_request request) {
  unlimited_scope const whole;
  if (!has_spanning_trees(request.collective)) return chosen.make(machine, request);
  std::optional<plan> best;
  std::string reason;
  for (auto const& each : planners) {
    if (!each.is_simple) continue;
    request.planner = std::string(each.name);
    try {
      auto made = each.make(machine, request);
      if (!best || made.rate > best->rate) best = std::move(made);
    } catch (planning_error const& why) {
      reason = why.what();
    } catch (overflow_error const& why) {
      reason = why.what();
    }
  }
  if (!best) throw planning_error(reason);
  return *std::move(best);
}

/// The most ranks of a plan. A tree for each rank then has 268 million edges.
inline constexpr std::size_t most_planned_ranks = 16'384;

/// Plans over all ranks of a machine, by the planner of the request, without its constraints.
/// Throws: as `make_plan`.
[[nodiscard]] inline plan plan_unrestricted(topology const& machine, plan_request const& request) {
  if (auto const ranks = machine.rank_positions().size(); ranks > most_planned_ranks) {
    throw planning_error(std::to_string(ranks) + " ranks, expected at most " +
                         std::to_string(most_planned_ranks) + " in a plan");
  }
  if (request.root) {
    int const at = machine.position_of(*request.root);
    if (at < 0 || machine.nodes[static_cast<std::size_t>(at)].kind != node_kind::rank) {
      throw input_error("root " + std::to_string(*request.root) +
                        " is not one of the ranks, expected one of them or the best one");
    }
  }
  auto const& chosen = planner_named(request.planner);
  require_planned(chosen.name, chosen.collectives, request);
  plan result;
  bool is_proven = chosen.proves;
  try {
    budget_scope const most(budget_scope::part(0.9));
    result = chosen.make(machine, request);
  } catch (budget_spent const&) {
    result = plan_simply(chosen, machine, request);
    is_proven = !has_spanning_trees(request.collective);
  }
  if (is_proven || result.trees.empty()) return result;
  proven_bound proven;
  int const root = result.trees.front().root;
  try {
    proven = prove_bound(machine, result.collective, root);
  } catch (budget_spent const&) {
    proven = bound_of_parts(machine, result.collective, root);
  }
  result.bound = proven.bound;
  result.proof = std::move(proven.proof);
  return result;
}

}  // namespace detail
}}  // namespace blink::BLINK_ABI
