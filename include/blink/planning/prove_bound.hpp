// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/max_flow.hpp>
#include <blink/packing/trees/all_gather_rate.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/detail/supplied_graph.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/planners/plan_direct.hpp>
#include <blink/planning/planners/plan_joint.hpp>
#include <blink/planning/planners/plan_switch.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A rate that no plan exceeds, and its certificate.
struct proven_bound {
  rational bound;
  certificate proof;
};

/// Bounds the rate of a collective on a machine, including its switches.
///
/// Broadcast, reduce, all_gather and reduce_scatter: the bound is exact on any machine, by smallest
/// cuts. Plans may stay below it where switches copy.
///
/// all_reduce: the bound is exact unless that takes too long or needs more than 61 bits.
///             Otherwise it is above what plans can reach. Machines with many links get the
///             smallest cut between any two ranks. No plan exceeds it, but possibly no plan
///             reaches it.
///
/// root:   node id, for broadcast and reduce.
/// Pre:    the collective is neither point-to-point nor a barrier.
/// Source: Edmonds 1973 (broadcast); Zhao et al., "ForestColl", 2024 (all-gather with switches).
/// Time:   O(N) maximum flows for N ranks, and a few times that for all-gather.
/// Throws: planning_error if the ranks are not connected.
[[nodiscard]] inline proven_bound prove_bound(topology const& machine, collective kind, int root) {
  expects(!is_point_to_point(kind) && kind != collective::barrier,
          "prove_bound: flows are proven by their planner, a barrier has no rate");
  if (auto const forward = detail::forward_collective(kind); forward != kind) {
    auto turned = prove_bound(detail::reversed(machine), forward, root);
    plan carrier;
    carrier.collective = forward;
    carrier.proof = std::move(turned.proof);
    return {turned.bound, detail::reversed(std::move(carrier), machine).proof};
  }
  if (kind == collective::all_reduce) {
    bool const star = detail::to_star(machine) && !detail::has_copying_switches(machine);
    constexpr std::size_t few_ranks = 8;  // whose trees take no longer than the program
    bool const direct = detail::used_switches(machine).empty();
    if (star || (direct && machine.rank_positions().size() <= few_ranks)) {
      plan_request const request{kind};
      auto exact = star ? plan_switch(machine, request) : plan_direct(machine, request);
      return {exact.bound, std::move(exact.proof)};
    }
  }
  auto const ranks = machine.rank_positions();
  if (ranks.size() < 2) return {};
  if (kind == collective::all_reduce) {
    if (auto star = detail::plan_copying_star(machine, {kind}))
      return {star->bound, std::move(star->proof)};
    constexpr std::size_t most_links = 2'000;  // the program takes seconds for these
    auto const nodes = detail::to_node_graph(machine);
    if (nodes.capacity.size() <= most_links) {
      joint_packing_options options;
      options.gap = 1;          // the best bound that is found
      options.max_work = 1e10;  // some seconds
      auto const found = find_joint_rate(nodes.graph, nodes.capacity, nodes.network, options);
      return {machine.in_units(found.bound), detail::to_certificate(machine, nodes, found.prices)};
    }
  }
  std::vector<std::int64_t> capacity;
  for (auto const& l : machine.links) capacity.push_back(l.capacity);
  auto const ids_where = [&](std::vector<bool> const& inside) {
    cut_certificate cut;
    for (std::size_t i = 0; i < inside.size(); ++i) {
      if (inside[i]) cut.nodes.push_back(machine.nodes[i].id);
    }
    return cut;
  };
  if (kind == collective::all_gather) {
    auto const optimum = all_gather_rate(machine, capacity, ranks);
    return {machine.in_units(optimum.rate_per_root * static_cast<std::int64_t>(ranks.size())),
            ids_where(optimum.cut)};
  }
  if (kind == collective::broadcast) {
    auto const cut = rooted_connectivity(machine, capacity, machine.position_of(root), ranks);
    return {machine.in_units(cut.value), ids_where(cut.source_side)};
  }
  // All-reduce: the data of all ranks crosses every cut in both directions. Flows from one rank to
  // all other ranks and back cover all cuts between ranks.
  auto const out = rooted_connectivity(machine, capacity, ranks.front(), ranks);
  auto const back = rooted_connectivity(detail::reversed(machine), capacity, ranks.front(), ranks);
  if (out.value <= back.value) return {machine.in_units(out.value), ids_where(out.source_side)};
  auto other = back.source_side;
  other.flip();
  return {machine.in_units(back.value), ids_where(other)};
}

}}  // namespace blink::BLINK_ABI
