// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/core/work_budget.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/max_flow.hpp>
#include <blink/packing/joint/approximate_joint_packing.hpp>
#include <blink/packing/joint/joint_routing.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {
namespace detail {

/// The roles of the nodes of a machine; servers are groups.
[[nodiscard]] inline routed_network network_of(topology const& machine) {
  routed_network result;
  for (auto const& n : machine.nodes) {
    result.is_switch.push_back(n.kind == node_kind::switch_node);
    result.copies.push_back(n.copies);
    result.reduces.push_back(n.reduces);
    result.group.push_back(n.server);
  }
  return result;
}

[[nodiscard]] inline bool has_copying_switches(topology const& machine) {
  return std::ranges::any_of(machine.nodes, [](node const& n) { return n.copies || n.reduces; });
}

/// Plans all-reduce for ranks behind one switch that copies and reduces, with no other link;
/// nothing for other machines. All contributions go up; their sum goes to the first rank and back,
/// over each port once. So the narrowest port is the rate.
[[nodiscard]] inline std::optional<plan> plan_copying_star(topology const& machine,
                                                           plan_request const& request) {
  auto const switches = used_switches(machine);
  if (switches.size() != 1) return std::nullopt;
  auto const& center = machine.nodes[static_cast<std::size_t>(switches.front())];
  if (!center.copies || !center.reduces) return std::nullopt;
  std::map<int, std::int64_t> up, down;  // capacity by rank
  for (auto const& l : machine.links) {
    if (l.head == switches.front()) {
      up[l.tail] += l.capacity;
    } else if (l.tail == switches.front()) {
      down[l.head] += l.capacity;
    } else {
      return std::nullopt;
    }
  }
  plan result = empty_plan(machine, request);
  auto const ranks = machine.rank_positions();
  std::int64_t least = -1;
  for (int const rank : ranks) {
    for (auto* port : {&up, &down}) {
      auto const capacity = (*port)[rank];
      if (least >= 0 && capacity >= least) continue;
      least = capacity;
      cut_certificate cut;
      for (auto const& n : machine.nodes) {
        bool const alone = &n == &machine.nodes[static_cast<std::size_t>(rank)];
        if (alone == (port == &up)) cut.nodes.push_back(n.id);
      }
      result.proof = std::move(cut);
    }
  }
  if (least <= 0) return std::nullopt;
  result.rate = result.bound = machine.in_units(least);
  tree t{result.ranks.front(), result.rate, {}, {}};
  auto const hop = [](int from, int to) { return tree_edge{from, to, {from, to}}; };
  t.broadcast.push_back(hop(t.root, center.id));
  for (int const rank : result.ranks) {
    if (rank == t.root) continue;
    t.reduce.push_back(hop(rank, center.id));
    t.broadcast.push_back(hop(center.id, rank));
  }
  t.reduce.push_back(hop(center.id, t.root));
  result.trees.push_back(std::move(t));
  return result;
}

/// The smallest cut between ranks, and its capacity in units. The data of all ranks crosses every
/// cut in both directions, so flows from one rank to all others and back cover all cuts.
///
/// Pre:  two ranks
/// Time: O(N) maximum flows.
[[nodiscard]] inline std::pair<rational, cut_certificate> smallest_cut(topology const& machine) {
  auto const capacity = capacities_of(machine);
  auto const ranks = machine.rank_positions();
  auto const out = rooted_connectivity(machine, capacity, ranks.front(), ranks);
  auto const back = rooted_connectivity(reversed(machine), capacity, ranks.front(), ranks);
  if (out.value <= back.value) {
    return {machine.in_units(out.value), cut_at(machine, out.source_side)};
  }
  auto other = back.source_side;
  other.flip();
  return {machine.in_units(back.value), cut_at(machine, other)};
}

/// Adds packed pairs over nodes as trees to a plan.
inline void take_pairs(topology const& machine, node_graph const& nodes,
                       routed_joint_packing const& packed, plan& result) {
  auto const id = [&](int at) { return machine.nodes[static_cast<std::size_t>(at)].id; };
  auto const edge_over = [&](std::vector<int> path) {
    for (int& at : path) at = id(at);
    return tree_edge{path.front(), path.back(), std::move(path)};
  };
  for (auto const& pair : packed.pairs) {
    tree t{id(pair.root), machine.in_units(pair.weight), {}, {}};
    for (auto const& path : pair.in) t.reduce.push_back(edge_over(path));
    for (auto const& path : pair.out) t.broadcast.push_back(edge_over(path));
    result.trees.push_back(std::move(t));
  }
  result.rate = machine.in_units(packed.rate);
  result.bound = machine.in_units(packed.bound);
  result.proof = to_certificate(machine, nodes, packed.prices);
}

}  // namespace detail

