// SPDX-License-Identifier: Apache-2.0
// Planners that list the edges of their trees by server and rank and do not look at the links.
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/planning/plan/detail/routed_forest.hpp>
#include <blink/planning/plan/detail/servers.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/planning/planners/rank_patterns.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The ranks of a server as a chain that begins at `root`, if the server has it; the order of the
/// other ranks stays.
[[nodiscard]] inline std::vector<int> chain_from_root(std::vector<int> ids, int root) {
  auto const at = std::find(ids.begin(), ids.end(), root);
  if (at != ids.end()) std::rotate(ids.begin(), at, at + 1);
  return ids;
}

[[nodiscard]] inline bool holds(server const& s, int id) {
  return std::find(s.ids.begin(), s.ids.end(), id) != s.ids.end();
}

inline void append(tree_hops& hops, tree_hops const& more) {
  hops.insert(hops.end(), more.begin(), more.end());
}

/// Rings in two levels: one among the servers for each rank of a server, one inside each server.
///
/// A rank's share goes round the servers, to the rank of the same number in each (the numbers begin
/// again in smaller servers), and from there round the ranks of each server; sums come back the
/// same way. Broadcast and reduce make a tree for each rank of the root's server, through which
/// data leaves it.
///
/// Source: two-level rings: X. Jia et al., "Highly scalable deep learning training system with
///         mixed-precision", 2018 (hierarchical all-reduce).
/// Post:   height at most servers + ranks of a server - 2, one more for broadcast and reduce.
/// Throws: planning_error on a single server.
[[nodiscard]] inline pattern_trees hierarchical_rings(topology const& machine,
                                                      plan_request const& request,
                                                      std::vector<int> const& ranks) {
  auto const servers = several_servers(machine, request.planner);
  bool const one_root = has_one_root(request.collective);
  int const root = request.root.value_or(ranks.front());
  pattern_trees result;
  for (std::size_t home = 0; home < servers.size(); ++home) {
    auto const& own = servers[home];
    if (one_root && !holds(own, root)) continue;
    for (std::size_t number = 0; number < own.ids.size(); ++number) {
      int const top = one_root ? root : own.ids[number];
      std::vector<int> server_leaders;  // in ring order, from the root's server on
      tree_hops inside;
      for (std::size_t away = 0; away < servers.size(); ++away) {
        auto ring = rotated_to(servers[(home + away) % servers.size()].ids, number);
        server_leaders.push_back(ring.front());
        // In the root's server, the root comes first, then the leader.
        append(inside, chain_of(one_root && away == 0 ? chain_from_root(ring, root) : ring));
      }
      auto hops = chain_of(server_leaders);
      append(hops, inside);
      result.push_back({top, from_root(hops, top)});
    }
  }
  return result;
}

/// Double binary trees among servers and chains inside them. Each of the ranks by which a server
/// joins the other servers gets a pair of trees, in turn. Ring libraries use trees on several
/// servers in this way, a pair for each NIC.
///
/// Source: Sanders, Speck, Traeff 2009 (see `double_trees`), applied to servers.
/// Throws: planning_error on a single server.
[[nodiscard]] inline pattern_trees box_trees(topology const& machine, plan_request const& request,
                                             std::vector<int> const& ranks) {
  auto const servers = several_servers(machine, request.planner);
  bool const both_ways = has_both_phases(request.collective);
  int const root = request.root.value_or(ranks.front());
  std::size_t rails = servers.front().ids.size();
  for (auto const& s : servers) rails = std::min(rails, s.ids.size());
  pattern_trees result;
  for (std::size_t rail = 0; rail < rails; ++rail) {
    std::vector<int> heads;  // of the chains in the servers
    tree_hops chains;
    int leader = root;  // the rank through which the root's server feeds the other servers
    for (auto const& s : servers) {
      auto chain = rotated_to(s.ids, rail);
      if (!both_ways && holds(s, root)) {
        leader = chain.front();
        chain = chain_from_root(std::move(chain), root);
      } else {
        heads.push_back(chain.front());
      }
      append(chains, chain_of(chain));
    }
    for (bool const second : {false, true}) {
      auto between = in_order_tree(heads, second);
      auto hops = chains;
      if (!both_ways) hops.emplace_back(leader, between.root);
      append(hops, between.hops);
      // A chain may come before the edge that feeds it.
      int const top = both_ways ? between.root : root;
      result.push_back({top, from_root(hops, top)});
    }
  }
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
