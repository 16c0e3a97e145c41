// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/planning/detail/rank_graph.hpp>
#include <blink/planning/forest.hpp>
#include <blink/planning/plan_blink.hpp>
#include <blink/planning/plan_direct.hpp>
#include <blink/planning/plan_double_tree.hpp>
#include <blink/planning/plan_joint.hpp>
#include <blink/planning/plan_request.hpp>
#include <blink/planning/plan_ring.hpp>
#include <blink/planning/plan_switch.hpp>
#include <blink/planning/prove_bound.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace blink::inline BLINK_ABI {

/// exact:       optimal, on any machine   (`plan_direct`, `plan_switch`, `plan_joint`)
/// blink:       the paper's multiplicative weights, then few trees (`plan_blink`)
/// ring:        directed rings                                    (`plan_ring`)
/// double_tree: two binary trees in rank order                    (`plan_double_tree`)
inline constexpr std::array<std::string_view, 4> planner_names{"exact", "blink", "ring",
                                                               "double_tree"};

/// Plans a collective over all ranks of a machine, by the planner of the request.
///
/// machine: the allocation: take `subset` first, and `only_links` to leave links unused.
/// Post:    passes `check_plan`; `bound` and `proof` are the machine's, whatever the planner, so
/// that
///          rate / bound says how good the plan is.
/// Throws:  input_error for an unknown planner, a root that is not a rank, or an invalid machine;
///          planning_error if the planner finds no plan, with the reason.
[[nodiscard]] inline plan make_plan(topology const& machine, plan_request const& request) {
  validate(machine);
  if (request.root) {
    int const at = machine.position_of(*request.root);
    if (at < 0 || machine.nodes[static_cast<std::size_t>(at)].kind != node_kind::rank) {
      throw input_error("root " + std::to_string(*request.root) +
                        " is not one of the ranks, expected one of them or the best one");
    }
  }
  if (is_flow(request.collective) || request.collective == collective::barrier) {
    throw planning_error("planner " + request.planner + " has no plan for " +
                         std::string(to_text(request.collective)));
  }
  if (request.planner == "exact") {
    if (detail::to_star(machine)) return plan_switch(machine, request);
    if (request.collective == collective::all_reduce && !detail::used_relays(machine).empty()) {
      return plan_joint(machine, request);
    }
    return plan_direct(machine, request);
  }
  plan result;
  if (request.planner == "blink") {
    result = plan_blink(machine, request);
  } else if (request.planner == "ring") {
    result = plan_ring(machine, request);
  } else if (request.planner == "double_tree") {
    result = plan_double_tree(machine, request);
  } else {
    std::string known;
    for (auto const name : planner_names) known += (known.empty() ? "" : ", ") + std::string(name);
    throw input_error("unknown planner '" + request.planner + "', expected one of " + known);
  }
  if (!result.trees.empty()) {
    auto const proven = prove_bound(machine, result.collective, result.trees.front().root);
    result.bound = proven.bound;
    result.proof = proven.proof;
  }
  return result;
}

}  // namespace blink::inline BLINK_ABI
