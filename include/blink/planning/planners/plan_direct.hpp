// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/packing/joint/joint_packing.hpp>
#include <blink/packing/trees/all_gather_rate.hpp>
#include <blink/packing/trees/arborescence_packing.hpp>
#include <blink/packing/trees/spanning_tree_packing.hpp>
#include <blink/planning/plan/detail/oriented_tree.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/detail/routed_forest.hpp>
#include <blink/planning/plan/detail/supplied_graph.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/planning/planners/plan_symmetric.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {
namespace detail {

/// Adds out-trees for the supplies to a plan, and their weights to its rate.
inline void pack_out_trees(topology const& machine, std::vector<rank_supply> const& supplies,
                           plan& result, arborescence_packing_options const& options = {}) {
  auto const [ranks, demands] = to_supplied_graph(machine, supplies);
  for (auto const& packed : pack_arborescences(ranks.graph, ranks.capacity, demands, options)) {
    tree t;
    t.root = ranks.ids[static_cast<std::size_t>(packed.root)];
    t.weight = ranks.step * packed.multiplicity;
    for (int const e : packed.edges) {
      t.broadcast.push_back(ranks.edge(static_cast<std::size_t>(e)));
    }
    result.rate += t.weight;
    result.trees.push_back(std::move(t));
  }
}

/// Plans a broadcast with as many unit trees as the smallest cut has capacity, by Edmonds' theorem.
inline void plan_exact_broadcast(topology const& machine, plan_request const& request,
                                 plan& result) {
  auto const best = best_root(machine, request);
  result.proof = cut_at(machine, best.source_side);
  pack_out_trees(machine, {{best.root, best.rate}}, result);
}

/// Plans an all-gather. The rate of every root is a fraction a/b of a capacity step. With
/// capacities times b, a unit trees fit at each root, by Edmonds' theorem.
inline void plan_exact_all_gather(topology const& machine, plan& result) {
  auto const everyone = machine.rank_positions();
  auto const capacity = detail::capacities_of(machine);
  auto const optimum = all_gather_rate(machine, capacity, everyone);
  if (optimum.rate_per_root == rational(0)) {
    throw planning_error("some ranks cannot send to all others");
  }
  result.proof = cut_at(machine, optimum.cut);
  auto symmetric = plan_symmetric_all_gather(machine, optimum);
  constexpr std::size_t many_ranks = 96;  // other ways to fewer trees take too long
  auto const few = everyone.size();
  if (!symmetric || (symmetric->size() > few && few <= many_ranks)) {
    std::vector<rank_supply> supplies;
    for (int const rank : everyone) supplies.push_back({rank, optimum.rate_per_root});
    pack_out_trees(machine, supplies, result);
    if (!symmetric || result.trees.size() <= symmetric->size()) return;
  }
  result.trees = std::move(*symmetric);
  result.rate = machine.in_units(optimum.rate_per_root * static_cast<std::int64_t>(few));
}

/// Plans an all-reduce. On symmetric links, an undirected tree takes one direction of its edges up
/// and the other down.
inline void plan_direct_all_reduce(rank_graph const& ranks, plan& result) {
  if (auto const both = to_undirected(ranks)) {
    auto const packed = pack_spanning_trees(both->graph, both->capacity);
    for (auto const& t : packed.trees) {
      result.trees.push_back(oriented_tree(*both, ranks, t.edges, ranks.step * t.weight));
    }
    result.rate = ranks.step * packed.rate;
    partition_certificate partition;
    for (std::size_t v = 0; v < packed.part.size(); ++v) {
      auto const part = static_cast<std::size_t>(packed.part[v]);
      if (part >= partition.parts.size()) partition.parts.resize(part + 1);
      partition.parts[part].push_back(ranks.ids[v]);
    }
    result.proof = std::move(partition);
    return;
  }
  auto const packed = pack_joint_trees(ranks.graph, ranks.capacity);
  for (auto const& pair : packed.trees) {
    tree t{ranks.ids[static_cast<std::size_t>(pair.root)], ranks.step * pair.weight, {}, {}};
    for (int const e : pair.in_edges) t.reduce.push_back(ranks.edge(static_cast<std::size_t>(e)));
    for (int const e : pair.out_edges) {
      t.broadcast.push_back(ranks.edge(static_cast<std::size_t>(e)));
    }
    result.trees.push_back(std::move(t));
  }
  result.rate = ranks.step * packed.rate;
  price_certificate prices;
  for (std::size_t e = 0; e < packed.prices.size(); ++e) {
    auto const edge = ranks.edge(e);
    if (packed.prices[e] != rational(0)) {
      prices.prices.push_back({edge.from, edge.to, packed.prices[e]});
    }
  }
  result.proof = std::move(prices);
}

}  // namespace detail

/// Plans a collective optimally: broadcast, reduce, all-gather and reduce-scatter on any machine,
/// all-reduce on one whose ranks are joined by direct links.
///
/// Switches (NVSwitches, sockets, NICs) are first replaced by routes between ranks, which keeps the
/// optimum: `split_off_switches`.
///
/// broadcast:  integral packing of arborescences (Edmonds 1973), rate = smallest cut
/// all_gather: arborescences rooted everywhere, rate = N * smallest ratio cut
/// all_reduce: symmetric links: fractional packing of undirected spanning trees (Tutte 1961,
///             Nash-Williams 1961), each rooted at its centre; other links: joint packing of
///             in-trees and out-trees, by linear programming
///
/// Time:   see the packers; under a millisecond for 8 ranks.
/// Pre:    neither a reduce nor a reduce_scatter, which `make_plan` plans on the reversed machine.
/// Post:   rate = bound, proven by a cut, a partition, or prices.
/// Throws: precondition_error for a reduce or reduce_scatter; planning_error if the ranks are not
///         connected, and for all-reduce with switches; unbalanced_switch if a switch with more
///         capacity out than in cannot be split.
[[nodiscard]] inline plan plan_direct(topology const& machine, plan_request const& request) {
  detail::expect_forward(request);
  plan result = detail::empty_plan(machine, request);
  if (result.ranks.size() == 1) return result;
  switch (request.collective) {
    case collective::broadcast:
      detail::plan_exact_broadcast(machine, request, result);
      break;
    case collective::all_gather:
      detail::plan_exact_all_gather(machine, result);
      break;
    default:
      if (!detail::used_switches(machine).empty()) {
        throw planning_error("machine '" + machine.name +
                             "' has switches, expected direct links; see `plan_joint`");
      }
      detail::plan_direct_all_reduce(detail::to_rank_graph(machine), result);
  }
  result.bound = result.rate;
  return result;
}

}}  // namespace blink::BLINK_ABI
