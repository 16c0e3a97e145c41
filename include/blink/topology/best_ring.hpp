// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/rank_paths.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The cost of a ring over all ranks while each rank sends to the next one.
struct ring_cost {
  double bytes_per_second = 0;  ///< of each hop while all are busy; 0: a hop has no path
  double latency_seconds = 0;   ///< of all links of all hops
  std::size_t links = 0;        ///< of all hops
};

/// An order of the ranks for a library that runs one ring over them.
struct ring_order {
  std::vector<int> ranks;
  ring_cost cost{};
  ring_cost as_they_are{};  ///< of the ring 0, 1, 2, …

  /// The ratio of the rates. 0: the ring as it is has no path, or there is one rank.
  [[nodiscard]] double gain() const {
    return as_they_are.bytes_per_second > 0 ? cost.bytes_per_second / as_they_are.bytes_per_second
                                            : 0;
  }
};

/// The predicted seconds of an all-reduce along one ring of n ranks: 2 (n-1) steps, each of a part
/// 1/n of the buffer over one hop.
///
/// step_seconds: for each step, beside latencies and bytes
[[nodiscard]] inline double ring_all_reduce_seconds(ring_cost const& cost, std::size_t ranks,
                                                    double bytes, double step_seconds) {
  if (ranks < 2) return 0;
  double const steps = 2 * static_cast<double>(ranks - 1);
  double const lap = cost.latency_seconds + bytes / cost.bytes_per_second;
  return steps * (step_seconds + lap / static_cast<double>(ranks));
}

namespace detail {

/// Costs and orders of rings. Hops take the widest path through switches.
class ring_costs {
 public:
  ring_costs(topology const& machine, double bytes_per_unit)
      : machine_(machine),
        bytes_per_step_(bytes_per_unit / static_cast<double>(machine.steps_per_unit)),
        ranks_(machine.rank_positions()),
        links_(machine.nodes.size()),
        known_(ranks_.size()) {
    for (auto const& l : machine.links) {
      links_[static_cast<std::size_t>(l.tail)][l.head] += l.capacity;
      auto& latency = latency_[{l.tail, l.head}];
      latency = std::max(latency, l.latency_seconds);
    }
  }

  [[nodiscard]] std::size_t size() const { return ranks_.size(); }

  /// The cost of the ring in this order, whose hops share the links that they cross together.
  [[nodiscard]] ring_cost cost(std::vector<int> const& order) {
    ring_cost result;
    std::map<std::pair<int, int>, std::int64_t> uses;
    for (std::size_t i = 0; i < order.size(); ++i) {
      auto const path = hop(order[i], order[(i + 1) % order.size()]);
      if (path.empty()) return {};
      for (std::size_t k = 0; k + 1 < path.size(); ++k) {
        ++uses[{path[k], path[k + 1]}];
        result.latency_seconds += latency_.at({path[k], path[k + 1]});
        ++result.links;
      }
    }
    for (bool is_first = true; auto const& [ends, times] : uses) {
      auto const capacity = links_[static_cast<std::size_t>(ends.first)].at(ends.second);
      double const here =
          static_cast<double>(capacity) * bytes_per_step_ / static_cast<double>(times);
      if (is_first || here < result.bytes_per_second) result.bytes_per_second = here;
      is_first = false;
    }
    return result;
  }

  /// From each rank to the one that is left over the fewest links; among those over the widest
  /// path, then of the least latency, then of the least number. So hosts and clusters stay
  /// together.
  [[nodiscard]] std::vector<int> nearest_neighbours() {
    std::vector<int> order{0};
    std::vector<bool> is_taken(size(), false);
    is_taken[0] = true;
    while (order.size() < size()) {
      int const here = order.back();
      int next = -1;
      neighbour best;
      for (int b = 0; b < static_cast<int>(size()); ++b) {
        if (is_taken[static_cast<std::size_t>(b)]) continue;
        auto const other = neighbour_at(here, b);
        if (next >= 0 && !(other < best)) continue;
        next = b;
        best = other;
      }
      is_taken[static_cast<std::size_t>(next)] = true;
      order.push_back(next);
    }
    return order;
  }

  /// The ranks in the order in which a depth-first walk from rank 0 meets them. If the machine is a
  /// tree, the ring crosses each link once in each direction. Empty if not all were met.
  [[nodiscard]] std::vector<int> depth_first() const {
    std::map<int, int> rank_at;  // by position
    for (std::size_t r = 0; r < size(); ++r) rank_at[ranks_[r]] = static_cast<int>(r);
    std::vector<bool> is_met(links_.size(), false);
    std::vector<int> order, open{ranks_.front()};
    while (!open.empty()) {
      int const here = open.back();
      open.pop_back();
      if (is_met[static_cast<std::size_t>(here)]) continue;
      is_met[static_cast<std::size_t>(here)] = true;
      if (auto const found = rank_at.find(here); found != rank_at.end()) {
        order.push_back(found->second);
      }
      auto const& next = links_[static_cast<std::size_t>(here)];
      for (auto each = next.rbegin(); each != next.rend(); ++each) open.push_back(each->first);
    }
    return order.size() == size() ? order : std::vector<int>{};
  }

 private:
  struct neighbour {
    std::size_t links = 0;  ///< as many as possible: no path
    std::int64_t width = 0;
    double latency = 0;

