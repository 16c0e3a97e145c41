// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/packing/trees/few_trees.hpp>
#include <blink/packing/trees/multiplicative_weights.hpp>
#include <blink/packing/trees/reduce_height.hpp>
#include <blink/packing/trees/tree_oracle.hpp>
#include <blink/planning/plan/detail/oriented_tree.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/detail/routed_forest.hpp>
#include <blink/planning/plan/detail/supplied_graph.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {
namespace detail {

/// Makes candidates by multiplicative weights, to within 3 % of the optimum, and chooses few of
/// them by an integer program.
template <class Oracle>
[[nodiscard]] few_trees_result choose_trees(Oracle&& oracle,
                                            std::vector<std::int64_t> const& capacity,
                                            few_trees_options const& options = {}) {
  constexpr double close = 0.03;  // nearer costs time and brings no better trees
  auto const approximate = multiplicative_weights(oracle, capacity, {.gap = close});
  std::vector<std::vector<int>> candidates;
  for (auto const& t : approximate.trees) candidates.push_back(t.edges);
  return few_trees(oracle, candidates, capacity, approximate.bound, approximate.prices, options);
}

}  // namespace detail

/// Plans broadcast, reduce or all-reduce as in the Blink paper: an approximate fractional packing
/// of spanning trees, then few of its trees with simple weights, at 95 % of the optimum or more.
///
/// broadcast, reduce: out-trees or in-trees at one root; switches are split off into routes first.
/// all_reduce:        undirected spanning trees, which take one direction of each link up and the
///                    other down; each is rooted where it is lowest.
///
/// Source: Wang et al., "Blink: Fast and Generic Collectives for Distributed ML", MLSys 2020.
/// Time:   see `multiplicative_weights` and `few_trees`; milliseconds for 8 ranks.
/// Post:   `bound` is 0 and there is no certificate: `make_plan` adds the machine's own.
/// Throws: precondition_error unless it is a broadcast or an all-reduce (`make_plan` plans a reduce
///         on the reversed machine); planning_error for all-reduce over switches or over links that
///         differ by direction, and if the ranks are not connected.
[[nodiscard]] inline plan plan_blink(topology const& machine, plan_request const& request) {
  expects(
      request.collective == collective::broadcast || request.collective == collective::all_reduce,
      "plan_blink: another collective, expected broadcast or all_reduce");
  plan result = detail::empty_plan(machine, request);
  if (result.ranks.size() == 1) return result;

  bool const has_switches = !detail::used_switches(machine).empty();
  if (has_both_phases(request.collective)) {
    if (has_switches) {
      throw planning_error("blink: all_reduce needs direct links, and machine '" + machine.name +
                           "' has switches; try one_hop, three_phase or exact");
    }
    auto const ranks = detail::to_rank_graph(machine);
    auto const both = detail::to_undirected(ranks);
    if (!both) {
      throw planning_error(
          "blink: all_reduce needs links of equal capacity both ways; try the planner exact");
    }
    spanning_tree_oracle oracle(both->graph, both->capacity);
    for (auto const& t : detail::choose_trees(oracle, both->capacity).trees) {
      result.trees.push_back(detail::oriented_tree(*both, ranks, t.edges, ranks.step * t.weight));
    }
  } else {
    auto const best = detail::best_root(machine, request);
    auto const ranks = has_switches
                           ? detail::to_supplied_graph(machine, {{best.root, best.rate}}).ranks
                           : detail::to_rank_graph(machine);
    int const root = ranks.vertex_of(machine.nodes[static_cast<std::size_t>(best.root)].id);
    few_trees_options options;
    if (has_switches) {  // routes give many more edges than links: a shorter search
      options.node_limit = 100;
      options.completion_rounds = 8;
    }
    arborescence_oracle oracle(ranks.graph, root, ranks.capacity);
    auto const few = reduce_height(ranks.graph, root, ranks.capacity,
                                   detail::choose_trees(oracle, ranks.capacity, options));
    for (auto const& chosen : few.trees) {
      tree t{ranks.ids[static_cast<std::size_t>(root)], ranks.step * chosen.weight, {}, {}};
      for (int const e : chosen.edges) {
        t.broadcast.push_back(ranks.edge(static_cast<std::size_t>(e)));
      }
      result.trees.push_back(std::move(t));
    }
  }
  for (auto const& t : result.trees) result.rate += t.weight;
  return result;
}

}}  // namespace blink::BLINK_ABI
