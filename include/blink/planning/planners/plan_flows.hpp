// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/core/work_budget.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/packing/flows/concurrent_flow.hpp>
#include <blink/packing/flows/flow_paths.hpp>
#include <blink/planning/plan/detail/oriented_tree.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/topology/connectivity.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// The receivers of each sender among some ranks, by positions in `machine.nodes`.
///
/// root: position in `ranks`, of a gather or scatter
/// Pre:  the collective is point-to-point, and no permute
[[nodiscard]] inline std::vector<flow_demand> demands_among(collective kind,
                                                            std::vector<int> const& ranks,
                                                            int root) {
  std::vector<flow_demand> result;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    auto& demand = result.emplace_back(flow_demand{ranks[i], {}});
    for (std::size_t j = 0; j < ranks.size(); ++j) {
      if (j != i && has_flow(kind, static_cast<int>(i), static_cast<int>(j), root)) {
        demand.sinks.push_back(ranks[j]);
      }
    }
  }
  return result;
}

/// The receivers of each sender, by positions in `machine.nodes`.
/// Throws: input_error if the destinations of a permutation are not the ranks, each at most once.
[[nodiscard]] inline std::vector<flow_demand> demands_of(topology const& machine,
                                                         plan_request const& request) {
  auto const ranks = machine.rank_positions();
  if (request.collective != collective::permute) {
    return demands_among(request.collective, ranks, -1);
  }
  std::vector<flow_demand> result;
  for (int const rank : ranks) result.push_back({rank, {}});
  auto const& to = request.destinations;
  if (to.size() != ranks.size()) {
    throw input_error("permute: found " + std::to_string(to.size()) +
                      " destinations, expected one for each of the " +
                      std::to_string(ranks.size()) + " ranks");
  }
  std::vector<bool> taken(machine.nodes.size(), false);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    int const at = machine.position_of(to[i]);
    if (at < 0 || machine.nodes[static_cast<std::size_t>(at)].kind != node_kind::rank ||
        taken[static_cast<std::size_t>(at)]) {
      throw input_error("permute: found destination " + std::to_string(to[i]) +
                        ", expected each of the ranks at most once");
    }
    taken[static_cast<std::size_t>(at)] = true;
    if (at != ranks[i]) result[i].sinks = {at};
  }
  return result;
}

/// Throws: planning_error naming a sender that does not reach its receiver.
inline void require_routes(topology const& machine, std::vector<flow_demand> const& demands) {
  for (auto const& demand : demands) {
    auto const seen = reached(machine, {demand.source}, true, [](link const&) { return true; });
    for (int const sink : demand.sinks) {
      if (seen[static_cast<std::size_t>(sink)]) continue;
      auto const id = [&](int at) {
        return std::to_string(machine.nodes[static_cast<std::size_t>(at)].id);
      };
      throw planning_error("no route leads from rank " + id(demand.source) + " to rank " +
                           id(sink));
    }
  }
}

}  // namespace detail

/// Plans an all-to-all, a shift to the next rank or any permutation, on any machine: every pair of
/// a sender and its receiver has the same rate x at the same time, over one path or a few. Ranks on
/// the way forward.
///
/// The rate is N x for all_to_all, N being the number of ranks, and x for the others.
///
/// Source: `concurrent_flow`; paths by `flow_paths`.
/// Time:   see `concurrent_flow`.
/// Pre:    an all-to-all, a shift or a permutation.
/// Post:   rate <= bound, proven by prices; equal on all machines that we know up to 64 ranks,
///         within a hundredth otherwise.
/// Throws: precondition_error for another collective; input_error for destinations that are no
///         permutation; planning_error if a sender does not reach its receiver; overflow_error if
///         capacities times ranks exceed 61 bits, or weights or their sums have no fractions of 63
///         bits (capacities beyond 40 bits).
[[nodiscard]] inline plan plan_flows(topology const& machine, plan_request const& request,
                                     concurrent_flow_options const& options) {
  expects(sends_and_receives(request.collective),
          "plan_flows: another collective, expected all_to_all, send_to_next or permute");
  plan result = detail::empty_plan(machine, request);
  if (request.collective == collective::permute) result.destinations = request.destinations;
  auto const demands = detail::demands_of(machine, request);
  bool const all_stay = std::all_of(demands.begin(), demands.end(),
                                    [](flow_demand const& d) { return d.sinks.empty(); });
  if (all_stay) return result;
  detail::require_routes(machine, demands);
  std::int64_t sum = 0;
  for (auto const& l : machine.links) sum += l.capacity;
  if (sum > (std::int64_t{1} << 61) / static_cast<std::int64_t>(result.ranks.size())) {
    throw overflow_error("plan_flows: capacities times ranks exceed 61 bits");
  }
  auto const nodes = detail::to_node_graph(machine);
  auto const& graph = nodes.graph;
  auto const found = concurrent_flow(graph, nodes.capacity, demands, options);
  detail::unlimited_scope const whole;  // what follows is no search

  auto const blocks =
      has_blocks(request.collective) ? static_cast<std::int64_t>(result.ranks.size()) : 1;
  auto const rate = machine.in_units(found.rate);
  std::vector<rational> load(nodes.capacity.size());
  result.rate = rate * blocks;
  result.bound = machine.in_units(found.bound) * blocks;
  std::vector<std::int64_t> wanted(machine.nodes.size());
  for (std::size_t d = 0; d < demands.size(); ++d) {
    std::fill(wanted.begin(), wanted.end(), 0);
    for (int const sink : demands[d].sinks) {
      wanted[static_cast<std::size_t>(sink)] = found.per_sink;
    }
    for (auto const& path : flow_paths(graph, demands[d].source, found.flow[d], wanted)) {
      std::vector<int> path_nodes{demands[d].source};
      auto const weight = rate * rational(path.amount, found.per_sink);
      for (int const e : path.edges) {
        path_nodes.push_back(graph.arcs[static_cast<std::size_t>(e)].head);
        load[static_cast<std::size_t>(e)] += weight;  // so that sums of weights are known to fit
      }
      detail::add_path(result.trees, machine, path_nodes, weight);
    }
  }
  result.proof = detail::to_certificate(machine, nodes, found.prices);
  return result;
}

/// The same with default options.
[[nodiscard]] inline plan plan_flows(topology const& machine, plan_request const& request) {
  return plan_flows(machine, request, {});
}

}}  // namespace blink::BLINK_ABI
