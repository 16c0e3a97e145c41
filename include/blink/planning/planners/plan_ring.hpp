// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/packing/trees/ring_packing.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/detail/route.hpp>
#include <blink/planning/plan/detail/routed_rings.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
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

/// The directed rings of a machine: on direct links alone or over switches, whichever is faster.
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

/// A plan over rings. Broadcast and reduce take one chain of each ring. Other collectives take one
/// chain for each rank's share.
[[nodiscard]] inline plan plan_on_rings(topology const& machine, plan_request const& request,
                                        std::vector<routed_ring> const& rings) {
  plan result = empty_plan(machine, request);
  auto const n = result.ranks.size();
  auto const steps = static_cast<std::int64_t>(n) - 1;
  bool const up = has_reduce_phase(request.collective);
  bool const down = has_broadcast_phase(request.collective);
  bool const one_root = has_one_root(request.collective);
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
/// Over direct links, there are as many disjoint rings as fit. Over switches, rings lead through
/// one server after the other, entered by one rank and left by another, with a ring for each NIC (a
/// heuristic). The faster of both is taken.
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

namespace detail {

/// The ring over these ranks in order, each hop by its route; nothing if a hop has none.
[[nodiscard]] inline std::optional<routed_ring> ring_in_order(router route,
                                                              std::vector<int> const& ids,
                                                              bool through_ranks) {
  routed_ring result;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    auto edge = route.find(ids[i], ids[(i + 1) % ids.size()], through_ranks);
    if (!edge) return std::nullopt;
    route.take(*edge);
    result.edges.push_back(*std::move(edge));
  }
  for (auto const& edge : result.edges) {
    for (std::size_t i = 0; i + 1 < edge.path.size(); ++i) {
      int const a = edge.path[i];
      int const b = edge.path[i + 1];
      auto const room = route.capacity(a, b) / route.uses(a, b);
      if (result.rate == rational(0) || room < result.rate) result.rate = room;
    }
  }
  return result;
}

}  // namespace detail

/// Plans a collective over the one ring that ring libraries use where NVLink rings do not close.
/// The ring may have any order of the ranks. Each hop takes its shortest route, over PCIe switches
/// and sockets where there is no direct link. Other ranks forward only if the ring does not close
/// otherwise.
///
/// The search starts in rank order and in the order that `plan_ring` would take. It reverses parts
/// of the ring while that makes it faster (2-opt, within a budget).
///
/// Source: G. Croes, "A method for solving traveling-salesman problems", Operations Research 6,
///         1958 (2-opt).
/// Time:   O(N L) a try for N ranks and L links, 3,000 / N tries.
/// Post:   `bound` is 0 and there is no certificate: `make_plan` adds the machine's own.
/// Throws: planning_error if the ranks are not connected.
[[nodiscard]] inline plan plan_pcie_ring(topology const& machine, plan_request const& request) {
  auto const empty = detail::empty_plan(machine, request);
  auto const n = empty.ranks.size();
  if (n == 1) return empty;
  detail::router const route(machine);
  std::vector<std::vector<int>> orders{empty.ranks, {}};
  for (auto const& edge : detail::ring_finder(machine).next().edges) {
    orders.back().push_back(edge.from);
  }
  bool const through_ranks = !detail::ring_in_order(route, empty.ranks, false).has_value();
  std::optional<detail::routed_ring> best;
  std::vector<int> order;
  for (auto& each : orders) {
    auto found = detail::ring_in_order(route, each, through_ranks);
    if (!found || (best && found->rate <= best->rate)) continue;
    best = std::move(found);
    order = std::move(each);
  }
  if (!best) throw planning_error("pcie_ring: the ranks are not connected");
  for (std::size_t tries = 3'000 / n, improved = 1; improved > 0 && tries > 0;) {
    improved = 0;
    for (std::size_t i = 1; i + 1 < n && tries > 0; ++i) {
      for (std::size_t j = i + 1; j < n && tries > 0; ++j, --tries) {
        auto other = order;
        std::reverse(other.begin() + static_cast<std::ptrdiff_t>(i),
                     other.begin() + static_cast<std::ptrdiff_t>(j) + 1);
        auto found = detail::ring_in_order(route, other, through_ranks);
        if (!found || found->rate <= best->rate) continue;
        best = std::move(found);
        order = std::move(other);
        ++improved;
      }
    }
  }
  return detail::plan_on_rings(machine, request, {*std::move(best)});
}

}}  // namespace blink::BLINK_ABI
