// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/host_clusters.hpp>
#include <blink/topology/rank_paths.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

// Rates measured between ranks, and where a description is wrong. `fit_machine.hpp` makes a machine
// of them, `best_ring.hpp` an order of the ranks.

namespace blink { inline namespace BLINK_ABI {

/// Rates between ranks in bytes per second, as `probe` measures them. 0: not measured.
struct measured_rates {
  std::vector<int> host_of;                   ///< by rank: the number of its host, from 0
  std::vector<std::vector<double>> alone;     ///< by sender and receiver: nothing else moves
  std::vector<std::vector<double>> start_up;  ///< seconds from a small message to its answer
  /// By rank: while each rank of its host sends to the next one. 0 for hosts of one rank.
  std::vector<double> together;
  /// By hosts: while each rank of one sends to a rank of the other.
  host_table between;
  /// By hosts: the same, while all other hosts also exchange data in pairs.
  host_table loaded{};
  std::vector<double> out;  ///< by host: while each of its ranks sends to ranks of other hosts
  std::vector<double> in;   ///< by host: while ranks of other hosts send to each of its ranks
  std::vector<int> cluster_of{};      ///< by host: the number of its cluster, from 0; empty: one
  std::vector<double> cluster_out{};  ///< by cluster: while its hosts send to other clusters
  std::vector<double> cluster_in{};   ///< by cluster: while hosts of other clusters send to it
  host_table cluster_between{};       ///< by clusters: while hosts of one send to the other

  [[nodiscard]] std::size_t ranks() const { return host_of.size(); }
  [[nodiscard]] std::size_t hosts() const { return out.size(); }
  [[nodiscard]] std::size_t clusters() const {
    auto const last = std::ranges::max_element(cluster_of);
    return last == cluster_of.end() ? 1 : static_cast<std::size_t>(*last) + 1;
  }
  [[nodiscard]] int cluster(std::size_t host) const {
    return cluster_of.empty() ? 0 : cluster_of[host];
  }
  /// By cluster: the numbers of its hosts.
  [[nodiscard]] std::vector<std::vector<std::size_t>> hosts_of_clusters() const {
    return detail::members_of(cluster_of.empty() ? std::vector<int>(hosts(), 0) : cluster_of);
  }
  friend bool operator==(measured_rates const&, measured_rates const&) = default;
};

/// The start-up seconds of two hosts: the least of their ranks'. 0: not measured.
///
/// Time: O(n^2) for n ranks.
[[nodiscard]] inline host_table start_up_of_hosts(measured_rates const& rates) {
  host_table result(rates.hosts(), std::vector<double>(rates.hosts(), 0));
  for (std::size_t a = 0; a < rates.ranks(); ++a) {
    for (std::size_t b = 0; b < rates.ranks(); ++b) {
      auto const here = rates.start_up[a][b];
      if (rates.host_of[a] == rates.host_of[b] || here <= 0) continue;
      auto& least = result[static_cast<std::size_t>(rates.host_of[a])]
                          [static_cast<std::size_t>(rates.host_of[b])];
      least = least == 0 ? here : std::min(least, here);
    }
  }
  return result;
}

/// The start-up seconds that all messages have: those of ranks of one host, else of hosts of one
/// cluster, else of all. 0 if none was measured.
///
/// Time: O(n^2) for n ranks.
[[nodiscard]] inline double common_start_up(measured_rates const& rates) {
  std::vector<double> inside, near, all;
  auto const between = start_up_of_hosts(rates);
  for (std::size_t a = 0; a < rates.ranks(); ++a) {
    for (std::size_t b = 0; b < rates.ranks(); ++b) {
      if (rates.host_of[a] == rates.host_of[b]) inside.push_back(rates.start_up[a][b]);
    }
  }
  for (std::size_t a = 0; a < between.size(); ++a) {
    for (std::size_t b = 0; b < between.size(); ++b) {
      all.push_back(between[a][b]);
      if (rates.cluster(a) == rates.cluster(b)) near.push_back(between[a][b]);
    }
  }
  for (auto* const times : {&inside, &near, &all}) {
    if (auto const usual = detail::median_of_positive(std::move(*times)); usual > 0) return usual;
  }
  return 0;
}

/// The clusters of the hosts: by start-up, and inside those by the rates of pairs, alone or under
/// load, whichever is less. A host's own best rate counts, so that a slow NIC makes no cluster.
///
/// Returns: the cluster of each host, numbered from 0 by their first hosts
/// Time:    as `cluster_hosts`.
[[nodiscard]] inline std::vector<int> clusters_of_hosts(measured_rates const& rates) {
  auto const hosts = rates.hosts();
  auto const by_start_up = cluster_hosts(start_up_of_hosts(rates));
  std::vector<int> result(hosts, 0);
  auto const rate = [&](std::size_t a, std::size_t b) {
    double least = 0;
    for (auto const* table : {&rates.between, &rates.loaded}) {
      if (table->empty()) continue;
      double const here = std::max((*table)[a][b], (*table)[b][a]);
      if (here > 0 && (least == 0 || here < least)) least = here;
    }
    return least;
  };
  std::vector<double> best(hosts, 0);
  for (std::size_t a = 0; a < hosts; ++a) {
    for (std::size_t b = 0; b < hosts; ++b) best[a] = std::max(best[a], rate(a, b));
  }
  auto const members = detail::members_of(by_start_up);
  for (std::size_t cluster = 0; cluster < members.size(); ++cluster) {
    auto const& inside = members[cluster];
    host_table slowness(inside.size(), std::vector<double>(inside.size(), 0));
    for (std::size_t i = 0; i < inside.size(); ++i) {
      for (std::size_t k = 0; k < inside.size(); ++k) {
        auto const here = rate(inside[i], inside[k]);
        if (i == k || here <= 0) continue;
        slowness[i][k] = std::min(best[inside[i]], best[inside[k]]) / here;
      }
    }
    auto const parts = cluster_hosts(slowness);
    for (std::size_t i = 0; i < inside.size(); ++i) {
      result[inside[i]] = static_cast<int>(hosts * cluster) + parts[i];
    }
  }
  return detail::numbered_by_first(std::move(result));
}

/// A link of a described machine that is slower than described.
struct slow_link {
  int from = 0, to = 0;  ///< ids of nodes
  double described = 0;  ///< bytes per second
  double measured = 0;   ///< the best that passed
};

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

}}  // namespace blink::BLINK_ABI
