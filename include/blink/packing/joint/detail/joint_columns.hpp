// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/detail/arborescence_search.hpp>
#include <blink/graph/detail/spanning_tree_search.hpp>
#include <blink/packing/joint/detail/joint_assembly.hpp>
#include <blink/packing/joint/detail/joint_program.hpp>
#include <blink/packing/lp/simplex.hpp>
#include <blink/packing/trees/tree_oracle.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

// Pairs of trees as columns of a packing program, found by price.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// An in-tree and an out-tree of a `joint_problem`, as edges over routes. A mirrored problem's pair is
/// its out-tree, undirected, and itself turned round.
struct column_pair {
  int root = -1;  ///< -1: any
  path_list in;   ///< paths of vertices
  path_list out;
};

/// Finds cheapest pairs by prices of the resources, where trees span the ranks alone, and keeps what
/// each found column stands for.
///
/// Mirrored: a cheapest spanning tree over the routes between ranks, without looking at all routes.
/// Else cheapest arborescences both ways over the cheapest routes; what a root's pair cost when it
/// was last looked at bounds what it costs now, since prices only rise, so that few roots are.
///
/// Source: K. Mehlhorn, "A faster approximation algorithm for the Steiner problem in graphs",
///         Information Processing Letters 27, 1988 (which routes between terminals are enough); J.
///         Edmonds, "Optimum branchings", 1967; L. Fleischer, "Approximating fractional
///         multicommodity flow independent of the number of commodities", SIAM J. Discrete Math. 13,
///         2000 (pairs that are nearly cheapest will do).
/// Time:   a call takes O(E log E) if mirrored; else O(V E) for each root that it looks at, and
///         O(N E log E) for routes if there are switches.
class joint_columns {
 public:
  /// Pre: no switch of the problem copies or reduces; every rank reaches every other.
  explicit joint_columns(joint_problem const& problem)
      : problem_(problem),
        leaving_(problem.is_switch.size()),
        number_(problem.is_switch.size(), -1) {
    for (std::size_t e = 0; e < problem.graph.arcs.size(); ++e) {
      leaving_[static_cast<std::size_t>(problem.graph.arcs[e].tail)].push_back(e);
    }
    for (std::size_t v = 0; v < number_.size(); ++v) {
      if (problem.is_switch[v]) continue;
      number_[v] = static_cast<int>(ranks_.size());
      ranks_.push_back(static_cast<int>(v));
    }
  }

  /// The resources of a pair that is cheapest, up to the tolerance, each as often as the pair uses it;
  /// readable until the next call.
  /// Pre: no price fell since the last call, but for all of them by one factor.
  std::span<int const> operator()(std::span<double const> prices) {
    packing_column column;
    auto pair =
        problem_.reversed ? undirected_tree(prices, column) : nearly_cheapest(prices, column);
    std::ranges::sort(column);
    auto const at = known_.emplace(std::move(column), std::move(pair)).first;
    return at->first;
  }

  /// Forgets what prices were, so that the next ones may be lower.
  void restart() {
    std::ranges::fill(cost_before_, 0.0);
    sum_before_ = 0;
  }

  /// What every pair costs at least, by the prices of the last call.
  [[nodiscard]] double least_cost() const { return least_cost_; }

  [[nodiscard]] column_pair const& pair_of(packing_column const& column) const {
    return known_.at(column);
  }

 private:
  static constexpr std::size_t no_edge = static_cast<std::size_t>(-1);
  static constexpr double tolerance = 0.003;  ///< on the cost of the cheapest pair

  struct ways {
    std::vector<double> distance;      ///< by vertex
    std::vector<int> source;           ///< nearest
    std::vector<std::size_t> entered;  ///< edge on the way from it
  };

  [[nodiscard]] std::size_t resource_of(std::size_t edge) const {
    return static_cast<std::size_t>(problem_.resource[edge]);
  }

  /// Cheapest ways from the nearest of some ranks to everywhere, not through other ranks (Dijkstra
  /// 1959).
  [[nodiscard]] ways ways_from(std::span<int const> sources, std::span<double const> prices) const {
    auto const vertices = problem_.is_switch.size();
    ways result{std::vector<double>(vertices, std::numeric_limits<double>::infinity()),
                std::vector<int>(vertices, -1), std::vector<std::size_t>(vertices, no_edge)};
    using entry = std::tuple<double, int, int>;  // price, links, vertex
    std::priority_queue<entry, std::vector<entry>, std::greater<>> open;
    for (int const s : sources) {
      result.distance[static_cast<std::size_t>(s)] = 0;
      result.source[static_cast<std::size_t>(s)] = s;
      open.emplace(0, 0, s);
    }
    while (!open.empty()) {
      auto const [price, links, at] = open.top();
      open.pop();
      auto const v = static_cast<std::size_t>(at);
      if (price > result.distance[v] || (!problem_.is_switch[v] && result.source[v] != at))
        continue;
      for (auto const e : leaving_[v]) {
        auto const head = static_cast<std::size_t>(problem_.graph.arcs[e].head);
        auto const through = price + prices[resource_of(e)];
        if (through >= result.distance[head]) continue;
        result.distance[head] = through;
        result.source[head] = result.source[v];
        result.entered[head] = e;
        open.emplace(through, links + 1, static_cast<int>(head));
      }
    }
    return result;
  }

  /// The way to a vertex, and the resources on it.
  std::vector<int> way_to(ways const& found, int vertex, packing_column& column) const {
    std::vector<int> path{vertex};
    for (auto e = found.entered[static_cast<std::size_t>(vertex)]; e != no_edge;
         e = found.entered[static_cast<std::size_t>(path.back())]) {
      column.push_back(problem_.resource[e]);
      path.push_back(problem_.graph.arcs[e].tail);
    }
    std::ranges::reverse(path);
    return path;
  }

