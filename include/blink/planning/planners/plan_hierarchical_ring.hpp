// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/planning/plan/detail/routed_forest.hpp>
#include <blink/planning/plan/detail/servers.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Plans a collective over rings in two levels: one among the servers for each rank of a server,
/// and one inside each server.
///
/// A rank's share goes round the servers, to the rank of the same number in each (the numbers begin
/// again in smaller servers), and from there round the ranks of each server; sums come back the
/// same way. Broadcast and reduce make a tree for each rank of the root's server, through which
/// data leaves it.
///
/// Source: two-level rings: X. Jia et al., "Highly scalable deep learning training system with
///         mixed-precision", 2018 (hierarchical all-reduce).
/// Time:   O(N^2 L) for N ranks and L links.
/// Post:   height at most servers + ranks of a server - 2, one more for broadcast and reduce.
///         `bound` is 0 and there is no certificate: `make_plan` adds the machine's own.
/// Throws: planning_error for collectives whose trees do not span, on a single server, and if some
///         ranks are not connected.
[[nodiscard]] inline plan plan_hierarchical_ring(topology const& machine,
                                                 plan_request const& request) {
  detail::routed_forest forest(machine, request);
  if (forest.ranks().size() == 1) return std::move(forest).finish();
  auto const servers = detail::several_servers(machine, request.planner);
  bool const one_root =
      request.collective == collective::broadcast || request.collective == collective::reduce;
  int const root = request.root.value_or(forest.ranks().front());
  for (std::size_t home = 0; home < servers.size(); ++home) {
    auto const& own = servers[home].ids;
    if (one_root && std::find(own.begin(), own.end(), root) == own.end()) continue;
    for (std::size_t number = 0; number < own.size(); ++number) {
      int const top = one_root ? root : own[number];
      std::vector<int> server_leaders;  // by distance from home
      detail::tree_hops inside;
      for (std::size_t away = 0; away < servers.size(); ++away) {
        auto ring = detail::turned_to(servers[(home + away) % servers.size()].ids, number);
        server_leaders.push_back(ring.front());
        if (away == 0 && one_root) {  // the root comes first, then the gate
          ring.erase(std::find(ring.begin(), ring.end(), root));
          ring.insert(ring.begin(), root);
        }
        auto const chain = detail::chain_of(ring);
        inside.insert(inside.end(), chain.begin(), chain.end());
      }
      auto hops = detail::chain_of(server_leaders);
      hops.insert(hops.end(), inside.begin(), inside.end());
      forest.add(top, detail::from_root(hops, top));
    }
  }
  return std::move(forest).finish();
}

}}  // namespace blink::BLINK_ABI
