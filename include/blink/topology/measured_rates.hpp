// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/detail/machine_builder.hpp>
#include <blink/topology/rank_paths.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

// What was measured between ranks, the machine that fits it, and where a description is wrong.

namespace blink { inline namespace BLINK_ABI {

/// Rates between ranks in bytes per second, as `probe` measures them. 0: not measured.
struct measured_rates {
  std::vector<int> host_of;                   ///< by rank: the number of its host, from 0
  std::vector<std::vector<double>> alone;     ///< by sender and receiver: nothing else moves
  std::vector<std::vector<double>> start_up;  ///< seconds of a small message, by the same
  /// By rank: while each rank of its host sends to the next one. 0 for hosts of one rank.
  std::vector<double> together;
  /// By hosts: while each rank of one sends to a rank of the other.
  std::vector<std::vector<double>> between;
  std::vector<double> out;  ///< by host: while each of its ranks sends to ranks of other hosts
  std::vector<double> in;   ///< by host: while ranks of other hosts send to each of its ranks

  [[nodiscard]] std::size_t ranks() const { return host_of.size(); }
  [[nodiscard]] std::size_t hosts() const { return out.size(); }
};

/// A link of a described machine that is slower than described.
struct slow_link {
  int from = 0, to = 0;  ///< ids of nodes
  double described = 0;  ///< bytes per second
  double measured = 0;   ///< the best that passed
};

namespace detail {

/// The largest ratio of positive numbers to each other.
inline double spread_of(std::vector<double> const& numbers) {
  double least = 0, most = 0;
  for (double const each : numbers) {
    if (each <= 0) continue;
    least = least == 0 ? each : std::min(least, each);
    most = std::max(most, each);
  }
  return least == 0 ? 1 : most / least;
}

/// The machine that fits rates: see `fit_machine`.
class machine_fitter {
 public:
  explicit machine_fitter(measured_rates const& rates) : rates_(rates) {}

  [[nodiscard]] topology fit() {
    for (std::size_t r = 0; r < rates_.ranks(); ++r) {
      machine_.add_node(node_kind::rank, "rank" + std::to_string(r), rates_.host_of[r]);
    }
    for (std::size_t host = 0; host < rates_.hosts(); ++host) join_host(static_cast<int>(host));
    if (rates_.hosts() > 1) join_hosts();
    return machine_.build("probe");
  }

 private:
  // Rates in steps of 1 MB/s. Finer ones say nothing, and plans would have more trees.
  static rational rate(double bytes_per_second) {
    auto const steps = std::max<std::int64_t>(1, std::llround(bytes_per_second / 1e6));
    return rational(steps, 1000);
  }

  [[nodiscard]] std::vector<int> ranks_of(int host) const {
    std::vector<int> result;
    for (std::size_t r = 0; r < rates_.ranks(); ++r) {
      if (rates_.host_of[r] == host) result.push_back(static_cast<int>(r));
    }
    return result;
  }
  [[nodiscard]] double alone(int from, int to) const {
    return rates_.alone[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
  }

  /// Ranks whose pairs are about equally fast meet at one switch. Others have a link for each pair,
  /// behind a port that carries what a rank moves while all do.
  void join_host(int host) {
    auto const ranks = ranks_of(host);
    top_.push_back(ranks.front());
    if (ranks.size() == 1) return;
    std::vector<double> pairs;
    for (int const a : ranks) {
      for (int const b : ranks) {
        if (a != b) pairs.push_back(alone(a, b));
      }
    }
    bool const is_even = spread_of(pairs) <= most_spread;
    if (is_even || rates_.hosts() > 1) {
      top_.back() =
          machine_.add_node(node_kind::switch_node, "memory" + std::to_string(host), host);
    }
    std::vector<int> ports;
    for (int const a : ranks) {
      double fastest = 0;
      for (int const b : ranks) fastest = std::max({fastest, alone(a, b), alone(b, a)});
      auto const together = rates_.together[static_cast<std::size_t>(a)];
      int port = top_.back();
      if (!is_even) {
        port = machine_.add_node(node_kind::switch_node, "port" + std::to_string(a), host);
        // Pairs of the host have links of their own; this way leads to the NIC.
        auto const h = static_cast<std::size_t>(host);
        if (rates_.hosts() > 1) {
          machine_.add_link(port, top_.back(), rate(rates_.out[h]), link_kind::memory);
          machine_.add_link(top_.back(), port, rate(rates_.in[h]), link_kind::memory);
        }
      }
      machine_.add_both_ways(a, port, rate(together > 0 ? together : fastest), link_kind::memory);
      ports.push_back(port);
    }
    if (is_even) return;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      for (std::size_t j = 0; j < ranks.size(); ++j) {
        if (i == j || alone(ranks[i], ranks[j]) <= 0) continue;
        machine_.add_link(ports[i], ports[j], rate(alone(ranks[i], ranks[j])), link_kind::memory);
      }
    }
  }

