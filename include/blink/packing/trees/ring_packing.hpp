// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/packing/trees/detail/ring_search.hpp>
#include <blink/packing/trees/detail/tree_selection.hpp>
#include <blink/packing/trees/weighted_tree.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The effort of `pack_rings`.
struct ring_limits {
  std::size_t cycles = 1'500;         ///< exact up to this number of Hamiltonian cycles
  std::size_t search_nodes = 20'000;  ///< extensions of a path, in one search for cycles
  std::size_t packing_nodes = 5'000;  ///< of branch and bound over the cycles, for each rate tried
  std::int64_t rates = 64;            ///< if more rates remain between packing and bound, their
                                      ///< interval is halved
  std::size_t attempts = 4;           ///< random packings if there are too many cycles
};

/// A directed cycle through all vertices.
struct ring {
  std::int64_t multiplicity = 1;
  std::vector<int> vertices;  ///< in order, from vertex 0
  std::vector<int> edges;     ///< positions in `edges(graph)`: from each vertex to the next
};

/// Rings that share the capacities.
struct ring_packing_result {
  std::int64_t rate = 0;        ///< sum of the multiplicities
  std::vector<ring> rings;      ///< empty if there is none or none was found
  bool proven_optimal = false;  ///< true if no packing has a higher rate
};

namespace detail {

/// Converts rings of links to rings of edges. Parallel edges are filled one after the other.
inline ring_packing_result named_rings(
    ring_links const& graph, std::vector<std::int64_t> left,
    std::vector<std::pair<std::vector<int>, std::int64_t>> const& cycles, bool proven) {
  ring_packing_result result{0, {}, proven};
  std::vector<std::size_t> filling(graph.links.size(), 0);
  for (auto const& [links, wanted] : cycles) {
    for (std::int64_t more = wanted; more > 0;) {
      ring next;
      next.multiplicity = more;
      for (int const l : links) {
        auto const& link = graph.links[static_cast<std::size_t>(l)];
        auto& at = filling[static_cast<std::size_t>(l)];
        while (left[static_cast<std::size_t>(link.edges[at])] == 0) ++at;
        next.vertices.push_back(link.tail);
        next.edges.push_back(link.edges[at]);
        next.multiplicity =
            std::min(next.multiplicity, left[static_cast<std::size_t>(link.edges[at])]);
      }
      for (int const e : next.edges) left[static_cast<std::size_t>(e)] -= next.multiplicity;
      more -= next.multiplicity;
      result.rate += next.multiplicity;
      result.rings.push_back(std::move(next));
    }
  }
  return result;
}

/// The links of a cycle in reverse from vertex 0; empty if a link has no opposite.
inline std::vector<int> reversed_cycle(ring_links const& graph, std::vector<int> const& links) {
  std::vector<int> result;
  for (auto l = links.rbegin(); l != links.rend(); ++l) {
    int const back = graph.reverse[static_cast<std::size_t>(*l)];
    if (back < 0) return {};
    result.push_back(back);
  }
  return result;
}

/// The largest multiplicity of a cycle that fits into `room`.
inline std::int64_t room_for(std::vector<int> const& links, std::vector<std::int64_t> const& room) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (int const l : links) least = std::min(least, room[static_cast<std::size_t>(l)]);
  return links.empty() ? 0 : least;
}

/// Finds one ring over links with `room`; empty if none was found. The search tries different
/// orders with growing limits. A search that goes wrong early may take very long, while the next is
/// often short.
inline std::vector<int> find_ring(ring_links const& graph, std::vector<std::int64_t> const& room,
                                  std::size_t node_limit, std::uint64_t shuffle) {
  ring_search search(graph);
  std::vector<int> found;
  std::size_t limit = 4 * static_cast<std::size_t>(graph.vertex_count);
  for (std::size_t spent = 0; spent < node_limit; spent += limit, limit += limit / 4) {
    bool const all = search.run(room, limit, shuffle, [&](std::vector<int> const& links) {
      found = links;
      return false;
    });
    if (all || !found.empty()) break;
    shuffle = shuffle * 2 + 3;
  }
  return found;
}

/// Takes one ring after the other, each with its reverse if that fits.
inline std::vector<std::pair<std::vector<int>, std::int64_t>> take_rings(
    ring_links const& graph, std::vector<std::int64_t> room, std::int64_t bound,
    std::size_t node_limit, std::uint64_t shuffle) {
  std::vector<std::pair<std::vector<int>, std::int64_t>> taken;
  while (bound > 0) {
    auto found = find_ring(graph, room, node_limit, shuffle);
    if (found.empty()) break;
    auto back = graph.vertex_count > 2 ? reversed_cycle(graph, found) : std::vector<int>{};
    for (auto* cycle : {&found, &back}) {
      auto const times = room_for(*cycle, room);
      if (times == 0) continue;
      for (int const l : *cycle) room[static_cast<std::size_t>(l)] -= times;
      bound -= times;
      taken.emplace_back(std::move(*cycle), times);
    }
    if (shuffle != 0) ++shuffle;
  }
  return taken;
}

}  // namespace detail

