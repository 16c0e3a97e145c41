// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/detail/arborescence_search.hpp>
#include <blink/packing/joint/detail/joint_problem.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <set>
#include <utility>
#include <vector>

// Cheapest pairs of trees by prices of the edges.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The cost of a cheapest tree, and the switches that it spans.
struct priced_tree {
  std::int64_t cost = 0;
  std::vector<int> switches;
};

/// Cheapest trees of one direction for all roots. They span the ranks of a problem and any of the
/// switches that can be spanned. Their routes lead through all other vertices.
class priced_trees {
 public:
  /// Pre: at most 10 switches can be spanned.
  priced_trees(joint_problem const& problem, bool inward)
      : is_switch_(problem.is_switch),
        graph_(problem.graph),
        optional_(inward ? problem.reducing : problem.copying) {
    expects(optional_.size() <= 10,
            "priced_trees: more than 10 switches can be spanned, expected at most 10");
    if (inward) {
      for (auto& a : graph_.arcs) std::swap(a.tail, a.head);
    }
    leaving_.resize(is_switch_.size());
    for (std::size_t e = 0; e < graph_.arcs.size(); ++e) {
      leaving_[static_cast<std::size_t>(graph_.arcs[e].tail)].push_back(static_cast<int>(e));
    }
  }

  /// Returns cheapest trees by position in `roots`. Pre: every rank reaches every other.
  [[nodiscard]] std::vector<priced_tree> cheapest(std::vector<std::int64_t> const& price,
                                                  std::vector<int> const& roots) const {
    std::vector<priced_tree> result(roots.size(), {unreachable, {}});
    for (std::size_t chosen = 0; chosen < std::size_t{1} << optional_.size(); ++chosen) {
      std::vector<int> number(is_switch_.size(), -1);  // of the spanned vertices
      std::vector<int> switches;
      int count = 0;
      for (std::size_t v = 0; v < is_switch_.size(); ++v) {
        if (!is_switch_[v]) number[v] = count++;
      }
      for (std::size_t i = 0; i < optional_.size(); ++i) {
        if ((chosen >> i & 1U) == 0) continue;
        number[static_cast<std::size_t>(optional_[i])] = count++;
        switches.push_back(optional_[i]);
      }
      std::ranges::sort(switches);
      auto const [routes, cost] = cheapest_routes(number, count, price);
      for (std::size_t i = 0; i < roots.size(); ++i) {
        int const root = number[static_cast<std::size_t>(roots[i])];
        if (!switches.empty() && !reaches_all(routes, root)) continue;
        arborescence_search<std::int64_t> search(routes, root);
        std::int64_t sum = 0;
        for (int const e : search.solve(cost)) sum += cost[static_cast<std::size_t>(e)];
        if (sum < result[i].cost) result[i] = {sum, switches};
      }
    }
    return result;
  }

  static constexpr std::int64_t unreachable = std::numeric_limits<std::int64_t>::max() / 4;

 private:
  /// Finds cheapest routes between spanned vertices, by their numbers (Dijkstra 1959).
  std::pair<arc_list, std::vector<std::int64_t>> cheapest_routes(
      std::vector<int> const& number, int count, std::vector<std::int64_t> const& price) const {
    arc_list routes{count, {}};
    std::vector<std::int64_t> cost;
    std::vector<std::int64_t> distance(is_switch_.size());
    using entry = std::pair<std::int64_t, int>;
    for (std::size_t from = 0; from < is_switch_.size(); ++from) {
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
      for (std::size_t to = 0; to < is_switch_.size(); ++to) {
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

  std::vector<bool> const& is_switch_;
  arc_list graph_;  // trees lead away from their roots
  std::vector<int> const& optional_;
  std::vector<std::vector<int>> leaving_;  // edges by tail
};

/// The cost of the cheapest pair, and the layers of all pairs cheaper than a limit.
struct priced_pair {
  std::int64_t cost = priced_trees::unreachable;
  std::set<tree_layer> layers;
};

/// Finds the cheapest pair and the layers of the pairs that cost less than `enough`.
///
/// price: by resource
/// Pre:   no price is negative; the prices sum to less than 2^60 over any tree.
[[nodiscard]] inline priced_pair cheapest_pair(joint_problem const& problem,
                                               std::vector<std::int64_t> const& price,
                                               std::int64_t enough) {
  std::vector<std::int64_t> by_edge;
  for (int const r : problem.resource) by_edge.push_back(price[static_cast<std::size_t>(r)]);
  auto const out = priced_trees(problem, false).cheapest(by_edge, problem.roots);
  // In a symmetric problem, the in-trees are the reversed out-trees.
  auto const in = problem.is_symmetric
                      ? std::vector<priced_tree>(out.size())
                      : priced_trees(problem, true).cheapest(by_edge, problem.roots);
  priced_pair result;
  for (std::size_t i = 0; i < out.size(); ++i) {
    auto const cost = in[i].cost + out[i].cost;
    result.cost = std::min(result.cost, cost);
    if (cost >= enough) continue;
    if (!problem.is_symmetric) result.layers.insert({true, in[i].switches});
    result.layers.insert({false, out[i].switches});
  }
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
