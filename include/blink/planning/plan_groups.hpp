// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/core/work_budget.hpp>
#include <blink/packing/groups/group_packing.hpp>
#include <blink/planning/plan/detail/oriented_tree.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/groups_plan.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/planning/planners/plan_flows.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The collectives that groups plan: all that move data, but permutations.
inline constexpr collective_set group_collectives{
    [](collective kind) { return traits_of(kind).moves_data && kind != collective::permute; }};

namespace detail {

/// Throws: input_error for groups that are empty, overlap, or name what is not a rank;
///         planning_error for collectives that groups do not plan, and for switches that copy or
///         reduce.
inline void expect_groups(topology const& machine, std::vector<group_request> const& groups) {
  if (groups.empty()) throw input_error("groups: found none, expected at least one");
  for (auto const& n : machine.nodes) {
    if (!n.copies && !n.reduces) continue;
    throw planning_error("groups: switch " + std::to_string(n.id) +
                         " copies or reduces, expected switches that forward only");
  }
  std::map<int, std::size_t> group_of;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    auto const where = "group " + std::to_string(g) + ": ";
    auto const& group = groups[g];
    auto const kind = std::string(to_text(group.collective));
    if (!group_collectives.contains(group.collective)) {
      throw planning_error(where + "found " + kind +
                           ", expected a collective that moves data, and no permute");
    }
    if (group.ranks.empty()) throw input_error(where + "found no rank, expected at least one");
    for (int const id : group.ranks) {
      int const at = machine.position_of(id);
      if (at < 0 || machine.nodes[static_cast<std::size_t>(at)].kind != node_kind::rank) {
        throw input_error(where + std::to_string(id) + " is not a rank, expected ranks");
      }
      if (auto const [other, fresh] = group_of.emplace(id, g); !fresh) {
        throw input_error(where + "rank " + std::to_string(id) + " is also in group " +
                          std::to_string(other->second) + ", expected groups without common ranks");
      }
    }
    if (!group.root) continue;
    bool const fits = has_root(group.collective);
    if (!fits || std::ranges::count(group.ranks, *group.root) == 0) {
      throw input_error(where + "found the root " + std::to_string(*group.root) + ", expected " +
                        (fits ? "one of its ranks" : "none, as " + kind + " has no root"));
    }
  }
}

/// The demand of a group, over vertices that are positions of nodes.
[[nodiscard]] inline group_demand demand_of(topology const& machine, group_request const& group) {
  auto const kind = group.collective;
  group_demand result;
  for (int const id : group.ranks) result.members.push_back(machine.position_of(id));
  int const root = machine.position_of(group.root.value_or(group.ranks.front()));
  auto const count = static_cast<std::int64_t>(group.ranks.size());
  if (is_point_to_point(kind)) {
    result.shape = group_shape::routes;
    if (has_blocks(kind)) result.parts = count;
    int const root_number =
        static_cast<int>(std::ranges::find(result.members, root) - result.members.begin());
    for (auto& [from, sinks] : demands_among(kind, result.members, root_number)) {
      if (!sinks.empty()) result.roots.push_back({from, std::move(sinks)});
    }
    return result;
  }
  if (has_both_phases(kind)) {
    result.roots = {{}};
    return result;
  }
  result.shape = has_reduce_phase(kind) ? group_shape::in_trees : group_shape::out_trees;
  if (!has_equal_roots(kind)) {
    result.roots = {{root}};
    return result;
  }
  result.parts = count;
  for (int const v : result.members) result.roots.push_back({v});
  return result;
}

/// Throws: planning_error that names two ranks of a group without a route that it needs.
inline void require_group_routes(topology const& machine, group_demand const& demand,
                                 std::size_t number) {
  std::vector<flow_demand> needed;
  for (auto const& root : demand.roots) {
    int const center = root.vertex < 0 ? demand.members.front() : root.vertex;
    if (demand.shape == group_shape::routes) {
      needed.push_back({center, root.sinks});
      continue;
    }
    if (demand.shape != group_shape::in_trees) needed.push_back({center, demand.members});
    if (demand.shape == group_shape::out_trees) continue;
    for (int const from : demand.members) needed.push_back({from, {center}});
  }
  try {
    require_routes(machine, needed);
  } catch (planning_error const& reason) {
    throw planning_error("group " + std::to_string(number) + ": " + reason.what());
  }
}

