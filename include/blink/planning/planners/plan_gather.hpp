// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/core/work_budget.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/packing/flows/flow_paths.hpp>
#include <blink/packing/flows/scatter_flow.hpp>
#include <blink/planning/plan/detail/oriented_tree.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Plans a gather or a scatter optimally on any machine: one path or a few for each rank but the
/// root, whose block stays where it is. Ranks on the way forward.
///
/// The rate is N times the amount x that flows from the root to each other rank (gather: from each
/// other rank to the root) at the same time, N being the number of ranks.
///
/// Source: `scatter_flow`; paths by `flow_paths`. A gather is a scatter on the reversed machine.
/// Time:   a few maximum flows; without a root in the request, for each rank that no cut found
///         before bounds, or for as many as the budget lets.
/// Pre:    a gather or a scatter; the root, if given, is a rank.
/// Post:   rate = bound, proven by a cut; at most links + N paths.
/// Throws: precondition_error if a precondition does not hold; planning_error if some rank is out
///         of the root's reach.
[[nodiscard]] inline plan plan_gather(topology const& machine, plan_request const& request) {
  bool const gathers = is_to_root(request.collective);
  expects(is_point_to_point(request.collective) && has_root(request.collective),
          "plan_gather: neither a gather nor a scatter");
  plan result = detail::empty_plan(machine, request);
  auto const ranks = machine.rank_positions();
  if (ranks.size() < 2) return result;
  auto const graph = gathers ? reversed(machine) : to_arc_list(machine);
  auto const capacity = detail::capacities_of(machine);

  std::optional<scatter_flow_result> best;
  int root = -1;
  std::vector<bool> is_bounded(machine.nodes.size(), false);  // by a cut, to at most the best rate
  for (int const candidate : ranks) {
    if (is_bounded[static_cast<std::size_t>(candidate)]) continue;
    if (request.root && machine.nodes[static_cast<std::size_t>(candidate)].id != *request.root) {
      continue;
    }
    std::vector<int> others;
    std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(others),
                 [&](int rank) { return rank != candidate; });
    std::optional<detail::unlimited_scope> whole;
    if (!best) whole.emplace();  // one root in any case
    scatter_flow_result found;
    try {
      found = scatter_flow(graph, capacity, candidate, others);
    } catch (detail::budget_spent const&) {
      break;
    }
    for (std::size_t i = 0; i < found.cut.size(); ++i) {
      if (found.cut[i]) is_bounded[i] = true;  // the cut parts them from as many sinks
    }
    if (best && found.rate_per_sink <= best->rate_per_sink) continue;
    best = std::move(found);
    root = candidate;
  }
  expects(best.has_value(), "plan_gather: the root is not a rank");
  if (best->per_sink == 0) {
    throw planning_error(
        "rank " + std::to_string(machine.nodes[static_cast<std::size_t>(root)].id) +
        (gathers ? " is not reached by every other rank" : " does not reach every other rank"));
  }
  cut_certificate cut;  // for a gather, the other side, because the links are reversed
  for (std::size_t i = 0; i < best->cut.size(); ++i) {
    if (best->cut[i] != gathers) cut.nodes.push_back(machine.nodes[i].id);
  }
  result.proof = std::move(cut);
  result.rate = machine.in_units(best->rate_per_sink) * static_cast<std::int64_t>(ranks.size());
  result.bound = result.rate;

  std::vector<std::int64_t> demand(machine.nodes.size(), 0);
  for (int const rank : ranks) {
    if (rank != root) demand[static_cast<std::size_t>(rank)] = best->per_sink;
  }
  detail::unlimited_scope const whole;  // what follows is no search
  for (auto const& path : flow_paths(graph, root, best->flow, demand)) {
    std::vector<int> path_nodes{root};
    for (int const e : path.edges)
      path_nodes.push_back(graph.arcs[static_cast<std::size_t>(e)].head);
    if (gathers) std::reverse(path_nodes.begin(), path_nodes.end());
    detail::add_path(result.trees, machine, path_nodes,
                     machine.in_units(rational(path.amount, best->steps)));
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
