// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/packing/ring_packing.hpp>
#include <blink/planning/detail/rank_graph.hpp>
#include <blink/planning/forest.hpp>
#include <blink/planning/plan_request.hpp>
#include <blink/rational.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace blink::inline BLINK_ABI {
namespace detail {

/// One directed cycle through all ranks: node ids in order, its rate, and the switch between any
/// two
/// (-1: direct links).
struct ring {
  std::vector<int> ids;
  rational rate;
  int through = -1;

  /// The edge that leaves position i.
  [[nodiscard]] tree_edge edge(std::size_t i) const {
    int const from = ids[i % ids.size()];
    int const to = ids[(i + 1) % ids.size()];
    return through < 0 ? tree_edge{from, to, {from, to}} : tree_edge{from, to, {from, through, to}};
  }
};

/// The directed rings of a machine: as many disjoint ones as fit, or the one ring of a switch.
[[nodiscard]] inline std::vector<ring> rings_of(topology const& machine) {
  if (auto const star = to_star(machine)) {
    return {{star->ids, star->port, star->center}};
  }
  if (!used_relays(machine).empty()) {
    throw planning_error("ring: machine '" + machine.name +
                         "' has more than one switch or unequal ports, which is not supported");
  }
  auto const ranks = to_rank_graph(machine);
  std::vector<ring> result;
  for (auto const& packed : pack_rings(ranks.graph, ranks.capacity).rings) {
    ring r{{}, ranks.step * packed.multiplicity, -1};
    for (int const v : packed.vertices) r.ids.push_back(ranks.ids[static_cast<std::size_t>(v)]);
    result.push_back(std::move(r));
  }
  if (result.empty()) {
    throw planning_error(
        "ring: these ranks have no closed ring of direct links; a ring library falls back to PCIe "
        "here");
  }
  return result;
}

}  // namespace detail

/// Plans a collective over directed rings: the baseline that ring libraries use.
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
  plan result = detail::empty_plan(machine, request.collective, "ring");
  auto const n = result.ranks.size();
  if (n == 1) return result;
  auto const steps = static_cast<std::int64_t>(n) - 1;
  bool const up = has_reduce_phase(request.collective);
  bool const down = has_broadcast_phase(request.collective);
  bool const one_root =
      request.collective == collective::broadcast || request.collective == collective::reduce;
  for (auto const& ring : detail::rings_of(machine)) {
    for (std::size_t at = 0; at < n; ++at) {
      if (one_root && ring.ids[at] != request.root.value_or(result.ranks.front())) continue;
      tree t{
          ring.ids[at], one_root ? ring.rate : ring.rate / (steps * (up && down ? 2 : 1)), {}, {}};
      for (std::size_t i = 0; i + 1 < n; ++i) {
        if (up) t.reduce.push_back(ring.edge(at + 1 + i));
        if (down) t.broadcast.push_back(ring.edge(at + i));
      }
      result.rate += t.weight;
      result.trees.push_back(std::move(t));
    }
  }
  return result;
}

}  // namespace blink::inline BLINK_ABI
