// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/symmetries.hpp>
#include <blink/packing/lp/simplex.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The links of a graph in orbits. Symmetries map the links of an orbit to each other.
struct link_orbits {
  std::vector<std::map<int, int>> next;  ///< by tail, then head: the orbit
  std::vector<std::int64_t> capacity;    ///< by orbit: sum over its links

  template <class Capacities>
  link_orbits(arc_list const& graph, Capacities const& capacities, symmetries const& turns)
      : next(static_cast<std::size_t>(graph.vertex_count)) {
    capacity_rows const rows(graph, capacities);
    for (int u = 0; u < graph.vertex_count; ++u) {
      for (auto const& [v, amount] : rows.out(u)) {
        if (next[static_cast<std::size_t>(u)].contains(v)) continue;
        auto const orbit = static_cast<int>(capacity.size());
        capacity.push_back(0);
        for (auto const& image : turns.image) {
          auto& heads = next[static_cast<std::size_t>(image[static_cast<std::size_t>(u)])];
          if (heads.emplace(image[static_cast<std::size_t>(v)], orbit).second) {
            if (amount > (std::int64_t{1} << 61) - capacity.back()) {
              throw overflow_error(
                  "pack_symmetric_trees: the capacities sum to more than 61 bits, expected at most "
                  "61");
            }
            capacity.back() += amount;
          }
        }
      }
    }
  }
};

/// Cheapest trees from the first rank, by prices of the orbits.
///
/// The machine is the same from every rank. So the cost of a route depends on the symmetry between
/// its ends, not on its start. It is therefore cheapest to continue over the cheapest route, from
/// any reached rank. Among equals, the ranks nearest to the root are preferred.
class symmetric_oracle {
 public:
  /// lowest: true for only those trees in which every rank is as near to the root as possible
  symmetric_oracle(link_orbits const& orbits, std::vector<int> const& ranks,
                   symmetries const& turns, bool lowest)
      : orbits_(orbits), ranks_(ranks), turns_(turns), number_(orbits.next.size(), -1) {
    auto const n = ranks.size();
    for (std::size_t i = 0; i < n; ++i)
      number_[static_cast<std::size_t>(ranks[i])] = static_cast<int>(i);
    turn_.resize(n * n);
    for (std::size_t u = 0; u < n; ++u) {
      for (std::size_t k = 0; k < n; ++k) {
        auto const v = static_cast<std::size_t>(
            number_[static_cast<std::size_t>(turns.image[u][static_cast<std::size_t>(ranks[k])])]);
        turn_[u * n + v] = static_cast<int>(k);
      }
    }
    if (lowest) measure_distances();
  }

  void operator()(std::span<double const> prices, std::vector<packing_column>& columns) {
    columns.push_back(cheapest<double>(prices));
  }
  void operator()(std::span<std::int64_t const> prices, std::vector<packing_column>& columns) {
    columns.push_back(cheapest<std::int64_t>(prices));
  }

  /// The paths of the tree of a column.
  [[nodiscard]] std::vector<std::vector<int>> tree_of(packing_column const& column) const {
    return trees_.at(column);
  }

 private:
  struct route {
    std::vector<int> path;    // vertices
    std::vector<int> orbits;  // of its links
  };

  /// Finds cheapest routes over switches from the first rank to all others; among equals, those
  /// with the fewest links. Returns costs by rank number.
  template <class Price>
  std::vector<std::optional<Price>> find_routes(std::span<Price const> prices) {
    auto const vertices = orbits_.next.size();
    struct label {
      Price cost{};
      int hops = -1;
      int before = -1;
      int orbit = -1;
    };
    std::vector<label> best(vertices);
    std::vector<bool> done(vertices, false);
    using entry = std::tuple<Price, int, int>;  // (cost, hops, vertex)
    std::priority_queue<entry, std::vector<entry>, std::greater<>> open;
    best[static_cast<std::size_t>(ranks_[0])].hops = 0;
    open.emplace(Price{}, 0, ranks_[0]);
    while (!open.empty()) {
      auto const [cost, hops, at] = open.top();
      open.pop();
      auto const v = static_cast<std::size_t>(at);
      if (done[v]) continue;
      done[v] = true;
      if (number_[v] > 0) continue;  // ranks do not forward on a route
      for (auto const& [head, orbit] : orbits_.next[v]) {
        auto& to = best[static_cast<std::size_t>(head)];
        auto const through = cost + prices[static_cast<std::size_t>(orbit)];
        if (to.hops >= 0 && std::tuple(to.cost, to.hops) <= std::tuple(through, hops + 1)) continue;
        to = {through, hops + 1, at, orbit};
        open.emplace(through, hops + 1, head);
      }
    }
    std::vector<std::optional<Price>> costs(ranks_.size());
    routes_.assign(ranks_.size(), {});
    for (std::size_t k = 1; k < ranks_.size(); ++k) {
      auto const end = static_cast<std::size_t>(ranks_[k]);
      if (best[end].hops < 0) continue;
      costs[k] = best[end].cost;
      auto& r = routes_[k];
      for (auto at = ranks_[k]; at >= 0; at = best[static_cast<std::size_t>(at)].before) {
        r.path.push_back(at);
        auto const orbit = best[static_cast<std::size_t>(at)].orbit;
        if (orbit >= 0) r.orbits.push_back(orbit);
      }
      std::reverse(r.path.begin(), r.path.end());
    }
    return costs;
  }

