// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/detail/servers.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/planning/planners/plan_three_phase.hpp>
#include <blink/planning/planners/plan_two_phases.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Plans all-reduce in three phases, if that is optimal: where the links among servers are the
/// narrowest, however much the servers' shares of them differ.
///
/// With M servers, a pair of an in-tree and an out-tree enters servers at least 2 (M - 1) times. So
/// the capacity into all servers, divided by 2 (M - 1), bounds the rate. So does the capacity out
/// of each server. With a star for each server, weighted by `center_shares`, all servers end
/// together, at the smaller of the two bounds.
///
/// Source: the stars: Wang et al., "Blink: Fast and Generic Collectives for Distributed ML", MLSys
///         2020, section 3.5; the bound: the partition of Tutte and Nash-Williams (1961), in both
///         directions.
/// Time:   as one choice of `plan_three_phase`.
/// Pre:    an all-reduce.
/// Post:   rate = bound, proven by prices for entering a server, or by the cut of the narrowest
///         server. Nothing if the plan is below both bounds, there are not several servers, or a
///         server's ranks are not connected inside.
[[nodiscard]] inline std::optional<plan> plan_among_servers(topology const& machine,
                                                            plan_request const& request) {
  detail::expect_kind(request, collective::all_reduce, "plan_among_servers");
  auto const servers = detail::servers_of(machine);
  if (servers.size() < 2) return std::nullopt;
  std::vector<std::vector<bool>> parts;
  rational entered;
  for (auto const& s : servers) {
    auto& part = parts.emplace_back(machine.nodes.size());
    for (std::size_t at = 0; at < part.size(); ++at) {
      part[at] = detail::is_inside(machine, s, static_cast<int>(at));
    }
    for (auto const& l : machine.links) {
      bool const enters =
          !part[static_cast<std::size_t>(l.tail)] && part[static_cast<std::size_t>(l.head)];
      if (enters) entered += machine.in_units(l.capacity);
    }
  }
  plan result;
  try {
    result =
        detail::glued_phases(machine, request, {.shares_by_width = true, .leaders_by_width = true});
  } catch (planning_error const&) {  // a server whose ranks are not connected inside
    return std::nullopt;
  }
  result.bound = result.rate;
  if (result.rate == entered / (2 * (std::ssize(parts) - 1))) {
    result.proof = detail::prices_of(machine, parts);
    return result;
  }
  auto const capacities = detail::capacities_out(machine, servers);
  for (std::size_t s = 0; s < parts.size(); ++s) {
    if (result.rate != capacities[s]) continue;
    result.proof = detail::cut_at(machine, parts[s]);
    return result;
  }
  return std::nullopt;
}

}}  // namespace blink::BLINK_ABI
