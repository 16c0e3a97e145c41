// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/work_budget.hpp>
#include <blink/graph/concepts.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Finds cheapest paths from one vertex to all (Dijkstra 1959). Among equally cheap paths it takes
/// those with fewer steps. After construction it may run many times; a run allocates no memory.
template <class Cost>
class route_search {
 public:
  /// steps:  by edge, positive, with sums that fit 64 bits; empty: 1 each
  /// closed: by vertex: true where paths may only begin or end; empty: nowhere
  explicit route_search(arc_list const& graph, std::vector<std::int64_t> steps = {},
                        std::vector<bool> closed = {})
      : graph_(graph), steps_(std::move(steps)), closed_(std::move(closed)) {
    auto const n = static_cast<std::size_t>(graph.vertex_count);
    if (steps_.empty()) steps_.assign(graph.arcs.size(), 1);
    first_.assign(n + 1, 0);
    for (auto const& a : graph.arcs) ++first_[at(a.tail) + 1];
    for (std::size_t v = 0; v < n; ++v) first_[v + 1] += first_[v];
    out_.resize(graph.arcs.size());
    auto place = first_;
    for (std::size_t e = 0; e < graph.arcs.size(); ++e) {
      out_[at(place[at(graph.arcs[e].tail)]++)] = static_cast<int>(e);
    }
    cost_.resize(n);
    length_.resize(n);
    into_.resize(n);
    state_.resize(n);
  }

  /// Searches from `source`.
  ///
  /// costs:  by edge, not negative
  /// target: vertex at which the search ends; -1: reach all vertices
  void run(int source, std::span<Cost const> costs, int target = -1) {
    budget_scope::poll();
    std::fill(state_.begin(), state_.end(), unseen);
    order_.clear();
    heap_.clear();
    reach(source, Cost{}, 0, -1);
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>{});
      auto const top = heap_.back();
      heap_.pop_back();
      auto const v = at(top.vertex);
      if (state_[v] == settled) continue;
      state_[v] = settled;
      order_.push_back(top.vertex);
      if (top.vertex == target) return;
      if (!closed_.empty() && closed_[v] && top.vertex != source) continue;
      for (int i = first_[v]; i < first_[v + 1]; ++i) {
        int const e = out_[at(i)];
        reach(graph_.arcs[at(e)].head, top.cost + costs[at(e)], top.length + steps_[at(e)], e);
      }
    }
  }

  [[nodiscard]] bool is_reached(int vertex) const { return state_[at(vertex)] == settled; }
  [[nodiscard]] Cost cost(int vertex) const { return cost_[at(vertex)]; }
  [[nodiscard]] std::int64_t length(int vertex) const { return length_[at(vertex)]; }
  /// The last edge of the path to a vertex; -1 for the source.
  [[nodiscard]] int edge_into(int vertex) const { return into_[at(vertex)]; }
  /// The vertices reached, nearest first.
  [[nodiscard]] std::span<int const> order() const { return order_; }

 private:
  enum state : std::uint8_t { unseen, seen, settled };
  struct entry {
    Cost cost;
    std::int64_t length;
    int vertex;
    friend auto operator<=>(entry const&, entry const&) = default;
    friend bool operator==(entry const&, entry const&) = default;  // nvcc warns without
  };
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  void reach(int vertex, Cost cost, std::int64_t length, int edge) {
    auto const v = at(vertex);
    bool const worse =
        state_[v] == settled ||
        (state_[v] == seen && (cost > cost_[v] || (cost == cost_[v] && length >= length_[v])));
    if (worse) return;
    state_[v] = seen;
    cost_[v] = cost;
    length_[v] = length;
    into_[v] = edge;
    heap_.push_back({cost, length, vertex});
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>{});
  }

  arc_list const& graph_;
  std::vector<std::int64_t> steps_;
  std::vector<bool> closed_;
  std::vector<int> first_, out_;  // edges by tail
  std::vector<Cost> cost_;
  std::vector<std::int64_t> length_;
  std::vector<int> into_, order_;
  std::vector<state> state_;
  std::vector<entry> heap_;
};

}}}  // namespace blink::BLINK_ABI::detail
