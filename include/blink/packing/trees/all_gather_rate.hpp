// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/max_flow.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The largest rate at which every rank can send to all other ranks at once, and the cut that
/// limits it.
struct all_gather_rate_result {
  rational rate_per_root;  ///< for a root of weight 1, in the unit of the capacities
  std::vector<bool> cut;   ///< by vertex: true on a side that holds a rank and misses a rank
  int rounds = 0;          ///< number of cuts that were considered
};

/// Finds the optimal rate of all-gather for each root, if the roots' shares are proportional to
/// their weights. It is a minimum over the vertex sets that miss a rank: the capacity out of the
/// set, divided by the weight of the ranks in it. Vertices that are not ranks forward.
///
/// The search starts from the sets that miss one rank only. While some flow is too small at the
/// present ratio, its minimum cut has a smaller ratio (Dinkelbach 1967). All numbers are integers.
///
/// weights: by position in `ranks`; empty: 1 each
/// Source:  L. Zhao et al., "ForestColl: Throughput-optimal collective communications on
///          heterogeneous network fabrics", 2024 (the cut condition; there by bisection).
/// Time:    O(rounds * N) maximum flows for N ranks; there are few rounds on all machines that we
///          know.
/// Pre:     capacities and weights are not negative; `ranks` are distinct vertices, at least two;
///          the weights are not all 0.
/// Post:    (capacity out of `cut`) / (weight of the ranks in `cut`) = rate_per_root. 0 if some
///          rank with a weight cannot reach another rank.
/// Throws:  precondition_error if a precondition does not hold; overflow_error if capacities times
///          weights do not fit in 62 bits.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] all_gather_rate_result all_gather_rate(Graph const& graph,
                                                     Capacities const& capacities,
                                                     std::vector<int> const& ranks,
                                                     std::vector<std::int64_t> weights = {}) {
  arc_list const& arcs = to_arc_list(graph);
  auto const n = static_cast<std::size_t>(arcs.vertex_count);
  auto const rank_count = static_cast<std::int64_t>(ranks.size());
  expects(rank_count >= 2,
          "all_gather_rate: there are fewer than two ranks, expected at least two");
  std::vector<bool> is_rank(n, false);
  for (int const rank : ranks) {
    detail::expects_vertex(arcs, rank);
    expects(!is_rank[static_cast<std::size_t>(rank)],
            "all_gather_rate: a rank is named twice, expected distinct ranks");
    is_rank[static_cast<std::size_t>(rank)] = true;
  }
  if (weights.empty()) weights.assign(ranks.size(), 1);
  expects(weights.size() == ranks.size(),
          "all_gather_rate: the weights do not match the ranks, expected one for each rank");
  rational total;
  for (auto const weight : weights) {
    expects(weight >= 0, "all_gather_rate: a weight is negative, expected at least 0");
    total += weight;
  }
  expects(total > rational(0), "all_gather_rate: all weights are 0, expected a positive one");
  int const super_source = arcs.vertex_count;
  auto network = detail::to_flow_network(arcs, capacities, 1);
  for (int const rank : ranks) network.add(super_source, rank, 0);
  auto const edge_count = static_cast<int>(arcs.arcs.size());

  auto const ratio_of = [&](std::vector<bool> const& inside) {
    std::int64_t leaving = 0;
    std::int64_t weight_inside = 0;
    for (std::size_t e = 0; e < arcs.arcs.size(); ++e) {
      auto const& a = arcs.arcs[e];
      if (inside[static_cast<std::size_t>(a.tail)] && !inside[static_cast<std::size_t>(a.head)]) {
        leaving += static_cast<std::int64_t>(capacities[e]);
      }
    }
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (inside[static_cast<std::size_t>(ranks[i])]) weight_inside += weights[i];
    }
    return rational(leaving, weight_inside);
  };

  // The sets that miss one rank only.
  std::vector<std::int64_t> entering(n, 0);
  for (std::size_t e = 0; e < arcs.arcs.size(); ++e) {
    if (arcs.arcs[e].tail != arcs.arcs[e].head) {
      entering[static_cast<std::size_t>(arcs.arcs[e].head)] +=
          static_cast<std::int64_t>(capacities[e]);
    }
  }
  std::optional<std::size_t> poorest;
  rational smallest;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (total == rational(weights[i])) continue;  // no other rank has a weight
    auto const ratio =
        rational(entering[static_cast<std::size_t>(ranks[i])]) / (total - weights[i]);
    if (poorest && ratio >= smallest) continue;
    poorest = i;
    smallest = ratio;
  }
  all_gather_rate_result result{smallest, std::vector<bool>(n, true), 1};
  result.cut[static_cast<std::size_t>(ranks[*poorest])] = false;

  for (bool shorter = true; shorter && result.rate_per_root > rational(0);) {
    // At the rate a/b, edges have b times their capacities. Each root sends a times its weight, and
    // every rank must receive all of that.
    auto const a = result.rate_per_root.numerator();
    auto const b = result.rate_per_root.denominator();
    auto const wanted = (rational(a) * total).numerator();
    if (wanted > detail::flow_network::unlimited / 2) {
      throw overflow_error("all_gather_rate: rate times weights exceed 62 bits, expected less");
    }
    for (int e = 0; e < edge_count; ++e) {
      auto const scaled =
          rational(static_cast<std::int64_t>(capacities[static_cast<std::size_t>(e)])) * b;
      if (scaled > rational(detail::flow_network::unlimited / (2 * rank_count + edge_count))) {
        throw overflow_error(
            "all_gather_rate: capacities times ranks exceed 62 bits, expected less");
      }
      network.set_capacity(e, scaled.numerator());
    }
    for (int i = 0; i < static_cast<int>(rank_count); ++i) {
      network.set_capacity(edge_count + i, a * weights[static_cast<std::size_t>(i)]);
    }
    shorter = false;
    for (int const rank : ranks) {
      if (network.run(super_source, rank, wanted) == wanted) continue;
      std::vector<bool> cut(n);
      for (std::size_t v = 0; v < n; ++v) cut[v] = network.source_side(static_cast<int>(v));
      result.rate_per_root = ratio_of(cut);  // smaller, because the flow was too small
      result.cut = std::move(cut);
      ++result.rounds;
      shorter = true;
      break;
    }
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
