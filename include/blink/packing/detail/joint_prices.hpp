// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/detail/arborescence_search.hpp>
#include <blink/packing/detail/joint_program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

// Cheapest pairs of trees by prices of the edges.

namespace blink::inline BLINK_ABI::detail {

/// Cheapest trees of one direction that span the `span` vertices of a problem, over routes through
/// all other vertices; where trees may branch without having to, any set of these vertices may be
/// spanned, too.
class priced_trees {
 public:
  /// Pre: at most 16 vertices to `branch` at.
  priced_trees(joint_problem const& problem, bool inward)
      : parts_(inward ? problem.in : problem.out), graph_(problem.graph) {
    if (inward) {
      for (auto& a : graph_.arcs) std::swap(a.tail, a.head);
    }
    leaving_.resize(parts_.size());
    for (std::size_t e = 0; e < graph_.arcs.size(); ++e) {
      if (graph_.arcs[e].tail == graph_.arcs[e].head) continue;
      leaving_[static_cast<std::size_t>(graph_.arcs[e].tail)].push_back(static_cast<int>(e));
    }
    for (std::size_t v = 0; v < parts_.size(); ++v) {
      if (parts_[v] == tree_part::branch) optional_.push_back(static_cast<int>(v));
    }
    expects(optional_.size() <= 16, "priced_trees: too many vertices to branch at");
  }

  /// By position in `roots`: what a cheapest tree costs.
  [[nodiscard]] std::vector<std::int64_t> costs(std::vector<std::int64_t> const& price,
                                                std::vector<int> const& roots) const {
    std::vector<std::int64_t> result(roots.size(), unreachable);
    for (std::size_t chosen = 0; chosen < std::size_t{1} << optional_.size(); ++chosen) {
      std::vector<int> number(parts_.size(), -1);  // of the spanned vertices
      int count = 0;
      for (std::size_t v = 0; v < parts_.size(); ++v) {
        if (parts_[v] == tree_part::span) number[v] = count++;
      }
      for (std::size_t i = 0; i < optional_.size(); ++i) {
        if ((chosen >> i & 1U) != 0) number[static_cast<std::size_t>(optional_[i])] = count++;
      }
      auto const [routes, cost] = cheapest_routes(number, count, price);
      for (std::size_t i = 0; i < roots.size(); ++i) {
        int const root = number[static_cast<std::size_t>(roots[i])];
        if (!reaches_all(routes, root)) continue;
        arborescence_search<std::int64_t> search(routes, root);
        std::int64_t sum = 0;
        for (int const e : search.solve(cost)) sum += cost[static_cast<std::size_t>(e)];
        result[i] = std::min(result[i], sum);
      }
    }
    return result;
  }

  static constexpr std::int64_t unreachable = std::numeric_limits<std::int64_t>::max() / 4;

 private:
  /// Between spanned vertices, by their numbers (Dijkstra 1959).
  std::pair<arc_list, std::vector<std::int64_t>> cheapest_routes(
      std::vector<int> const& number, int count, std::vector<std::int64_t> const& price) const {
    arc_list routes{count, {}};
    std::vector<std::int64_t> cost;
    std::vector<std::int64_t> distance(parts_.size());
    using entry = std::pair<std::int64_t, int>;
    for (std::size_t from = 0; from < parts_.size(); ++from) {
      if (number[from] < 0) continue;
      std::ranges::fill(distance, unreachable);
      std::priority_queue<entry, std::vector<entry>, std::greater<>> queue;
      distance[from] = 0;
      queue.push({0, static_cast<int>(from)});
      while (!queue.empty()) {
        auto const [so_far, at] = queue.top();
        queue.pop();
        auto const v = static_cast<std::size_t>(at);
        if (so_far > distance[v] || (v != from && number[v] >= 0)) continue;
        for (int const e : leaving_[v]) {
          auto const head = static_cast<std::size_t>(graph_.arcs[static_cast<std::size_t>(e)].head);
          auto const through = so_far + price[static_cast<std::size_t>(e)];
          if (through >= distance[head]) continue;
          distance[head] = through;
          queue.push({through, static_cast<int>(head)});
        }
      }
      for (std::size_t to = 0; to < parts_.size(); ++to) {
        if (number[to] < 0 || to == from || distance[to] == unreachable) continue;
        routes.arcs.push_back({number[from], number[to]});
        cost.push_back(distance[to]);
      }
    }
    return {routes, cost};
  }

  static bool reaches_all(arc_list const& routes, int root) {
    std::vector<bool> reached(static_cast<std::size_t>(routes.vertex_count), false);
    std::vector<int> stack{root};
    reached[static_cast<std::size_t>(root)] = true;
    std::vector<std::vector<int>> heads(reached.size());
    for (auto const& a : routes.arcs) heads[static_cast<std::size_t>(a.tail)].push_back(a.head);
    while (!stack.empty()) {
      auto const at = static_cast<std::size_t>(stack.back());
      stack.pop_back();
      for (int const head : heads[at]) {
        if (reached[static_cast<std::size_t>(head)]) continue;
        reached[static_cast<std::size_t>(head)] = true;
        stack.push_back(head);
      }
    }
    return std::ranges::find(reached, false) == reached.end();
  }

  std::vector<tree_part> const& parts_;
  arc_list graph_;  // trees lead away from their roots
  std::vector<std::vector<int>> leaving_;
  std::vector<int> optional_;
};

/// What a cheapest pair costs when a resource costs `price`.
/// Pre: no price is negative; the prices sum to less than 2^60 over any tree.
[[nodiscard]] inline std::int64_t cheapest_pair(joint_problem const& problem,
                                                std::vector<std::int64_t> const& price) {
  std::vector<std::int64_t> by_edge;
  for (int const r : problem.resource) by_edge.push_back(price[static_cast<std::size_t>(r)]);
  auto const in = priced_trees(problem, true).costs(by_edge, problem.roots);
  auto const out = priced_trees(problem, false).costs(by_edge, problem.roots);
  std::int64_t least = priced_trees::unreachable;
  for (std::size_t i = 0; i < in.size(); ++i) least = std::min(least, in[i] + out[i]);
  return least;
}

}  // namespace blink::inline BLINK_ABI::detail
