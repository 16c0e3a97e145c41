// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/topology/host_clusters.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

// Rates measured between ranks. `fit_machine.hpp` makes a machine of them, `slow_links.hpp` finds
// where a description is wrong.

namespace blink { inline namespace BLINK_ABI {

/// Clusters of hosts that share links to other clusters: racks, pods or zones. Rates are in bytes
/// per second. 0: not measured.
struct cluster_level {
  std::vector<int> cluster_of;  ///< by host, numbered from 0
  std::vector<double> out;      ///< by cluster: while its hosts send to other clusters
  std::vector<double> in;       ///< by cluster: while hosts of other clusters send to it
  /// By clusters: while hosts of one send to the other. Both are in one cluster of the next level.
  host_table between;

  [[nodiscard]] std::size_t clusters() const {
    auto const last = std::ranges::max_element(cluster_of);
    return last == cluster_of.end() ? 0 : static_cast<std::size_t>(*last) + 1;
  }
  friend bool operator==(cluster_level const&, cluster_level const&) = default;
};

/// Rates between ranks in bytes per second, as `probe` measures them. 0: not measured.
struct measured_rates {
  std::vector<int> host_of;                   ///< by rank: the number of its host, from 0
  std::vector<std::vector<double>> alone;     ///< by sender and receiver: nothing else moves
  std::vector<std::vector<double>> start_up;  ///< seconds from a small message to its answer
  /// By rank: while each rank of its host sends to the next one. 0 for hosts of one rank.
  std::vector<double> together;
  /// By hosts: while each rank of one sends to a rank of the other.
  host_table between;
  /// By hosts: the same, while all other hosts of a cluster of both also exchange data in pairs.
  host_table loaded{};
  std::vector<double> out;  ///< by host: while each of its ranks sends to ranks of other hosts
  std::vector<double> in;   ///< by host: while ranks of other hosts send to each of its ranks
  /// Clusters of hosts, the innermost first. The clusters of a level join those of the one before.
  /// Empty: all hosts are one cluster.
  std::vector<cluster_level> levels{};

  [[nodiscard]] std::size_t ranks() const { return host_of.size(); }
  [[nodiscard]] std::size_t hosts() const { return out.size(); }
  /// The innermost cluster of a host.
  [[nodiscard]] int cluster(std::size_t host) const {
    return levels.empty() ? 0 : levels.front().cluster_of[host];
  }
  /// By cluster of a level, or of the one cluster above all levels: the numbers of its hosts.
  [[nodiscard]] std::vector<std::vector<std::size_t>> hosts_of_clusters(std::size_t level) const {
    return detail::members_of(level < levels.size() ? levels[level].cluster_of
                                                    : std::vector<int>(hosts(), 0));
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

}}  // namespace blink::BLINK_ABI
