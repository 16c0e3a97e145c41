// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/detail/route.hpp>
#include <blink/planning/plan/detail/routed_forest.hpp>
#include <blink/planning/plan/detail/servers.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A directed cycle through all ranks: edge i leads from the i-th rank to the next one.
struct routed_ring {
  std::vector<tree_edge> edges;
  rational rate;
};

/// Finds rings on machines whose ranks are joined by routes.
///
/// A ring passes through one server after the other. It enters a server at one rank and leaves it
/// at another. Each ring prefers links that the rings before it left free, which gives one ring for
/// each NIC. This is a heuristic: every step takes the route whose fullest link is emptiest.
class ring_finder {
 public:
  explicit ring_finder(topology const& machine) : servers_(servers_of(machine)), route_(machine) {}

  /// The largest useful number of rings: one for each rank of the smallest server, within a limit.
  [[nodiscard]] std::size_t most_rings() const {
    constexpr std::size_t enough = 16;  // the channels that ring libraries use at most on a machine
    std::size_t result = enough;
    for (auto const& s : servers_) result = std::min(result, s.ids.size());
    return result;
  }

  /// Finds one more ring. Its rate is not set.
  /// Throws: planning_error if the ranks are not connected.
  [[nodiscard]] routed_ring next() {
    auto const order = servers_.size() == 1 ? order_inside() : order_through();
    routed_ring result;
    for (std::size_t i = 0; i < order.size(); ++i) {
      int const from = order[i];
      int const to = order[(i + 1) % order.size()];
      auto edge = route_.find(from, to, false);
      result.edges.push_back(edge ? *std::move(edge) : route_(from, to));
      if (edge) route_.take(result.edges.back());
    }
    ++found_;
    return result;
  }

 private:
  /// The use of a route's fullest link if the route were added, then the route's number of links.
  struct price {
    rational busy;
    std::size_t hops = 0;
    friend auto operator<=>(price const&, price const&) = default;
    friend bool operator==(price const&, price const&) = default;  // nvcc warns without
  };
  [[nodiscard]] std::optional<price> price_of(int from, int to, bool through_ranks) const {
    auto const edge = route_.find(from, to, through_ranks);
    if (!edge) return std::nullopt;
    price result{rational(0), edge->path.size() - 1};
    for (std::size_t i = 0; i + 1 < edge->path.size(); ++i) {
      int const a = edge->path[i];
      int const b = edge->path[i + 1];
      result.busy = std::max(result.busy, rational(route_.uses(a, b) + 1) / route_.capacity(a, b));
    }
    return result;
  }