  void join_hosts() {
    std::vector<int> nics;
    for (std::size_t host = 0; host < rates_.hosts(); ++host) {
      int const nic = machine_.add_node(node_kind::switch_node, "nic" + std::to_string(host),
                                        static_cast<int>(host));
      machine_.add_link(top_[host], nic, rate(rates_.out[host]), link_kind::network);
      machine_.add_link(nic, top_[host], rate(rates_.in[host]), link_kind::network);
      nics.push_back(nic);
    }
    if (ports_explain_all()) {
      int const network = machine_.add_node(node_kind::switch_node, "network", -1);
      for (std::size_t host = 0; host < nics.size(); ++host) {
        machine_.add_link(nics[host], network, rate(rates_.out[host]), link_kind::network);
        machine_.add_link(network, nics[host], rate(rates_.in[host]), link_kind::network);
      }
      return;
    }
    for (std::size_t a = 0; a < nics.size(); ++a) {
      for (std::size_t b = 0; b < nics.size(); ++b) {
        auto const here = rates_.between[a][b];
        if (a != b && here > 0) machine_.add_link(nics[a], nics[b], rate(here), link_kind::network);
      }
    }
  }

  /// True if each two hosts reach about what their ports allow.
  [[nodiscard]] bool ports_explain_all() const {
    for (std::size_t a = 0; a < rates_.hosts(); ++a) {
      for (std::size_t b = 0; b < rates_.hosts(); ++b) {
        auto const here = rates_.between[a][b];
        if (a == b || here <= 0) continue;
        if (here * most_spread < std::min(rates_.out[a], rates_.in[b])) return false;
      }
    }
    return true;
  }

