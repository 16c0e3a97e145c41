// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/max_flow.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The largest equal amounts that a source can send to all sinks at once, a flow of that size, and
/// the cut that limits it.
struct scatter_flow_result {
  rational rate_per_sink;          ///< in the unit of the capacities
  std::vector<std::int64_t> flow;  ///< by edge, in 1/`steps` of the unit of the capacities
  std::int64_t per_sink = 0;       ///< the amount that each sink receives, also in 1/`steps`
  std::int64_t steps = 1;
  std::vector<bool> cut;  ///< by vertex: true on the source's side, which misses a sink
  int rounds = 0;         ///< number of cuts that were considered
};

/// Finds the largest amount that the source can send to each of the sinks at the same time. Every
/// sink receives data of its own. All vertices forward.
///
/// The optimum is a minimum over all sets with the source in them: the capacity out of the set,
/// divided by the number of sinks outside. This follows from max-flow min-cut with a super sink
/// behind all sinks. The search starts from the source alone and the sets that miss one sink only.
/// While the flow at the present ratio is too small, its minimum cut has a smaller ratio
/// (Dinkelbach 1967). All numbers are integers.
///
/// sinks:  distinct vertices, without the source
/// Source: L. Ford and D. Fulkerson, "Maximal flow through a network", Canadian J. Math. 8, 1956.
/// Time:   O(rounds) maximum flows; at most as many rounds as sinks, and very few on all machines
///         that we know.
/// Pre:    capacities are not negative; at least one sink.
/// Post:   `flow` keeps to the capacities and brings `per_sink` into each sink; (capacity out of
///         `cut`) / (sinks outside) = rate_per_sink = per_sink / steps. 0 if a sink is unreachable.
/// Throws: precondition_error if a precondition does not hold; overflow_error if capacities times
///         sinks do not fit in 62 bits.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] scatter_flow_result scatter_flow(Graph const& graph, Capacities const& capacities,
                                               int source_vertex, std::vector<int> const& sinks) {
  arc_list const& arcs = to_arc_list(graph);
  auto const n = static_cast<std::size_t>(arcs.vertex_count);
  auto const edge_count = static_cast<int>(arcs.arcs.size());
  auto const sink_count = static_cast<std::int64_t>(sinks.size());
  detail::expects_vertex(arcs, source_vertex);
  expects(!sinks.empty(), "scatter_flow: there is no sink, expected at least one");
  std::vector<bool> is_sink(n, false);
  for (int const sink : sinks) {
    detail::expects_vertex(arcs, sink);
    expects(sink != source_vertex && !is_sink[static_cast<std::size_t>(sink)],
            "scatter_flow: a sink is the source or named twice, expected distinct vertices");
    is_sink[static_cast<std::size_t>(sink)] = true;
  }
  auto network = detail::to_flow_network(arcs, capacities, 1);
  int const behind = arcs.vertex_count;
  for (int const sink : sinks) network.add(sink, behind, 0);

  scatter_flow_result result;
  auto const consider = [&](std::vector<bool> const& inside) {
    std::int64_t leaving = 0;
    std::int64_t outside = 0;
    for (std::size_t e = 0; e < arcs.arcs.size(); ++e) {
      auto const& a = arcs.arcs[e];
      if (inside[static_cast<std::size_t>(a.tail)] && !inside[static_cast<std::size_t>(a.head)]) {
        leaving += static_cast<std::int64_t>(capacities[e]);
      }
    }
    for (int const sink : sinks) outside += inside[static_cast<std::size_t>(sink)] ? 0 : 1;
    rational const ratio(leaving, outside);
    if (result.rounds > 0 && ratio >= result.rate_per_sink) return false;
    result.rate_per_sink = ratio;
    result.cut = inside;
    return true;
  };
  std::vector<bool> side(n, false);
  side[static_cast<std::size_t>(source_vertex)] = true;
  consider(side);
  result.rounds = 1;
  std::fill(side.begin(), side.end(), true);
  for (int const sink : sinks) {
    side[static_cast<std::size_t>(sink)] = false;
    consider(side);
    side[static_cast<std::size_t>(sink)] = true;
  }

  for (;;) {
    // At the rate a/b, edges have b times their capacities and every sink takes a.
    auto const a = result.rate_per_sink.numerator();
    auto const b = result.rate_per_sink.denominator();
    auto const wanted = (rational(a) * sink_count).numerator();
    rational sum;
    for (int e = 0; e < edge_count; ++e) {
      auto const scaled =
          rational(static_cast<std::int64_t>(capacities[static_cast<std::size_t>(e)])) * b;
      sum += scaled;
      network.set_capacity(e, scaled.numerator());
    }
    if (sum + wanted > rational(detail::flow_network::unlimited / 2)) {
      throw overflow_error("scatter_flow: capacities times sinks exceed 62 bits, expected less");
    }
    for (int i = 0; i < static_cast<int>(sink_count); ++i) network.set_capacity(edge_count + i, a);
    if (network.run(source_vertex, behind, wanted) == wanted) {
      for (int e = 0; e < edge_count; ++e) result.flow.push_back(network.flow(e));
      result.per_sink = a;
      result.steps = b;
      return result;
    }
    for (std::size_t v = 0; v < n; ++v) side[v] = network.source_side(static_cast<int>(v));
    bool const smaller = consider(side);  // because the flow was too small
    expects(smaller, "scatter_flow: the cut of a smaller flow has no smaller ratio, expected one");
    ++result.rounds;
  }
}

}}  // namespace blink::BLINK_ABI