  /// The prices of routes between the ranks of a server; nothing where there is no route.
  using price_table = std::vector<std::vector<std::optional<price>>>;
  [[nodiscard]] price_table prices(std::vector<int> const& ids, bool through_ranks) const {
    price_table result(ids.size(), std::vector<std::optional<price>>(ids.size()));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      for (std::size_t j = 0; j < ids.size(); ++j) {
        if (i != j) result[i][j] = price_of(ids[i], ids[j], through_ranks);
      }
    }
    return result;
  }

  /// A path over all ranks of a server from `entry` to `exit` (positions), cheapest hops first;
  /// nothing if the search used up `steps`.
  [[nodiscard]] std::optional<std::vector<std::size_t>> walk(price_table const& table,
                                                             std::size_t entry, std::size_t exit,
                                                             std::size_t& steps) const {
    auto const n = table.size();
    if (n == 1) return std::vector<std::size_t>{entry};
    std::vector<std::size_t> path{entry};
    std::vector<bool> used(n, false);
    used[entry] = used[exit] = true;
    auto const extend = [&](auto const& self) -> bool {
      if (path.size() + 1 == n) {
        if (!table[path.back()][exit]) return false;
        path.push_back(exit);
        return true;
      }
      if (steps == 0) return false;
      --steps;
      std::vector<std::tuple<price, std::size_t>> choices;
      for (std::size_t away = 1; away < n; ++away) {
        auto const to = (path.back() + away) % n;
        auto const& step = table[path.back()][to];
        if (!used[to] && step) choices.emplace_back(*step, away);
      }
      std::sort(choices.begin(), choices.end());
      for (auto const& choice : choices) {
        auto const to = (path.back() + std::get<1>(choice)) % n;
        used[to] = true;
        path.push_back(to);
        if (self(self)) return true;
        path.pop_back();
        used[to] = false;
      }
      return false;
    };
    if (!extend(extend)) return std::nullopt;
    return path;
  }
  static constexpr std::size_t most_steps = 2'000;

  /// The ranks of a server from `entry` to `exit` (ids), without forwarding ranks if such an order
  /// is found.
  [[nodiscard]] std::vector<int> inside(std::vector<int> const& ids, int entry, int exit) const {
    auto const at = [&](int id) {
      return static_cast<std::size_t>(std::find(ids.begin(), ids.end(), id) - ids.begin());
    };
    std::vector<int> result;
    for (bool const through_ranks : {false, true}) {
      auto steps = most_steps;
      auto const path = walk(prices(ids, through_ranks), at(entry), at(exit), steps);
      if (!path) continue;
      for (auto const i : *path) result.push_back(ids[i]);
      return result;
    }
    // Not connected: any order will do, because the search for routes fails later.
    result = ids;
    return result;
  }

  /// An order of one server's ranks that makes a cheap cycle.
  [[nodiscard]] std::vector<int> order_inside() const {
    auto const ids = rotated_to(servers_.front().ids, found_);
    for (bool const through_ranks : {false, true}) {
      auto const table = prices(ids, through_ranks);
      std::vector<std::pair<price, std::size_t>> exits;
      for (std::size_t i = 1; i < ids.size(); ++i) {
        if (table[i][0]) exits.emplace_back(*table[i][0], ids.size() - i);
      }
      std::sort(exits.begin(), exits.end());
      auto steps = most_steps;
      for (auto const& [cost, back] : exits) {
        auto const path = walk(table, 0, ids.size() - back, steps);
        if (!path) continue;
        std::vector<int> result;
        for (auto const i : *path) result.push_back(ids[i]);
        return result;
      }
    }
    return ids;
  }

  /// An order through all servers in turn.
  [[nodiscard]] std::vector<int> order_through() {
    struct leaders {
      int entry = -1;
      int exit = -1;
    };
    auto const count = servers_.size();
    std::vector<leaders> leader(count);
    std::vector<tree_edge> taken;
    for (std::size_t b = 0; b < count; ++b) {
      auto const next = (b + 1) % count;
      std::optional<std::tuple<price, std::size_t, std::size_t>> best;
      auto const& here = servers_[b].ids;
      auto const& there = servers_[next].ids;
      for (std::size_t x = 0; x < here.size(); ++x) {
        int const exit = round_robin(here, x + found_);
        if (here.size() > 1 && exit == leader[b].entry) continue;
        for (std::size_t y = 0; y < there.size(); ++y) {
          int const entry = round_robin(there, y + found_);
          if (there.size() > 1 && entry == leader[next].exit) continue;
          auto const cost = price_of(exit, entry, true);
          if (cost && (!best || std::tuple(*cost, x, y) < *best)) best.emplace(*cost, x, y);
        }
      }
      if (!best) {
        throw planning_error("no route leads from server " + std::to_string(servers_[b].server) +
                             " to server " + std::to_string(servers_[next].server));
      }
      leader[b].exit = round_robin(here, std::get<1>(*best) + found_);
      leader[next].entry = round_robin(there, std::get<2>(*best) + found_);
      if (auto edge = route_.find(leader[b].exit, leader[next].entry, true)) {
        route_.take(*edge);  // seen by the next choice
        taken.push_back(*std::move(edge));
      }
    }
    for (auto const& edge : taken) route_.take(edge, -1);
    std::vector<int> order;
    for (std::size_t b = 0; b < count; ++b) {
      auto const part = inside(servers_[b].ids, leader[b].entry, leader[b].exit);
      order.insert(order.end(), part.begin(), part.end());
    }
    return order;
  }

  std::vector<server> servers_;
  router route_;
  std::size_t found_ = 0;
};

/// Sets the fair rates of rings and returns their sum.
inline rational set_fair_rates(std::vector<routed_ring>& rings, router const& route) {
  group_loads load;
  for (std::size_t i = 0; i < rings.size(); ++i) {
    for (auto const& edge : rings[i].edges) add_load(load, edge, static_cast<int>(i), 1);
  }
  rational sum;
  for (auto const& [i, rate] : fair_paces(load, route)) {
    rings[static_cast<std::size_t>(i)].rate = rate;
    sum += rate;
  }
  return sum;
}

/// Returns as many rings as make the sum of their rates largest.
[[nodiscard]] inline std::vector<routed_ring> routed_rings(topology const& machine) {
  ring_finder finder(machine);
  router const plain(machine);
  std::vector<routed_ring> found;
  std::vector<routed_ring> best;
  rational best_sum;
  for (auto left = finder.most_rings(); left > 0; --left) {
    found.push_back(finder.next());
    auto const sum = set_fair_rates(found, plain);
    if (sum > best_sum) best = found;
    best_sum = std::max(best_sum, sum);
  }
  return best;
}

}}}  // namespace blink::BLINK_ABI::detail
