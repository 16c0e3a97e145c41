// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/max_flow.hpp>
#include <blink/packing/trees/all_gather_rate.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/detail/servers.hpp>
#include <blink/planning/plan/detail/supplied_graph.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/planners/plan_direct.hpp>
#include <blink/planning/planners/plan_joint.hpp>
#include <blink/planning/planners/plan_switch.hpp>
#include <blink/planning/planners/plan_two_phases.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// Checks shares by rank and divides them by their common divisor. Without shares, each is 1.
/// Throws: precondition_error unless there is one for each rank, none negative and not all 0.
[[nodiscard]] inline std::vector<std::int64_t> reduced_shares(topology const& machine,
                                                              std::vector<std::int64_t> shares) {
  if (shares.empty()) shares.assign(machine.rank_positions().size(), 1);
  expects(shares.size() == machine.rank_positions().size(),
          "shares: their number differs from that of the ranks, expected one for each rank");
  std::int64_t divisor = 0;
  for (auto const s : shares) {
    expects(s >= 0, "shares: one is negative, expected shares from 0");
    divisor = std::gcd(divisor, s);
  }
  expects(divisor > 0, "shares: all are 0, expected a positive one");
  for (auto& s : shares) s /= divisor;
  return shares;
}

}  // namespace detail

/// A rate that no plan exceeds, and its certificate.
struct proven_bound {
  rational bound;
  certificate proof;
};

namespace detail {

/// Converts a bound of a forward collective on the reversed machine into that of its reversed
/// collective on the machine.
[[nodiscard]] inline proven_bound reversed(proven_bound proven, collective forward,
                                           topology const& machine) {
  plan carrier;
  carrier.collective = forward;
  carrier.proof = std::move(proven.proof);
  return {proven.bound, reversed(std::move(carrier), machine).proof};
}

}  // namespace detail

/// Bounds the rate of a collective on a machine, including its switches.
///
/// For broadcast, reduce, all_gather and reduce_scatter, the bound is exact on any machine, by
/// smallest cuts. Plans may stay below it where switches copy.
///
/// For all_reduce, the bound is exact unless that takes too long or needs more than 61 bits.
/// Otherwise it is above what plans can reach. Machines with many links get the smallest cut
/// between any two ranks. No plan exceeds it, but possibly no plan reaches it.
///
/// root:   node id, for broadcast and reduce.
/// shares: all_gather and reduce_scatter: the parts that the ranks root, in the order of the ranks;
///         none: equal parts.
/// Pre:    the collective is neither point-to-point nor a barrier.
/// Source: Edmonds 1973 (broadcast); Zhao et al., "ForestColl", 2024 (all-gather with switches).
/// Time:   O(N) maximum flows for N ranks, and a few times that for all-gather.
/// Throws: precondition_error if the collective is another one; planning_error if the ranks are not
///         connected.
[[nodiscard]] inline proven_bound prove_bound(topology const& machine, collective kind, int root,
                                              std::vector<std::int64_t> shares = {}) {
  expects(has_spanning_trees(kind),
          "prove_bound: flows are proven by their planner, a barrier has no rate");
  if (auto const forward = detail::forward_collective(kind); forward != kind) {
    auto const reversed = detail::reversed(machine);
    return detail::reversed(prove_bound(reversed, forward, root, std::move(shares)), forward,
                            machine);
  }
  if (has_both_phases(kind)) {
    plan_request const request{kind};
    if (!detail::has_copying_switches(machine)) {
      if (auto star = detail::plan_star(machine, request)) {
        return {star->bound, std::move(star->proof)};
      }
    }
    constexpr std::size_t few_ranks = 8;  // whose trees take no longer than the program
    bool const direct = detail::used_switches(machine).empty();
    if (direct && machine.rank_positions().size() <= few_ranks) {
      auto exact = plan_direct(machine, request);
      return {exact.bound, std::move(exact.proof)};
    }
  }
  auto const ranks = machine.rank_positions();
  if (ranks.size() < 2) return {};
  if (has_both_phases(kind)) {
    if (auto star = detail::plan_copying_star(machine, {kind}))
      return {star->bound, std::move(star->proof)};
    constexpr std::size_t most_links = 2'000;  // the program takes seconds for these
    auto const nodes = detail::to_node_graph(machine);
    if (nodes.capacity.size() <= most_links) {
      joint_packing_options options;
      options.gap = 1;          // the best bound that is found
      options.max_work = 1e10;  // some seconds
      auto const found =
          find_joint_rate(nodes.graph, nodes.capacity, detail::network_of(machine), options);
      return {machine.in_units(found.bound), detail::to_certificate(machine, nodes, found.prices)};
    }
  }
  auto const capacity = detail::capacities_of(machine);
  if (has_equal_roots(kind)) {
    shares = detail::reduced_shares(machine, std::move(shares));
    auto const optimum = all_gather_rate(machine, capacity, ranks, shares);
    if (optimum.rate_per_root == rational(0)) {
      throw planning_error("some ranks cannot send to all others");
    }
    rational all;
    for (auto const s : shares) all += s;
    return {machine.in_units(optimum.rate_per_root * all), detail::cut_at(machine, optimum.cut)};
  }
  if (has_one_root(kind)) {
    auto const cut = rooted_connectivity(machine, capacity, machine.position_of(root), ranks);
    return {machine.in_units(cut.value), detail::cut_at(machine, cut.source_side)};
  }
  auto cut = detail::smallest_cut(machine);
  return {cut.first, std::move(cut.second)};
}