  column_pair undirected_tree(std::span<double const> prices, packing_column& column) {
    auto const found = ways_from(std::span<int const>(ranks_), prices);
    // Only routes over one edge between the surroundings of two ranks can be in a cheapest tree.
    std::vector<std::pair<double, std::size_t>> between;
    for (std::size_t e = 0; e < problem_.graph.arcs.size(); ++e) {
      auto const tail = static_cast<std::size_t>(problem_.graph.arcs[e].tail);
      auto const head = static_cast<std::size_t>(problem_.graph.arcs[e].head);
      if (found.source[tail] == found.source[head] || tail > head) continue;
      between.emplace_back(found.distance[tail] + prices[resource_of(e)] + found.distance[head], e);
    }
    std::sort(between.begin(), between.end());
    disjoint_sets joined(static_cast<int>(problem_.is_switch.size()));
    column_pair pair;
    least_cost_ = 0;
    for (auto const& [cost, e] : between) {
      auto const [tail, head] = problem_.graph.arcs[e];
      if (!joined.join(found.source[static_cast<std::size_t>(tail)],
                       found.source[static_cast<std::size_t>(head)])) {
        continue;
      }
      least_cost_ += cost;
      column.push_back(problem_.resource[e]);
      auto path = way_to(found, tail, column);
      auto const rest = way_to(found, head, column);
      path.insert(path.end(), rest.rbegin(), rest.rend());
      pair.out.push_back(std::move(path));
    }
    return pair;
  }

  /// Looks at roots, the one that may be cheapest first, until one is as cheap as any may be.
  column_pair nearly_cheapest(std::span<double const> prices, packing_column& column) {
    find_routes(prices);
    double const sum = std::accumulate(prices.begin(), prices.end(), 0.0);
    if (sum < sum_before_) std::ranges::fill(cost_before_, 0.0);  // prices were scaled down
    sum_before_ = sum;
    std::vector<int> in, out;
    std::size_t best = 0;
    for (double cost = std::numeric_limits<double>::infinity();;) {
      std::size_t next = 0;
      for (std::size_t i = 1; i < cost_before_.size(); ++i) {
        if (cost_before_[i] < cost_before_[next]) next = i;
      }
      least_cost_ = cost_before_[next];
      if (cost <= (1 + tolerance) * least_cost_) break;
      auto in_now = in_search_[next].solve(route_cost_);
      auto out_now = out_search_[next].solve(route_cost_);
      double cost_now = 0;
      for (auto const edges : {in_now, out_now}) {
        for (int const e : edges) cost_now += route_cost_[static_cast<std::size_t>(e)];
      }
      cost_before_[next] = cost_now;
      if (cost_now >= cost) continue;
      cost = cost_now;
      best = next;
      in.assign(in_now.begin(), in_now.end());
      out.assign(out_now.begin(), out_now.end());
    }
    column_pair pair{problem_.roots[best], {}, {}};
    for (auto& [edges, paths] : {std::pair(&in, &pair.in), std::pair(&out, &pair.out)}) {
      for (int const e : *edges) {
        auto const [tail, head] = routes_.arcs[static_cast<std::size_t>(e)];
        paths->push_back(way_to(ways_[static_cast<std::size_t>(tail)],
                                ranks_[static_cast<std::size_t>(head)], column));
      }
    }
    return pair;
  }

  /// Prices the routes between ranks, which are the same in every call: who reaches whom does not
  /// change.
  void find_routes(std::span<double const> prices) {
    ways_.clear();
    bool const is_first = routes_.arcs.empty();
    route_cost_.clear();
    for (std::size_t from = 0; from < ranks_.size(); ++from) {
      ways_.push_back(ways_from(std::span<int const>(&ranks_[from], 1), prices));
      for (std::size_t to = 0; to < ranks_.size(); ++to) {
        auto const distance = ways_.back().distance[static_cast<std::size_t>(ranks_[to])];
        if (to == from || distance == std::numeric_limits<double>::infinity()) continue;
        if (is_first) routes_.arcs.push_back({static_cast<int>(from), static_cast<int>(to)});
        route_cost_.push_back(distance);
      }
    }
    if (!is_first) return;
    routes_.vertex_count = static_cast<int>(ranks_.size());
    auto turned = routes_;
    for (auto& a : turned.arcs) std::swap(a.tail, a.head);
    for (int const root : problem_.roots) {
      int const number = number_[static_cast<std::size_t>(root)];
      in_search_.emplace_back(turned, number);
      out_search_.emplace_back(routes_, number);
    }
    cost_before_.assign(problem_.roots.size(), 0.0);
  }

  joint_problem const& problem_;
  std::vector<std::vector<std::size_t>> leaving_;  // edges by vertex
  std::vector<int> ranks_;                         // vertices
  std::vector<int> number_;                        // of a rank, by vertex
  std::map<packing_column, column_pair> known_;
  double least_cost_ = 0;
  // not mirrored
  arc_list routes_;                                                  // between numbers of ranks
  std::vector<double> route_cost_;                                   // by route
  std::vector<ways> ways_;                                           // by number of a rank
  std::vector<arborescence_search<double>> in_search_, out_search_;  // by position in the roots
  std::vector<double> cost_before_;  // what pairs cost at least, by position in the roots
  double sum_before_ = 0;            // of the prices
};
static_assert(tree_oracle<joint_columns>);

}}}  // namespace blink::BLINK_ABI::detail
