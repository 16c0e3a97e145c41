// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/work_budget.hpp>
#include <blink/graph/concepts.hpp>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Disjoint sets of 0 … n-1, with path halving.
///
/// Source: R. Tarjan and J. van Leeuwen, "Worst-case analysis of set union algorithms", J. ACM 31,
///         1984.
class disjoint_sets {
 public:
  explicit disjoint_sets(int n) : parent_(static_cast<std::size_t>(n)) { reset(); }

  void reset() { std::iota(parent_.begin(), parent_.end(), 0); }
  [[nodiscard]] int find(int v) {
    while (parent_[at(v)] != v) {
      parent_[at(v)] = parent_[at(parent_[at(v)])];
      v = parent_[at(v)];
    }
    return v;
  }
  /// Joins the sets of `a` and `b`. Returns true if they were separate.
  bool join(int a, int b) {
    a = find(a);
    b = find(b);
    if (a == b) return false;
    parent_[at(std::max(a, b))] = std::min(a, b);
    return true;
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  std::vector<int> parent_;
};

/// The search behind `min_spanning_tree` for one graph, with costs that change. Only the first call
/// of `solve` allocates memory.
template <class Cost>
class spanning_tree_search {
 public:
  /// Throws: precondition_error if there is no vertex; planning_error if the graph is disconnected.
  explicit spanning_tree_search(arc_list const& graph)
      : n_(graph.vertex_count), sets_(graph.vertex_count) {
    expects(n_ > 0, "min_spanning_tree: the graph has no vertex, expected at least one");
    for (std::size_t i = 0; i < graph.arcs.size(); ++i) {
      auto const [tail, head] = graph.arcs[i];
      if (tail == head) continue;
      sets_.join(tail, head);
      order_.push_back({Cost{}, tail, head, static_cast<int>(i)});
    }
    for (int v = 1; v < n_; ++v) {
      if (sets_.find(v) == sets_.find(0)) continue;
      throw planning_error("min_spanning_tree: vertex " + std::to_string(v) +
                           " has no path to vertex 0, expected a connected graph");
    }
  }

  /// Returns a cheapest spanning tree, cheapest edge first. The span is valid until the next call.
  template <class Costs>
  std::span<int const> solve(Costs const& costs) {
    budget_scope::poll();
    for (auto& edge : order_) edge.cost = costs[static_cast<std::size_t>(edge.name)];
    std::ranges::sort(order_, [](auto const& a, auto const& b) {
      if (a.cost < b.cost) return true;
      if (b.cost < a.cost) return false;
      return a.name < b.name;
    });
    sets_.reset();
    edges_.clear();
    for (auto const& edge : order_) {
      if (static_cast<int>(edges_.size()) == n_ - 1) break;
      if (sets_.join(edge.tail, edge.head)) edges_.push_back(edge.name);
    }
    return edges_;
  }

 private:
  struct priced_edge {
    Cost cost;
    int tail;
    int head;
    int name;  ///< position in the graph
  };
  int n_;
  disjoint_sets sets_;
  std::vector<priced_edge> order_;
  std::vector<int> edges_;
};

}}}  // namespace blink::BLINK_ABI::detail