namespace detail {

/// The nodes of each rank alone, and those of each server, by position. A single server is no part.
[[nodiscard]] inline std::vector<std::vector<std::vector<bool>>> ranks_and_servers(
    topology const& machine) {
  std::vector<std::vector<std::vector<bool>>> result(2);
  for (int const at : machine.rank_positions()) {
    result[0].emplace_back(machine.nodes.size(), false)[static_cast<std::size_t>(at)] = true;
  }
  for (auto const& each : servers_of(machine)) {
    auto& part = result[1].emplace_back(machine.nodes.size(), false);
    for (std::size_t v = 0; v < part.size(); ++v) {
      auto const& n = machine.nodes[v];
      part[v] = each.server >= 0 ? n.server == each.server : n.id == each.ids.front();
    }
  }
  if (result[1].size() < 2) result.pop_back();
  return result;
}

}  // namespace detail

/// Bounds the rate of a collective as `prove_bound` does, in less time and less tightly: by the
/// links of single ranks and of servers.
///
/// Time: O((ranks + servers) * (nodes + links)).
[[nodiscard]] inline proven_bound bound_of_parts(topology const& machine, collective kind,
                                                 int root) {
  expects(has_spanning_trees(kind), "bound_of_parts: expected a collective with spanning trees");
  if (auto const forward = detail::forward_collective(kind); forward != kind) {
    auto const reversed = detail::reversed(machine);
    return detail::reversed(bound_of_parts(reversed, forward, root), forward, machine);
  }
  auto const ranks = machine.rank_positions();
  auto const all = static_cast<std::int64_t>(ranks.size());
  if (all < 2) return {};
  auto const root_at = static_cast<std::size_t>(machine.position_of(root));
  proven_bound best;
  auto const offer = [&](rational const& bound, auto const& proof) {
    if (best.bound == rational(0) || bound < best.bound) best = {bound, proof()};
  };
  // Bounds by the links out of a set of nodes.
  auto const offer_cut = [&](std::vector<bool> const& inside) {
    std::int64_t held = 0;
    for (int const at : ranks) held += inside[static_cast<std::size_t>(at)] ? 1 : 0;
    if (held == all || (has_one_root(kind) ? !inside[root_at] : held == 0)) return;
    std::int64_t leaving = 0;
    for (auto const& l : machine.links) {
      bool const leaves =
          inside[static_cast<std::size_t>(l.tail)] && !inside[static_cast<std::size_t>(l.head)];
      leaving += leaves ? l.capacity : 0;
    }
    auto bound = machine.in_units(leaving);
    if (has_equal_roots(kind)) bound = bound * rational(all, held);
    offer(bound, [&] { return detail::cut_at(machine, inside); });
  };
  for (auto const& parts : detail::ranks_and_servers(machine)) {
    for (auto part : parts) {
      offer_cut(part);
      part.flip();
      offer_cut(part);
    }
    if (!has_both_phases(kind) || detail::has_copying_switches(machine)) continue;
    auto prices = detail::prices_of(machine, parts);
    std::map<std::pair<int, int>, std::int64_t> capacity;
    for (auto const& l : machine.links) {
      capacity[{machine.nodes[static_cast<std::size_t>(l.tail)].id,
                machine.nodes[static_cast<std::size_t>(l.head)].id}] += l.capacity;
    }
    rational sum;
    for (auto const& p : prices.prices) sum += p.price * capacity.at({p.from, p.to});
    offer(machine.in_units(1) * sum, [&] { return std::move(prices); });
  }
  return best;
}

}}  // namespace blink::BLINK_ABI