/// Plans all-reduce near the optimum, for machines so large or so uneven that the exact planner
/// takes too long or needs hundreds of trees. The plan is within 1 % unless the search ends early.
///
/// Source: `pack_joint_routes_approximately`.
/// Time:   see there; figures: the benchmark `approximate_bench`.
/// Post:   bound is proven by prices or a cut; rate / bound says how near the plan is.
/// Throws: precondition_error for another collective; planning_error if the ranks are not
///         connected, or switches copy or reduce.
[[nodiscard]] inline plan plan_approximate(topology const& machine, plan_request const& request) {
  detail::expect_kind(request, collective::all_reduce, "plan_approximate");
  plan result = detail::empty_plan(machine, request);
  result.planner = planned_by::approximate;
  if (result.ranks.size() == 1) return result;
  auto const nodes = detail::to_node_graph(machine);
  auto cut = detail::smallest_cut(machine);
  approximate_joint_options options;
  options.known_bound = (cut.first * machine.steps_per_unit).to_double();
  detail::take_pairs(machine, nodes,
                     pack_joint_routes_approximately(nodes.graph, nodes.capacity,
                                                     detail::network_of(machine), options),
                     result);
  if (cut.first < result.bound) {
    result.bound = cut.first;
    result.proof = std::move(cut.second);
  }
  return result;
}

/// The limits beyond which `plan_joint` gives up the exact optimum.
struct joint_plan_limits {
  double gap = 0.01;       ///< of rate and bound, as a share, if the optimum itself is not found
  double max_work = 3e10;  ///< of pivots (`joint_packing_options`): about twenty seconds
  double max_growth_work = 3.5e9;  ///< the same for growing trees: about eight seconds
};

/// Plans all-reduce optimally on any machine: pairs of an in-tree and an out-tree, packed jointly.
/// Switches that copy or reduce may be nodes of out-trees or in-trees.
///
/// Source: `pack_joint_routes`; a closed form for ranks behind one switch that copies and reduces.
/// Time:   see there; milliseconds for 16 ranks.
/// Post:   The bound is proven by prices, or by a cut for the closed form. Usually rate = bound. If
///         the exact optimum takes too long or needs more than 61 bits, rate >= (1 - gap) * bound.
///         The plan of `plan_approximate` is the result, as `planner` says, if that also fails. So
///         it is if the trees take more than `max_growth_work` to grow, or half of the thread's
///         budget is spent. If switches copy or reduce, trees are grown without these limits,
///         because no other planner plans there.
/// Throws: precondition_error for another collective; planning_error if the ranks are not
///         connected, or more than 10 switches copy, or reduce;
///         overflow_error if switches copy or reduce and the optimum has no 61-bit numbers.
[[nodiscard]] inline plan plan_joint(topology const& machine, plan_request const& request,
                                     joint_plan_limits const& limits) {
  detail::expect_kind(request, collective::all_reduce, "plan_joint");
  plan result = detail::empty_plan(machine, request);
  if (result.ranks.size() == 1) return result;
  if (auto star = detail::plan_copying_star(machine, request)) return *std::move(star);
  auto const nodes = detail::to_node_graph(machine);
  joint_packing_options options;
  options.gap = limits.gap;
  options.max_work = limits.max_work;
  bool const may_approximate = !detail::has_copying_switches(machine);
  if (may_approximate) options.max_growth_work = limits.max_growth_work;
  try {
    detail::budget_scope const half(detail::budget_scope::part(may_approximate ? 0.5 : 1));
    detail::take_pairs(
        machine, nodes,
        pack_joint_routes(nodes.graph, nodes.capacity, detail::network_of(machine), options),
        result);
    return result;
  } catch (overflow_error const&) {
    if (!may_approximate) throw;
  } catch (detail::budget_spent const&) {
    if (!may_approximate) throw;
  }
  return plan_approximate(machine, request);
}

/// The same with default options.
[[nodiscard]] inline plan plan_joint(topology const& machine, plan_request const& request) {
  return plan_joint(machine, request, {});
}

}}  // namespace blink::BLINK_ABI