/// Adds the choices of a group to its plan, equal ones as one tree.
inline void take_choices(topology const& machine, packed_group const& packed, plan& result) {
  auto of_group = machine;  // to all but the members, the others are switches
  for (auto& n : of_group.nodes) {
    if (std::ranges::count(result.ranks, n.id) == 0) n.kind = node_kind::switch_node;
  }
  if (is_point_to_point(result.collective)) {
    std::map<std::pair<int, int>, std::map<std::vector<int>, rational>> paths;  // by ends
    for (auto const& [weight, choice] : packed.choices) {
      for (auto const& path : choice.out) paths[{path.front(), path.back()}][path] += weight;
    }
    for (auto const& [ends, of_pair] : paths) {
      for (auto const& [path, weight] : of_pair) add_path(result.trees, of_group, path, weight);
    }
  } else {
    auto const edges_over = [&](std::vector<std::vector<int>> const& paths) {
      std::vector<tree_edge> edges;
      for (auto path : paths) {
        for (int& at : path) at = machine.nodes[static_cast<std::size_t>(at)].id;
        edges.push_back({path.front(), path.back(), std::move(path)});
      }
      return edges;
    };
    for (auto const& [weight, choice] : packed.choices) {
      result.trees.push_back({machine.nodes[static_cast<std::size_t>(choice.root)].id, weight,
                              edges_over(choice.in), edges_over(choice.out)});
    }
  }
  std::set<int> passed;
  for (auto& t : result.trees) {
    t.weight = machine.in_units(t.weight);
    for (auto const* phase : {&t.reduce, &t.broadcast}) {
      for (auto const& e : *phase) passed.insert(e.path.begin(), e.path.end());
    }
  }
  for (int const at : machine.rank_positions()) {
    int const id = machine.nodes[static_cast<std::size_t>(at)].id;
    if (passed.contains(id) && std::ranges::count(result.ranks, id) == 0) {
      result.forwarding_ranks.push_back(id);
    }
  }
}

}  // namespace detail

/// Plans collectives of several groups of ranks that run at the same time and share the links. Each
/// group may be any part of the machine. All ranks forward for groups that they are not in.
///
/// The rates are fair: the rate of no group can grow unless that of another group falls that is not
/// higher. The rate of a group is that of `plan::rate`.
///
/// machine: the allocation: call `subset` and `only_links` before, as for `make_plan`.
/// budget:  once it is spent, the best rates so far are the result.
/// Source:  `pack_groups`; groups for which all other ranks forward: PCCL, 2026 (arXiv 2606.07019).
/// Time:    milliseconds for a server, seconds for 64 ranks; see `pack_groups`.
/// Post:    passes `check_groups`. Each plan alone passes `check_plan`; it has no bound of its own.
///          In all levels rate <= bound, mostly equal. A group of one rank has no trees and is in
///          no level.
/// Throws:  input_error for an invalid machine or budget, and for groups that are empty, overlap or
///          name what is not a rank; planning_error for permutations and barriers, for switches
///          that copy or reduce, or if ranks of a group do not reach each other; overflow_error if
///          a rate needs more than 61 bits.
[[nodiscard]] inline groups_plan plan_groups(topology const& machine,
                                             std::vector<group_request> const& groups,
                                             work_budget const& budget = {}) {
  return within_budget(budget, "a plan of the groups", [&] {
    validate(machine);
    detail::expect_groups(machine, groups);
    groups_plan result;
    std::vector<std::size_t> moving;  // groups of two ranks or more
    std::vector<group_demand> demands;
    std::set<int> members;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      members.insert(groups[g].ranks.begin(), groups[g].ranks.end());
      plan empty;
      empty.collective = groups[g].collective;
      empty.planner = "groups";
      empty.unit = machine.unit;
      empty.ranks = groups[g].ranks;
      result.plans.push_back(std::move(empty));
      if (groups[g].ranks.size() < 2) continue;
      moving.push_back(g);
      demands.push_back(detail::demand_of(machine, groups[g]));
      detail::require_group_routes(machine, demands.back(), g);
    }
    for (int const at : machine.rank_positions()) {
      int const id = machine.nodes[static_cast<std::size_t>(at)].id;
      if (!members.contains(id)) result.forwarding_ranks.push_back(id);
    }
    if (demands.empty()) return result;
    auto const nodes = detail::to_node_graph(machine);
    auto const packed = pack_groups(nodes.graph, nodes.capacity, std::move(demands));
    for (std::size_t i = 0; i < moving.size(); ++i) {
      auto& of_group = result.plans[moving[i]];
      of_group.rate = machine.in_units(packed.groups[i].rate);
      detail::take_choices(machine, packed.groups[i], of_group);
    }
    for (auto const& found : packed.levels) {
      groups_level level;
      for (auto const i : found.groups) level.groups.push_back(moving[i]);
      level.rate = machine.in_units(found.rate);
      level.bound = machine.in_units(found.bound);
      level.proof = detail::to_certificate(machine, nodes, found.prices);
      result.levels.push_back(std::move(level));
    }
    return result;
  });
}

}}  // namespace blink::BLINK_ABI