  /// Computes by rank number the number of routes between it and the first rank.
  void measure_distances() {
    std::vector<double> const free(orbits_.capacity.size(), 0.0);
    auto const costs = find_routes<double>(free);
    distance_.assign(ranks_.size(), -1);
    distance_[0] = 0;
    std::vector<std::size_t> order{0};
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (std::size_t v = 0; v < ranks_.size(); ++v) {
        if (distance_[v] >= 0 || !costs[turn(order[i], v)]) continue;
        distance_[v] = distance_[order[i]] + 1;
        order.push_back(v);
      }
    }
  }

  [[nodiscard]] std::size_t turn(std::size_t from, std::size_t to) const {
    return static_cast<std::size_t>(turn_[from * ranks_.size() + to]);
  }

  template <class Price>
  packing_column cheapest(std::span<Price const> prices) {
    auto const n = ranks_.size();
    auto const costs = find_routes<Price>(prices);
    struct entrance {
      Price cost{};
      int depth = -1;  // of the vertex
      std::size_t from = 0;
    };
    std::vector<entrance> best(n);
    std::vector<bool> reached(n, false);
    packing_column column;
    std::vector<std::vector<int>> paths;
    std::size_t at = 0;
    int depth = 0;
    for (std::size_t left = n - 1;; --left) {
      reached[at] = true;
      if (left == 0) break;
      std::size_t next = n;
      for (std::size_t v = 0; v < n; ++v) {
        if (reached[v]) continue;
        auto const& cost = costs[turn(at, v)];
        bool const allowed = distance_.empty() || distance_[v] == distance_[at] + 1;
        if (cost && allowed &&
            (best[v].depth < 0 ||
             std::tuple(*cost, depth + 1) < std::tuple(best[v].cost, best[v].depth))) {
          best[v] = {*cost, depth + 1, at};
        }
        if (best[v].depth < 0) continue;
        if (next == n || precedes(best[v], v, best[next], next)) next = v;
      }
      if (next == n) {
        throw planning_error(
            "pack_symmetric_trees: a rank cannot send to another, expected routes between all "
            "ranks");
      }
      auto const from = best[next].from;
      auto const& r = routes_[turn(from, next)];
      column.insert(column.end(), r.orbits.begin(), r.orbits.end());
      paths.emplace_back();
      for (int const v : r.path)
        paths.back().push_back(turns_.image[from][static_cast<std::size_t>(v)]);
      at = next;
      depth = best[next].depth;
    }
    std::sort(column.begin(), column.end());
    trees_.emplace(column, std::move(paths));
    return column;
  }

  /// Orders vertices level by level for the lowest trees, otherwise by cost.
  template <class Entrance>
  [[nodiscard]] bool precedes(Entrance const& a, std::size_t v, Entrance const& b,
                              std::size_t w) const {
    if (!distance_.empty() && distance_[v] != distance_[w]) return distance_[v] < distance_[w];
    return std::tuple(a.cost, a.depth) < std::tuple(b.cost, b.depth);
  }

  link_orbits const& orbits_;
  std::vector<int> const& ranks_;
  symmetries const& turns_;
  std::vector<int> number_;    // by vertex: rank number, -1 for switches
  std::vector<int> turn_;      // rows: from; columns: to; the number of the rank that symmetry
                               // `from` maps to `to`
  std::vector<int> distance_;  // by rank number, in routes; empty: any tree is allowed
  std::vector<route> routes_;  // by rank number: route from the first rank
  std::map<packing_column, std::vector<std::vector<int>>> trees_;
};
static_assert(pricing_oracle<symmetric_oracle>);

}}}  // namespace blink::BLINK_ABI::detail

namespace blink { inline namespace BLINK_ABI {

/// A tree from the first rank. It represents its images, one at every rank.
struct symmetric_tree {
  rational weight;                      ///< of each image, in the unit of the capacities
  std::vector<std::vector<int>> paths;  ///< from parent to child, each after the one above it
};

/// Packs out-trees that are symmetric over the ranks, equally many at each, at the highest rate.
/// Switches forward.
///
/// Under all symmetries, a tree loads every link of an orbit equally. So the rows of the program
/// are the few orbits of links, and one tree represents one tree from each rank. The time hardly
/// depends on the number of ranks. No optimum is lost, because the average of an optimal packing
/// over all symmetries is such a packing. Trees of the least height are tried first.
///
/// ranks:  as for `find_symmetries`
/// turns:  from `find_symmetries`
/// wanted: the rate of a root that is known to be possible, from `all_gather_rate`
/// Source: symmetry in linear programs: R. Bödi, K. Herr, M. Joswig, "Algorithms for highly
///         symmetric linear and integer programs", Math. Programming 137, 2013. The pricing, by
///         growing over the cheapest edge, gives cheapest trees on a graph that is the same from
///         every vertex (Prim 1957).
/// Time:   O(N^2 + E log V) for each call of the oracle; a few dozen calls.
/// Post:   the weights sum to `wanted`; with all images the loads are within the capacities.
///         Nothing if the program did not end at that rate.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] std::optional<std::vector<symmetric_tree>> pack_symmetric_trees(
    Graph const& graph, Capacities const& capacities, std::vector<int> const& ranks,
    symmetries const& turns, rational const& wanted) {
  detail::link_orbits const orbits(to_arc_list(graph), capacities, turns);
  auto const n = static_cast<std::int64_t>(ranks.size());
  for (bool const lowest : {true, false}) {
    detail::symmetric_oracle oracle(orbits, ranks, turns, lowest);
    auto const solution = simplex(orbits.capacity, oracle, {});
    if (solution.stopped_because != simplex_stop::optimal || solution.rate != wanted * n) continue;
    std::vector<symmetric_tree> result;
    for (auto const& column : solution.columns) {
      result.push_back({column.weight / n, oracle.tree_of(column.rows)});
    }
    return result;
  }
  return std::nullopt;
}

}}  // namespace blink::BLINK_ABI