  static constexpr double most_spread = 1.25;
  measured_rates const& rates_;
  machine_builder machine_;
  std::vector<int> top_;  ///< by host: its switch, or its only rank
};

}  // namespace detail

/// The machine that fits what was measured. Its ranks are those measured, in their order.
///
/// Ranks of a host meet at a switch, with the rates at which they move data while all of them do.
/// Each host has a NIC with its rates out and in. Hosts meet at one switch if their ports explain
/// the rates of each two of them; else each two have a link.
///
/// Pre:    `together` or `alone` of each rank of a host of several, and `out` and `in` of each of
///         several hosts, are measured.
/// Post:   `validate` accepts the result. Rates are multiples of 1 MB/s.
[[nodiscard]] inline topology fit_machine(measured_rates const& rates) {
  expects(rates.ranks() > 0 && rates.hosts() > 0,
          "fit_machine: no rank was measured, expected one or more");
  return detail::machine_fitter(rates).fit();
}

/// The links of a described machine that are slower than described, by more than `tolerance`.
///
/// A link counts as slow if it is the narrowest of every measured pair's path over it
/// (`paths_between_ranks`), and no pair alone reached its rate. Parallel links count together.
///
/// bytes_per_unit: the bytes per second of one unit of capacity, 1e9 for GB/s
/// Pre:    the machine's ranks are those of `rates`, in their order
/// Time:   as `paths_between_ranks`.
/// Throws: precondition_error for another number of ranks.
[[nodiscard]] inline std::vector<slow_link> slow_links(topology const& machine,
                                                       measured_rates const& rates,
                                                       double bytes_per_unit,
                                                       double tolerance = 0.2) {
  auto const paths = paths_between_ranks(machine);
  expects(paths.size() == rates.ranks(),
          "slow_links: the machine has other ranks than those measured, expected the same");
  using ends = std::pair<int, int>;  // positions
  std::map<ends, double> described;  // bytes per second
  for (auto const& l : machine.links) {
    described[{l.tail, l.head}] += machine.in_units(l.capacity).to_double() * bytes_per_unit;
  }
  struct passed {
    double most = 0;           // bytes per second
    bool is_narrowest = true;  // of all paths over it
  };
  std::map<ends, passed> links;
  for (std::size_t a = 0; a < paths.size(); ++a) {
    for (std::size_t b = 0; b < paths.size(); ++b) {
      if (!paths[a][b] || rates.alone[a][b] <= 0) continue;
      auto const& path = *paths[a][b];
      auto const narrowest = machine.in_units(path.capacity).to_double() * bytes_per_unit;
      for (std::size_t k = 0; k + 1 < path.nodes.size(); ++k) {
        ends const hop{path.nodes[k], path.nodes[k + 1]};
        auto& here = links[hop];
        here.most = std::max(here.most, rates.alone[a][b]);
        here.is_narrowest = here.is_narrowest && described[hop] <= narrowest * (1 + tolerance);
      }
    }
  }
  std::vector<slow_link> result;
  for (auto const& [hop, here] : links) {
    if (!here.is_narrowest || here.most >= (1 - tolerance) * described[hop]) continue;
    auto const id = [&](int node) { return machine.nodes[static_cast<std::size_t>(node)].id; };
    result.push_back({id(hop.first), id(hop.second), described[hop], here.most});
  }
  return result;
}

/// An order of the ranks for a library that runs one ring over them.
struct ring_order {
  std::vector<int> ranks;
  double slowest = 0;              ///< bytes per second of its slowest hop
  double slowest_as_they_are = 0;  ///< of the ring 0, 1, 2, …
};

/// An order of the ranks whose slowest hop in a ring is fast: from each rank to the fastest that is
/// left, then exchanged as long as that helps.
///
/// Source: the order of ranks of Luo, West, Patel, Krishnamurthy and Ceze, "Cloud Collectives:
///         Towards Cloud-aware Collectives for ML Workloads with Rank Reordering", 2021.
/// Time:   O(n^3) for n ranks, at most 100 rounds of exchanges.
[[nodiscard]] inline ring_order best_ring(measured_rates const& rates) {
  auto const count = rates.ranks();
  auto const hop = [&](int a, int b) {
    return rates.alone[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)];
  };
  // The slowest hop counts, then the sum of times.
  auto const quality = [&](std::vector<int> const& order) {
    double slowest = 0, time = 0;
    for (std::size_t i = 0; i < count; ++i) {
      double const here = hop(order[i], order[(i + 1) % count]);
      slowest = i == 0 ? here : std::min(slowest, here);
      time += here > 0 ? 1 / here : 1;
    }
    return std::pair(slowest, -time);
  };
  ring_order result;
  result.ranks.resize(count);
  std::iota(result.ranks.begin(), result.ranks.end(), 0);
  if (count < 2) return result;
  auto best = quality(result.ranks);
  result.slowest_as_they_are = best.first;
  auto const consider = [&](std::vector<int> order) {
    auto const now = quality(order);
    if (now <= best) return false;
    best = now;
    result.ranks = std::move(order);
    return true;
  };
  std::vector<int> greedy{0};
  std::vector<bool> is_taken(count, false);
  is_taken[0] = true;
  while (greedy.size() < count) {
    int next = -1;
    for (int b = 0; b < static_cast<int>(count); ++b) {
      if (is_taken[static_cast<std::size_t>(b)]) continue;
      if (next < 0 || hop(greedy.back(), b) > hop(greedy.back(), next)) next = b;
    }
    is_taken[static_cast<std::size_t>(next)] = true;
    greedy.push_back(next);
  }
  consider(greedy);
  constexpr std::size_t most_ranks = 64;  // of more, only the first order
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
  result.slowest = best.first;
  return result;
}

}}  // namespace blink::BLINK_ABI