/// Packs as many directed rings through all vertices as the capacities allow. This is the rate of
/// ring-based collectives on a machine.
///
/// If there are few Hamiltonian cycles, they are all listed and packed by branch and bound. If
/// there are too many, rings are taken one by one from the remaining room, with their reverse, in
/// several random orders. Then `proven_optimal` is set only if the rate equals the bound below.
///
/// Method: depth-first search with pruning. Every ring takes one edge out of each vertex and one
/// into it. So the least capacity of those edges, over the vertices, bounds the rate.
/// Time:   O(search_nodes E + packing_nodes (rates + log capacity) cycles V).
/// Pre:    one integer capacity for each edge, none negative.
/// Post:   for each edge, the multiplicities of the rings that use it sum to at most its capacity.
/// Throws: precondition_error if a precondition does not hold.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] ring_packing_result pack_rings(Graph const& graph, Capacities const& capacities,
                                             ring_limits const& limits = {}) {
  expects(static_cast<std::size_t>(capacities.size()) == static_cast<std::size_t>(num_edges(graph)),
          "pack_rings: the capacities do not match the edges, expected one for each edge");
  arc_list const arcs = to_arc_list(graph);
  std::vector<std::int64_t> edge_room;
  for (std::size_t e = 0; e < arcs.arcs.size(); ++e) {
    edge_room.push_back(static_cast<std::int64_t>(capacities[e]));
    expects(edge_room.back() >= 0, "pack_rings: a capacity is negative, expected at least 0");
  }
  if (arcs.vertex_count < 2) return {0, {}, true};
  detail::ring_links const links(arcs, edge_room);
  std::int64_t const bound = links.bound();
  if (bound == 0 || links.colours_forbid()) return {0, {}, true};
  std::vector<std::int64_t> room;
  for (auto const& link : links.links) room.push_back(link.capacity);

  // Taking rings one by one often reaches the bound.
  std::vector<std::pair<std::vector<int>, std::int64_t>> best;
  std::int64_t rate = 0;
  auto const attempt = [&](std::uint64_t shuffle) {
    auto taken = detail::take_rings(links, room, bound, limits.search_nodes, shuffle);
    std::int64_t sum = 0;
    for (auto const& [cycle, times] : taken) sum += times;
    if (sum <= rate) return;
    rate = sum;
    best = std::move(taken);
  };
  attempt(0);
  if (rate == bound) return detail::named_rings(links, edge_room, best, true);

  // List all cycles, if there are few.
  detail::tree_set cycles;
  std::vector<std::vector<int>> in_order;
  bool const all = detail::ring_search(links).run(room, limits.search_nodes, 0,
                                                  [&](std::vector<int> const& cycle) {
                                                    if (in_order.size() == limits.cycles)
                                                      return false;
                                                    if (cycles.insert(cycle) == in_order.size())
                                                      in_order.push_back(cycle);
                                                    return true;
                                                  });
  if (!all) {
    for (std::size_t i = 1; i < limits.attempts && rate < bound; ++i) attempt(i);
    return detail::named_rings(links, edge_room, best, rate == bound);
  }
  // Each ring costs exactly 1 if the links out of a vertex, or those into it, have the price 1.
  std::vector<std::vector<double>> prices;
  for (auto const* side : {&links.out, &links.in}) {
    for (auto const& ways : *side) {
      auto& price = prices.emplace_back(links.links.size(), 0.0);
      for (auto const& way : ways) price[static_cast<std::size_t>(way.second)] = 1;
    }
  }
  bool proven = true;
  auto const reaches = [&](std::int64_t wanted) {
    detail::tree_selection_search search(cycles, room, prices, false);
    auto const found = search.run_once(wanted, limits.packing_nodes);
    if (found.total <= rate) {
      proven = proven && search.complete();
      return false;
    }
    rate = found.total;
    best.clear();
    for (auto const& [cycle, times] : found.uses) best.emplace_back(in_order[cycle], times);
    return true;
  };
  // If there are many rates, halve the interval between the best and the bound; then go down from
  // above.
  std::int64_t highest = bound;
  while (highest - rate > limits.rates) {
    auto const wanted = rate + (highest - rate + 1) / 2;
    if (!reaches(wanted)) highest = wanted - 1;
  }
  for (auto wanted = highest; wanted > rate && !reaches(wanted);) --wanted;
  return detail::named_rings(links, edge_room, best, proven);
}

}}  // namespace blink::BLINK_ABI
