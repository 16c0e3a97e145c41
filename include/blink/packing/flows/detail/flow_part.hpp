// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/packing/flows/detail/flow_problem.hpp>

#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The part of the graph that carries flow of a source. Vertex numbers leave out the source, whose
/// number is `size`.
struct flow_part {
  std::size_t size = 0;
  std::vector<std::size_t> edge;        ///< of the problem, in its order
  std::vector<std::size_t> tail, head;  ///< by edge of the part
  std::vector<double> demand;           ///< by vertex: 1 for a sink
  std::vector<double> flow;             ///< by edge of the part
};

/// Returns a flow over all edges of a part that brings 1 to each sink. Each edge has a path
/// through it, and the paths to a sink have equal shares.
///
/// into:   by vertex: the last edge of a path from the source to it
/// onward: by vertex: the first edge of a path from it to a sink; sinks have none
[[nodiscard]] inline std::vector<double> first_flow(flow_problem const& problem,
                                                    flow_part const& part, flow_source const& from,
                                                    std::vector<std::size_t> const& into,
                                                    std::vector<std::size_t> const& onward) {
  auto const& arcs = problem.graph.arcs;
  auto const n = into.size();
  auto const index = [](int v) { return static_cast<std::size_t>(v); };
  std::vector<bool> is_sink(n, false);
  for (int const sink : from.sinks) is_sink[index(sink)] = true;
  auto const sink_from = [&](std::size_t v) {
    while (!is_sink[v]) v = index(arcs[onward[v]].head);
    return v;
  };
  std::vector<double> paths(n, 1.0), result(problem.capacity.size(), 0.0);
  for (auto const e : part.edge) ++paths[sink_from(index(arcs[e].head))];
  auto const go_to = [&](std::size_t v, double amount) {
    while (v != index(from.vertex)) {
      result[into[v]] += amount;
      v = index(arcs[into[v]].tail);
    }
  };
  for (int const sink : from.sinks) go_to(index(sink), 1 / paths[index(sink)]);
  for (auto const e : part.edge) {
    auto v = index(arcs[e].head);
    double const amount = 1 / paths[sink_from(v)];
    go_to(index(arcs[e].tail), amount);
    result[e] += amount;
    for (; !is_sink[v]; v = index(arcs[onward[v]].head)) result[onward[v]] += amount;
  }
  std::vector<double> flow;
  for (auto const e : part.edge) flow.push_back(result[e]);
  return flow;
}

/// The part of the graph for a source, with a first flow.
///
/// Time: O(vertices * edges).
[[nodiscard]] inline flow_part flow_part_of(flow_problem const& problem, flow_source const& from) {
  auto const n = static_cast<std::size_t>(problem.graph.vertex_count);
  auto const& arcs = problem.graph.arcs;
  auto const index = [](int v) { return static_cast<std::size_t>(v); };
  // An edge counts if it lies on a path to a sink that does not return to the source. Edges of
  // two searches lead from the source to each vertex, and from there to a sink.
  constexpr auto none = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> into(n, none), onward(n, none);
  std::vector<bool> reached(n, false), leads(n, false);
  reached[index(from.vertex)] = true;
  for (int const sink : from.sinks) leads[index(sink)] = true;
  for (bool changed = true; changed;) {
    changed = false;
    auto const before = std::pair(reached, leads);
    for (std::size_t e = 0; e < arcs.size(); ++e) {
      auto const a = index(arcs[e].tail), b = index(arcs[e].head);
      if (b == index(from.vertex)) continue;
      if (before.first[a] && !reached[b]) {
        reached[b] = changed = true;
        into[b] = e;
      }
      if (before.second[b] && !leads[a]) {
        leads[a] = changed = true;
        onward[a] = e;
      }
    }
  }
  flow_part part;
  std::vector<std::size_t> number(n, none);
  for (std::size_t v = 0; v < n; ++v) {
    if (v != index(from.vertex) && reached[v] && leads[v]) number[v] = part.size++;
  }
  number[index(from.vertex)] = part.size;
  for (std::size_t e = 0; e < arcs.size(); ++e) {
    auto const a = number[index(arcs[e].tail)], b = number[index(arcs[e].head)];
    if (a == none || b == none || b == part.size) continue;
    part.edge.push_back(e);
    part.tail.push_back(a);
    part.head.push_back(b);
  }
  part.demand.assign(part.size, 0.0);
  for (int const sink : from.sinks) part.demand[number[index(sink)]] = 1;
  part.flow = first_flow(problem, part, from, into, onward);
  return part;
}

}}}  // namespace blink::BLINK_ABI::detail
