// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The best path between two ranks.
struct rank_path {
  link_kind slowest = link_kind::unknown;  ///< the slowest kind of link on it
  std::int64_t capacity = 0;               ///< of its narrowest link, in steps of the machine
  std::vector<int> nodes;                  ///< positions, from rank to rank

  friend bool operator==(rank_path const&, rank_path const&) = default;
};

namespace detail {

/// The widest paths from one rank through switches.
struct widest_paths {
  std::vector<std::int64_t> width;  ///< by node: of the narrowest link; 0 for no path
  std::vector<int> before;          ///< by node: the node before it on the path

  /// links: by tail, the heads with the summed capacity of parallel links
  /// Time:  O(L log N) for L links and N nodes.
  widest_paths(topology const& machine, std::vector<std::map<int, std::int64_t>> const& links,
               int from)
      : width(machine.nodes.size(), 0), before(machine.nodes.size(), -1) {
    std::priority_queue<std::pair<std::int64_t, int>> next;
    auto const at = [](int node) { return static_cast<std::size_t>(node); };
    width[at(from)] = std::numeric_limits<std::int64_t>::max();
    next.emplace(width[at(from)], from);
    while (!next.empty()) {
      auto const [so_far, here] = next.top();
      next.pop();
      if (so_far < width[at(here)]) continue;
      if (here != from && machine.nodes[at(here)].kind == node_kind::rank) continue;
      for (auto const& [head, capacity] : links[at(here)]) {
        auto const through = std::min(so_far, capacity);
        if (through <= width[at(head)]) continue;
        width[at(head)] = through;
        before[at(head)] = here;
        next.emplace(through, head);
      }
    }
  }

  /// The nodes from the rank to `to`, which has a path.
  [[nodiscard]] std::vector<int> nodes_to(int to) const {
    std::vector<int> result{to};
    while (before[static_cast<std::size_t>(result.back())] >= 0) {
      result.push_back(before[static_cast<std::size_t>(result.back())]);
    }
    std::reverse(result.begin(), result.end());
    return result;
  }
};

}  // namespace detail

/// The best path between each two ranks that passes no other rank: its slowest kind of link is as
/// fast as possible, then its narrowest link as wide as possible. Parallel links count together.
///
/// Returns: by rank and rank, in the order of `rank_positions`; nothing where no path exists
/// Time:    O(K N L log N) for K kinds of links, N nodes and L links.
[[nodiscard]] inline std::vector<std::vector<std::optional<rank_path>>> paths_between_ranks(
    topology const& machine) {
  auto const ranks = machine.rank_positions();
  std::vector result(ranks.size(), std::vector<std::optional<rank_path>>(ranks.size()));
  std::set<link_kind> kinds;
  for (auto const& l : machine.links) kinds.insert(l.kind);
  std::vector<std::map<int, std::int64_t>> links(machine.nodes.size());
  for (auto const kind : kinds) {  // from fast to slow
    for (auto const& l : machine.links) {
      if (l.kind == kind) links[static_cast<std::size_t>(l.tail)][l.head] += l.capacity;
    }
    for (std::size_t a = 0; a < ranks.size(); ++a) {
      detail::widest_paths const paths(machine, links, ranks[a]);
      for (std::size_t b = 0; b < ranks.size(); ++b) {
        auto const capacity = paths.width[static_cast<std::size_t>(ranks[b])];
        if (a == b || capacity == 0 || result[a][b]) continue;
        result[a][b] = rank_path{kind, capacity, paths.nodes_to(ranks[b])};
      }
    }
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
