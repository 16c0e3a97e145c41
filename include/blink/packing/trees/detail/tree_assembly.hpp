// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/max_flow.hpp>
#include <blink/packing/lp/detail/common_denominator.hpp>
#include <blink/packing/trees/arborescence_packing.hpp>
#include <blink/packing/trees/detail/arborescence_growth.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

// From approximate loads of an optimal packing of spanning trees to exact trees.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The loads of an optimal packing in exact numbers: integers in units of 1 / `denominator`.
struct exact_tree_loads {
  std::int64_t denominator = 1;
  std::int64_t rate = 0;            ///< number of unit trees
  std::vector<std::int64_t> loads;  ///< by edge; they sum to rate * (V - 1)
};

/// Guesses the exact loads, and checks that they fit and that there are enough for trees.
[[nodiscard]] inline std::optional<exact_tree_loads> exact_loads(
    std::vector<double> const& loads, int vertex_count, std::vector<std::int64_t> const& capacity,
    rational const& rate, std::int64_t largest_denominator) {
  auto const denominator = common_denominator(loads, rate.denominator(), largest_denominator);
  if (!denominator) return std::nullopt;
  exact_tree_loads result{*denominator, (rate * *denominator).numerator(), {}};
  std::int64_t sum = 0;
  for (std::size_t e = 0; e < loads.size(); ++e) {
    result.loads.push_back(std::llround(loads[e] * static_cast<double>(*denominator)));
    if (result.loads[e] > rational(capacity[e]) * *denominator) return std::nullopt;
    sum += result.loads[e];
  }
  if (sum != result.rate * (vertex_count - 1)) return std::nullopt;
  return result;
}

/// Splits loads into whole spanning trees: a flow turns every unit of load towards one of its ends
/// so that `rate` units enter each vertex but the root; then as many arborescences fit.
///
/// Source: A. Frank, "On the orientation of graphs", J. Combinatorial Theory B 28, 1980.
/// Nothing if the loads are not those of trees.
[[nodiscard]] inline std::optional<std::vector<packed_arborescence>> split_into_trees(
    arc_list const& graph, exact_tree_loads const& loads) {
  auto const n = graph.vertex_count;
  auto const m = static_cast<int>(graph.arcs.size());
  // Edge e of the graph becomes the arcs 2e (as it is) and 2e + 1 (turned round).
  arc_list both{n, {}};
  for (auto const& a : graph.arcs) {
    both.arcs.push_back(a);
    both.arcs.push_back({a.head, a.tail});
  }
  int root = 0;
  std::vector<std::int64_t> const everywhere(both.arcs.size(), 1);
  int least = eccentricity(both, everywhere, root);
  for (int v = 1; v < n; ++v) {
    int const steps = eccentricity(both, everywhere, v);
    if (steps < least) {
      least = steps;
      root = v;
    }
  }
  // Vertices, then edges, then source and sink.
  arc_list network{n + m + 2, {}};
  std::vector<std::int64_t> room;
  int const from = n + m, to = n + m + 1;
  for (int e = 0; e < m; ++e) {
    auto const load = loads.loads[static_cast<std::size_t>(e)];
    auto const [tail, head] = graph.arcs[static_cast<std::size_t>(e)];
    for (arc const a : {arc{n + e, head}, arc{n + e, tail}, arc{from, n + e}}) {
      network.arcs.push_back(a);
      room.push_back(load);
    }
  }
  for (int v = 0; v < n; ++v) {
    if (v == root) continue;
    network.arcs.push_back({v, to});
    room.push_back(loads.rate);
  }
  auto const flow = max_flow(network, from, to, room);
  std::vector<std::int64_t> turned;
  for (std::size_t e = 0; e < static_cast<std::size_t>(m); ++e) {
    turned.push_back(flow.flow[3 * e]);
    turned.push_back(flow.flow[3 * e + 1]);
  }
  std::vector<packed_arborescence> trees;
  try {
    trees = pack_arborescences(both, turned, {{root, loads.rate}});
  } catch (planning_error const&) {  // the guess was wrong
    return std::nullopt;
  }
  for (auto& tree : trees) {
    for (int& e : tree.edges) e /= 2;
  }
  return trees;
}

}}}  // namespace blink::BLINK_ABI::detail
