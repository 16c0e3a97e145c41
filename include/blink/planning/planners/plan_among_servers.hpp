// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/detail/servers.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/planning/planners/detail/plan_over_rails.hpp>
#include <blink/planning/planners/plan_three_phase.hpp>
#include <blink/planning/planners/plan_two_phases.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {
namespace detail {

/// A bound of the links among servers, and its proof.
struct bound_among_servers {
  rational bound;
  certificate proof;
};

/// The bound of the links among two or more servers, and of those of single ranks.
///
/// all_reduce: with M servers, a pair of an in-tree and an out-tree enters servers at least
///             2 (M - 1) times; or what leaves or enters one server or rank.
/// all_gather: what enters the server or rank that receives its part of the buffer last.
/// broadcast:  what leaves the root or its server, or enters another server or rank.
///
/// root: node id, of a broadcast
[[nodiscard]] inline bound_among_servers bound_of_servers(topology const& machine,
                                                          std::vector<server> const& servers,
                                                          collective kind, int root) {
  bool const has_root = has_one_root(kind);
  bool const both_ways = has_both_phases(kind);
  auto const nodes = machine.nodes.size();
  auto const ranks = static_cast<std::int64_t>(machine.rank_positions().size());
  auto const root_at = static_cast<std::size_t>(has_root ? machine.position_of(root) : 0);
  std::vector<std::vector<bool>> parts;
  std::vector<int> part_of(nodes, -1);
  for (auto const& s : servers) {
    auto& part = parts.emplace_back(nodes);
    for (std::size_t at = 0; at < nodes; ++at) {
      part[at] = is_inside(machine, s, static_cast<int>(at));
      if (part[at]) part_of[at] = static_cast<int>(parts.size()) - 1;
    }
  }
  std::vector<rational> into(parts.size()), out_of(parts.size());  // by server
  std::vector<rational> into_node(nodes), out_of_node(nodes);
  rational entered;
  for (auto const& l : machine.links) {
    auto const c = machine.in_units(l.capacity);
    auto const tail = static_cast<std::size_t>(l.tail), head = static_cast<std::size_t>(l.head);
    out_of_node[tail] += c;
    into_node[head] += c;
    if (part_of[tail] == part_of[head]) continue;
    if (part_of[tail] >= 0) out_of[static_cast<std::size_t>(part_of[tail])] += c;
    if (part_of[head] < 0) continue;
    into[static_cast<std::size_t>(part_of[head])] += c;
    entered += c;
  }
  bound_among_servers result;
  if (both_ways) result = {entered / (2 * (std::ssize(parts) - 1)), prices_of(machine, parts)};
  auto const consider = [&](rational const& bound, std::vector<bool> const& part, bool enters) {
    if (result.bound > rational(0) && bound >= result.bound) return;
    auto side = part;
    if (enters) side.flip();
    result = {bound, cut_at(machine, side)};
  };
  auto const consider_part = [&](std::vector<bool> const& part, std::int64_t held,
                                 rational const& in, rational const& out) {
    bool const holds_root = has_root && part[root_at];
    if (!holds_root) consider(both_ways || has_root ? in : in * ranks / (ranks - held), part, true);
    if (both_ways || holds_root) consider(out, part, false);
  };
  for (std::size_t s = 0; s < parts.size(); ++s) {
    consider_part(parts[s], std::ssize(servers[s].ids), into[s], out_of[s]);
  }
  for (int const at : machine.rank_positions()) {
    std::vector<bool> alone(nodes);
    alone[static_cast<std::size_t>(at)] = true;
    consider_part(alone, 1, into_node[static_cast<std::size_t>(at)],
                  out_of_node[static_cast<std::size_t>(at)]);
  }
  return result;
}

}  // namespace detail

/// Plans broadcast, all-gather or all-reduce where the links among servers are the narrowest,
/// however much the servers' shares of them differ. Data crosses between ranks that have links to
/// spare.
///
/// Source: the stars: Wang et al., "Blink: Fast and Generic Collectives for Distributed ML", MLSys
///         2020, section 3.5; the bound of all-reduce: the partition of Tutte and Nash-Williams
///         (1961), in both directions.
/// Time:   O(trees * N) edges, see `detail::plan_over_rails`; for an all-reduce that is not exact
///         also as one choice of `plan_three_phase`.
/// Pre:    a broadcast, all-gather or all-reduce.
/// Post:   bound is proven, by prices for entering a server or by the cut of a server or rank. For
///         all-reduce, rate >= 0.999 * bound, for the others rate = bound. Nothing for all other
///         machines, in particular without switches or several servers, or if a server's ranks are
///         not connected inside.
[[nodiscard]] inline std::optional<plan> plan_among_servers(topology const& machine,
                                                            plan_request const& request) {
  bool const both_ways = has_both_phases(request.collective);
  detail::expect_forward(request);
  expects(has_spanning_trees(request.collective),
          "plan_among_servers: another collective, expected broadcast, all_gather or all_reduce");
  constexpr std::int64_t gap_parts = 1000;  // a gap of one part
  auto const servers = detail::servers_of(machine);
  // Where ranks are joined directly, routes among servers take links inside of others.
  if (servers.size() < 2 || detail::used_switches(machine).empty()) return std::nullopt;
  plan_request wanted = request;
  if (has_one_root(request.collective) && !request.root) {
    auto const best = detail::best_root(machine, request).root;
    wanted.root = machine.nodes[static_cast<std::size_t>(best)].id;
  }
  auto const proven =
      detail::bound_of_servers(machine, servers, request.collective, wanted.root.value_or(-1));
  auto const is_enough = [&](rational const& rate) {
    return both_ways ? rate >= proven.bound * rational(gap_parts - 1, gap_parts)
                     : rate == proven.bound;
  };
  std::optional<plan> result;
  try {
    result = detail::plan_over_rails(machine, wanted, servers, proven.bound);
    if (both_ways && (!result || result->rate != proven.bound)) {
      auto other = detail::glued_phases(machine, request,
                                        {.shares_by_width = true, .leaders_by_width = true});
      if (!result || other.rate > result->rate) result = std::move(other);
    }
  } catch (planning_error const&) {  // a server whose ranks are not connected inside
    return std::nullopt;
  } catch (overflow_error const&) {
    return std::nullopt;
  }
  if (!result || !is_enough(result->rate)) return std::nullopt;
  result->bound = proven.bound;
  result->proof = proven.proof;
  return result;
}

}}  // namespace blink::BLINK_ABI
