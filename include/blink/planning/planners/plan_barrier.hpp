// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/detail/route_search.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// The distance of a signal: seconds on links, then ranks that pass it on, then links.
struct signal_way {
  double seconds = 0;
  std::int64_t steps = 0;
  friend auto operator<=>(signal_way const&, signal_way const&) = default;
  friend bool operator==(signal_way const&, signal_way const&) = default;  // nvcc warns without
  friend signal_way operator+(signal_way const& a, signal_way const& b) {
    return {a.seconds + b.seconds, a.steps + b.steps};
  }
};

/// The distance of the farthest of `ranks` from the vertex where the search began; nothing if some
/// rank is out of reach.
[[nodiscard]] inline std::optional<signal_way> farthest(route_search<double> const& search,
                                                        std::vector<int> const& ranks) {
  signal_way result;
  for (int const rank : ranks) {
    if (!search.is_reached(rank)) return std::nullopt;
    result = std::max(result, {search.cost(rank), search.length(rank)});
  }
  return result;
}

/// The routes that a search from the root found, as edges from the root to the ranks. With
/// `towards_root`, the search ran on the reversed machine, and the edges lead from the ranks to the
/// root.
[[nodiscard]] inline std::vector<tree_edge> tree_of_routes(topology const& machine,
                                                           route_search<double> const& search,
                                                           bool towards_root) {
  auto const node_at = [&](int position) -> node const& {
    return machine.nodes[static_cast<std::size_t>(position)];
  };
  std::vector<tree_edge> result;
  for (int const v : search.order()) {
    if (node_at(v).kind != node_kind::rank || search.edge_into(v) < 0) continue;
    std::vector<int> path{node_at(v).id};
    int here = v;
    do {
      auto const& l = machine.links[static_cast<std::size_t>(search.edge_into(here))];
      here = towards_root ? l.head : l.tail;
      path.push_back(node_at(here).id);
    } while (node_at(here).kind != node_kind::rank);
    if (!towards_root) std::reverse(path.begin(), path.end());
    result.push_back({path.front(), path.back(), path});
  }
  if (towards_root) std::reverse(result.begin(), result.end());  // leaves first, as they run
  return result;
}

}  // namespace detail

/// Plans a barrier: one tree over which signals come together at a root and spread from it again.
///
/// Every rank signals over its shortest route to the root: least latency, then fewest ranks that
/// pass the signal on, then fewest links. The root is the rank whose longest route there and
/// longest route back have the smallest sum; the first among equals. Only signals move, so the
/// tree's weight, rate and bound are 0 and there is nothing to prove.
///
/// Source: routes by E. Dijkstra, "A note on two problems in connexion with graphs", Numerische
///         Mathematik 1, 1959.
/// Time:   O(N E log V) for N ranks.
/// Post:   no tree over one root has a shorter longest route there and back.
/// Throws: planning_error if the ranks are not connected.
[[nodiscard]] inline plan plan_barrier(topology const& machine, plan_request const& request) {
  plan result = detail::empty_plan(machine, request);
  auto const ranks = machine.rank_positions();
  if (ranks.size() < 2) return result;
  auto const down_graph = to_arc_list(machine);
  auto const up_graph = reversed(down_graph);
  auto const is_rank = [&](int position) {
    return machine.nodes[static_cast<std::size_t>(position)].kind == node_kind::rank;
  };
  auto const per_rank = static_cast<std::int64_t>(machine.nodes.size());  // above any link count
  std::vector<double> seconds;
  std::vector<std::int64_t> down_steps, up_steps;
  for (auto const& l : machine.links) {
    seconds.push_back(l.latency_seconds);
    down_steps.push_back(1 + (is_rank(l.tail) ? per_rank : 0));
    up_steps.push_back(1 + (is_rank(l.head) ? per_rank : 0));
  }
  detail::route_search<double> down(down_graph, std::move(down_steps));
  detail::route_search<double> up(up_graph, std::move(up_steps));
  std::optional<detail::signal_way> best;
  int root = -1;
  for (int const rank : ranks) {
    down.run(rank, seconds);
    up.run(rank, seconds);
    auto const back = detail::farthest(down, ranks);
    auto const there = detail::farthest(up, ranks);
    if (!back || !there) {
      throw planning_error(
          "rank " + std::to_string(machine.nodes[static_cast<std::size_t>(rank)].id) +
          (there ? " does not reach every other rank" : " is not reached by every other rank"));
    }
    if (best && *back + *there >= *best) continue;
    best = *back + *there;
    root = rank;
  }
  down.run(root, seconds);
  up.run(root, seconds);
  result.trees.push_back({machine.nodes[static_cast<std::size_t>(root)].id, rational(0),
                          detail::tree_of_routes(machine, up, true),
                          detail::tree_of_routes(machine, down, false)});
  return result;
}

}}  // namespace blink::BLINK_ABI