    friend bool operator<(neighbour const& a, neighbour const& b) {
      return std::tuple(a.links, b.width, a.latency) < std::tuple(b.links, a.width, b.latency);
    }
  };
  [[nodiscard]] neighbour neighbour_at(int from, int to) {
    auto const path = hop(from, to);
    if (path.empty()) return {SIZE_MAX, 0, 0};
    neighbour result{path.size(), paths_from(from).width[at(to)], 0};
    for (std::size_t k = 0; k + 1 < path.size(); ++k) {
      result.latency += latency_.at({path[k], path[k + 1]});
    }
    return result;
  }

  [[nodiscard]] std::size_t at(int rank) const {
    return static_cast<std::size_t>(ranks_[static_cast<std::size_t>(rank)]);
  }
  /// Positions of the nodes from a rank to another one; empty: no path.
  [[nodiscard]] std::vector<int> hop(int from, int to) {
    auto const& paths = paths_from(from);
    if (paths.width[at(to)] == 0) return {};
    return paths.nodes_to(static_cast<int>(at(to)));
  }
  [[nodiscard]] widest_paths const& paths_from(int rank) {
    constexpr std::size_t most_known = 256;  // ranks; of more, only the last one asked for
    auto& known = known_[static_cast<std::size_t>(rank)];
    if (!known) {
      if (size() > most_known && last_ >= 0) known_[static_cast<std::size_t>(last_)].reset();
      known.emplace(machine_, links_, static_cast<int>(at(rank)));
      last_ = rank;
    }
    return *known;
  }

  topology const& machine_;
  double bytes_per_step_;
  std::vector<int> ranks_;                          // positions
  std::vector<std::map<int, std::int64_t>> links_;  // by tail: capacities by head
  std::map<std::pair<int, int>, double> latency_;   // by tail and head
  std::vector<std::optional<widest_paths>> known_;  // by rank
  int last_ = -1;                                   // rank whose paths were found last
};

}  // namespace detail

/// The cost of the ring over all ranks in this order. Where it crosses a link k times, each hop has
/// a k-th of the rate. Hops take the widest path through switches; on machines of `fit_machine`
/// there is no other one.
///
/// order:          each rank once, numbered in the order of `rank_positions`
/// bytes_per_unit: the bytes per second of one unit of capacity, 1e9 for GB/s
/// Time:   O(n L log N) for n ranks, N nodes and L links.
/// Throws: precondition_error unless the order has each rank once.
[[nodiscard]] inline ring_cost cost_of_ring(topology const& machine, std::vector<int> const& order,
                                            double bytes_per_unit = 1e9) {
  detail::ring_costs search(machine, bytes_per_unit);
  std::vector<int> sorted = order, all(search.size());
  std::ranges::sort(sorted);
  std::iota(all.begin(), all.end(), 0);
  expects(sorted == all,
          "cost_of_ring: an order of other ranks than the machine's, expected each of them once");
  return search.cost(order);
}

/// An order of the ranks whose ring is fast. One order goes from each rank to the nearest that is
/// left, so that hosts and clusters stay together. Another one is a depth-first walk of the
/// machine: on a tree of switches it crosses each link once in each direction, which is the least.
/// The faster one counts. Of at most 64 ranks, parts are then reversed and ranks exchanged as long
/// as that helps.
///
/// bytes_per_unit: the bytes per second of one unit of capacity, 1e9 for GB/s
/// Source: the order of ranks of Luo, West, Patel, Krishnamurthy and Ceze, "Cloud Collectives:
///         Towards Cloud-aware Collectives for ML Workloads with Rank Reordering", 2021; G. Croes,
///         "A method for solving traveling-salesman problems", Operations Research 6, 1958 (2-opt).
/// Time:   O(n L log N + n^2 N) for n ranks, N nodes and L links. For at most 64 ranks also O(n^3)
///         links for each of at most 100 rounds of exchanges.
/// Post:   the result is not slower than the ring 0, 1, 2, …
[[nodiscard]] inline ring_order best_ring(topology const& machine, double bytes_per_unit = 1e9) {
  detail::ring_costs search(machine, bytes_per_unit);
  auto const count = search.size();
  ring_order result;
  result.ranks.resize(count);
  std::iota(result.ranks.begin(), result.ranks.end(), 0);
  if (count < 2) return result;
  result.cost = result.as_they_are = search.cost(result.ranks);
  auto const consider = [&](std::vector<int> order) {
    auto const now = search.cost(order);
    auto const value = [](ring_cost const& c) {
      return std::tuple(-c.bytes_per_second, c.latency_seconds, c.links);
    };
    if (value(now) >= value(result.cost)) return false;
    result.cost = now;
    result.ranks = std::move(order);
    return true;
  };
  consider(search.nearest_neighbours());
  if (auto order = search.depth_first(); !order.empty()) consider(std::move(order));
  constexpr std::size_t most_ranks = 64;
  for (int round = 0; round < 100 && count <= most_ranks; ++round) {
    bool is_better = false;
    for (std::size_t i = 1; i + 1 < count; ++i) {
      for (std::size_t j = i + 1; j < count; ++j) {
        auto order = result.ranks;
        std::reverse(order.begin() + static_cast<std::ptrdiff_t>(i),
                     order.begin() + static_cast<std::ptrdiff_t>(j) + 1);
        is_better = consider(order) || is_better;
        order = result.ranks;
        std::swap(order[i], order[j]);
        is_better = consider(std::move(order)) || is_better;
      }
    }
    if (!is_better) break;
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
