// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/packing/trees/ring_packing.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/detail/routed_rings.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {
namespace detail {

/// As many disjoint rings as fit on the links that join two ranks.
[[nodiscard]] inline std::vector<routed_ring> direct_rings(topology machine) {
  auto const is_switch = [&](int at) {
    return machine.nodes[static_cast<std::size_t>(at)].kind == node_kind::switch_node;
  };
  std::erase_if(machine.links,
                [&](struct link const& l) { return is_switch(l.tail) || is_switch(l.head); });
  auto const ranks = to_rank_graph(machine);
  std::vector<routed_ring> result;
  for (auto const& packed : pack_rings(ranks.graph, ranks.capacity).rings) {
    routed_ring r{{}, ranks.step * packed.multiplicity};
    for (std::size_t i = 0; i < packed.vertices.size(); ++i) {
      int const from = ranks.ids[static_cast<std::size_t>(packed.vertices[i])];
      int const to =
          ranks.ids[static_cast<std::size_t>(packed.vertices[(i + 1) % packed.vertices.size()])];
      r.edges.push_back({from, to, {from, to}});
    }
    result.push_back(std::move(r));
  }
  return result;
}

/// The directed rings of a machine: on direct links alone or over switches, whatever gives more.
[[nodiscard]] inline std::vector<routed_ring> rings_of(topology const& machine) {
  auto const total = [](std::vector<routed_ring> const& rings) {
    rational sum;
    for (auto const& r : rings) sum += r.rate;
    return sum;
  };
  auto result = direct_rings(machine);
  if (!used_switches(machine).empty()) {
    auto routed = routed_rings(machine);
    if (total(routed) > total(result)) result = std::move(routed);
  }
  if (result.empty()) {
    throw planning_error(
        "ring: these ranks have no closed ring of direct links; a ring library falls back to PCIe "
        "here (planner pcie_ring, on a machine with its PCIe links)");
  }
  return result;
}

/// A collective over rings: one chain a ring for broadcast and reduce, one for each rank's share
/// otherwise.
[[nodiscard]] inline plan plan_on_rings(topology const& machine, plan_request const& request,
                                        std::vector<routed_ring> const& rings) {
  plan result = empty_plan(machine, request);
  auto const n = result.ranks.size();
  auto const steps = static_cast<std::int64_t>(n) - 1;
  bool const up = has_reduce_phase(request.collective);
  bool const down = has_broadcast_phase(request.collective);
  bool const one_root =
      request.collective == collective::broadcast || request.collective == collective::reduce;
  for (auto const& ring : rings) {
    for (std::size_t at = 0; at < n; ++at) {
      int const root = ring.edges[at].from;
      if (one_root && root != request.root.value_or(result.ranks.front())) continue;
      tree t{root, one_root ? ring.rate : ring.rate / (steps * (up && down ? 2 : 1)), {}, {}};
      for (std::size_t i = 0; i + 1 < n; ++i) {
        if (up) t.reduce.push_back(ring.edges[(at + 1 + i) % n]);
        if (down) t.broadcast.push_back(ring.edges[(at + i) % n]);
      }
      result.rate += t.weight;
      result.trees.push_back(std::move(t));
    }
  }
  return result;
}

}  // namespace detail

/// Plans a collective over directed rings: the baseline that ring libraries use.
///
/// Direct links: as many disjoint rings as fit. Switches: rings through one server after the other,
/// entered by one rank and left by another, a ring for each NIC (a heuristic). The faster of both.
///
/// A ring is a forest of chains: broadcast and reduce take one chain a ring, from or to the root;
/// all-gather, reduce-scatter and all-reduce one chain for each rank's share. With N ranks and
/// rings of total rate b: broadcast and reduce b, all-gather and reduce-scatter N b / (N-1),
/// all-reduce N b / (2 (N-1)).
///
/// Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
///         JPDC 69, 2009.
/// Time:   see `pack_rings`; O(rings * N^2) tree edges.
/// Post:   `bound` is 0 and there is no certificate: `make_plan` adds the machine's own.
/// Throws: planning_error if no ring exists.
[[nodiscard]] inline plan plan_ring(topology const& machine, plan_request const& request) {
  auto result = detail::empty_plan(machine, request);
  if (result.ranks.size() == 1) return result;
  return detail::plan_on_rings(machine, request, detail::rings_of(machine));
}

}}  // namespace blink::BLINK_ABI
