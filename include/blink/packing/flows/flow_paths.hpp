// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/graph/concepts.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A path from the source of a flow to one of its sinks, with the amount that flows over it.
struct flow_path {
  int sink = 0;
  std::int64_t amount = 0;
  std::vector<int> edges;  ///< positions in `edges(graph)`, from the source to the sink
};

namespace detail {

/// Finds paths in the remainder of a flow. A search starts at the sink: the ways into a vertex lead
/// to the source, while most ways out of the source lead to other sinks.
class flow_decomposer {
 public:
  flow_decomposer(arc_list const& graph, std::vector<std::int64_t> flow)
      : graph_(graph),
        flow_(std::move(flow)),
        in_(static_cast<std::size_t>(graph.vertex_count)),
        onto_(in_.size(), -1),
        width_(in_.size()) {
    for (std::size_t e = 0; e < graph.arcs.size(); ++e) {
      if (flow_[e] > 0) in_[at(graph.arcs[e].head)].push_back(static_cast<int>(e));
    }
  }

  /// Removes a path from the flow: the one with the fewest edges that carries `wanted`, or else the
  /// widest. The amount is 0 if no path is left.
  flow_path take(int source, int sink, std::int64_t wanted) {
    if (!search(source, sink, wanted)) {
      auto const widest = widest_path(source, sink);
      if (widest == 0) return {sink, 0, {}};
      search(source, sink, std::min(widest, wanted));
      wanted = std::min(widest, wanted);
    }
    flow_path result{sink, wanted, {}};
    for (int v = source; v != sink;) {
      int const e = onto_[at(v)];
      result.edges.push_back(e);
      flow_[at(e)] -= wanted;
      v = graph_.arcs[at(e)].head;
    }
    return result;
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  /// Searches breadth first over edges that carry at least `least`.
  bool search(int source, int sink, std::int64_t least) {
    for (int const v : queue_) onto_[at(v)] = -1;
    onto_[at(source)] = -1;
    queue_.assign(1, sink);
    for (std::size_t next = 0; next < queue_.size(); ++next) {
      for (int const e : in_[at(queue_[next])]) {
        int const tail = graph_.arcs[at(e)].tail;
        if (flow_[at(e)] < least || tail == sink || onto_[at(tail)] >= 0) continue;
        onto_[at(tail)] = e;
        if (tail == source) return true;
        queue_.push_back(tail);
      }
    }
    return false;
  }

  /// The largest width of a path, found by visiting the widest vertex next. The width is the least
  /// flow of its edges.
  std::int64_t widest_path(int source, int sink) {
    std::fill(width_.begin(), width_.end(), 0);
    width_[at(sink)] = std::numeric_limits<std::int64_t>::max();
    heap_.assign(1, {width_[at(sink)], sink});
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end());
      auto const [width, here] = heap_.back();
      heap_.pop_back();
      if (here == source) return width;
      if (width < width_[at(here)]) continue;  // visited before
      for (int const e : in_[at(here)]) {
        int const tail = graph_.arcs[at(e)].tail;
        auto const through = std::min(width, flow_[at(e)]);
        if (through <= width_[at(tail)]) continue;
        width_[at(tail)] = through;
        heap_.emplace_back(through, tail);
        std::push_heap(heap_.begin(), heap_.end());
      }
    }
    return 0;
  }

  arc_list const& graph_;
  std::vector<std::int64_t> flow_;
  std::vector<std::vector<int>> in_;  // by vertex: edges into it with flow
  std::vector<int> onto_;             // by vertex: the edge through which it reaches the sink
  std::vector<std::int64_t> width_;
  std::vector<std::pair<std::int64_t, int>> heap_;  // (width, vertex)
  std::vector<int> queue_;
};

}  // namespace detail

/// Decomposes a flow from one source into few, short paths to its sinks. Each sink gets the
/// shortest path that carries all of its demand, or else the widest that is left. Cycles in the
/// flow are dropped.
///
/// flow:   by edge
/// demand: by vertex: the flow into it less the flow out of it; the source's entry is ignored
/// Time:   O(paths * (V + F log V)); F: the edges with flow that lead to the path's sink.
/// Space:  O(V + E + lengths of the paths).
/// Pre:    at each vertex but the source, flow in less flow out is the demand; no flow or demand is
///         negative.
/// Post:   the amounts of each sink sum to its demand, those over each edge to at most its flow; at
///         most E + sinks paths; no path visits a vertex twice.
/// Throws: precondition_error if a precondition does not hold.
template <directed_edge_list Graph>
[[nodiscard]] std::vector<flow_path> flow_paths(Graph const& graph, int source_vertex,
                                                std::vector<std::int64_t> const& flow,
                                                std::vector<std::int64_t> const& demand) {
  arc_list const arcs = to_arc_list(graph);
  expects(0 <= source_vertex && source_vertex < arcs.vertex_count,
          "flow_paths: the source is not a vertex, expected one of the graph");
  expects(flow.size() == arcs.arcs.size(),
          "flow_paths: the flows do not match the edges, expected one for each edge");
  expects(demand.size() == static_cast<std::size_t>(arcs.vertex_count),
          "flow_paths: the demands do not match the vertices, expected one for each vertex");
  auto stays = demand;
  for (std::size_t e = 0; e < flow.size(); ++e) {
    expects(flow[e] >= 0, "flow_paths: a flow is negative, expected at least 0");
    stays[static_cast<std::size_t>(arcs.arcs[e].tail)] += flow[e];
    stays[static_cast<std::size_t>(arcs.arcs[e].head)] -= flow[e];
  }
  detail::flow_decomposer decomposer(arcs, flow);
  std::vector<flow_path> result;
  for (int sink = 0; sink < arcs.vertex_count; ++sink) {
    if (sink == source_vertex) continue;
    auto wanted = demand[static_cast<std::size_t>(sink)];
    expects(
        wanted >= 0 && stays[static_cast<std::size_t>(sink)] == 0,
        "flow_paths: the flow into a vertex differs, expected its demand plus the flow out of it");
    while (wanted > 0) {
      result.push_back(decomposer.take(source_vertex, sink, wanted));
      expects(result.back().amount > 0,
              "flow_paths: the flow does not reach a sink, expected paths from the source");
      wanted -= result.back().amount;
    }
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
