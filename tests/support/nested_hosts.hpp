// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/rational.hpp>
#include <blink/topology/detail/machine_builder.hpp>
#include <blink/topology/host_clusters.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

// Hosts at trees of switches: racks, pods, zones.

namespace blink_test {

/// Hosts in clusters of several levels, with rates in GB/s and latencies in seconds.
struct nested_hosts {
  /// By level, the innermost first: the cluster of each host, numbered by their first hosts. A host
  /// without any group is a cluster by itself.
  std::vector<std::vector<int>> cluster_of;
  /// Of hosts, then by level of its clusters: links to the switch above.
  std::vector<std::vector<double>> out, in;
  std::vector<double> latency;  ///< of those links, each way

  [[nodiscard]] std::size_t hosts() const { return out.front().size(); }
  [[nodiscard]] std::vector<int> host_of() const {
    std::vector<int> result(hosts());
    std::iota(result.begin(), result.end(), 0);
    return result;
  }
  /// The part of each host below a level: the host itself, or its cluster of the level before.
  [[nodiscard]] std::size_t part(std::size_t level, std::size_t host) const {
    return level == 0 ? host : static_cast<std::size_t>(cluster_of[level - 1][host]);
  }
  /// The hosts of each part below a level.
  [[nodiscard]] std::vector<std::vector<std::size_t>> hosts_of_parts(std::size_t level) const {
    std::vector<std::vector<std::size_t>> result(out[level].size());
    for (std::size_t host = 0; host < hosts(); ++host) result[part(level, host)].push_back(host);
    return result;
  }

  /// The machine. A cluster of one part has no switch and no link of its own.
  [[nodiscard]] blink::topology machine() const {
    using blink::node_kind;
    blink::detail::machine_builder result;
    std::vector<int> top;  // by host: the highest node of its part
    for (std::size_t host = 0; host < hosts(); ++host) {
      top.push_back(
          result.add_node(node_kind::rank, "rank" + std::to_string(host), static_cast<int>(host)));
    }
    auto const rate = [](double gigabytes) {
      return blink::rational(static_cast<std::int64_t>(gigabytes * 1000), 1000);
    };
    auto highest = top;
    for (std::size_t level = 0; level <= cluster_of.size(); ++level) {
      auto const labels =
          level < cluster_of.size() ? cluster_of[level] : std::vector<int>(hosts(), 0);
      for (auto const& inside : blink::detail::members_of(labels)) {
        bool const is_one = std::ranges::all_of(
            inside, [&](auto host) { return part(level, host) == part(level, inside.front()); });
        if (is_one) continue;
        int const here =
            result.add_node(node_kind::switch_node, "level " + std::to_string(level), -1);
        std::vector<bool> is_joined(out[level].size(), false);
        for (auto const host : inside) {
          auto const below = part(level, host);
          highest[host] = here;
          if (is_joined[below]) continue;
          is_joined[below] = true;
          result.add_link(top[host], here, rate(out[level][below]), blink::link_kind::network,
                          latency[level]);
          result.add_link(here, top[host], rate(in[level][below]), blink::link_kind::network,
                          latency[level]);
        }
      }
      top = highest;
    }
    return result.build("nested");
  }
};

/// Options of random hosts.
struct nested_options {
  std::size_t levels = 2;        ///< of clusters
  bool has_latencies = true;     ///< else clusters show only in rates
  bool is_symmetric = true;      ///< else links into a cluster have other rates than those out
  std::size_t single_hosts = 0;  ///< at the outermost switch
  double least_over = 1.5;       ///< oversubscription of each level
  double most_over = 3;
};

/// Between 128 and 512 hosts in random clusters, in a random order.
inline nested_hosts random_nested_hosts(nested_options const& what, std::mt19937& random) {
  auto const between = [&](std::size_t least, std::size_t most) {
    return least + random() % (most - least + 1);
  };
  std::size_t const most_parts = what.levels == 1 ? 12 : what.levels == 2 ? 5 : 4;
  nested_hosts result;
  std::vector<std::vector<int>> paths;  // by host: its clusters, the outermost first
  auto const add = [&](auto const& self, std::vector<int> path, std::size_t level) -> void {
    if (level == 0) {
      auto const count = between(what.levels == 1 ? 14 : 8, what.levels == 3 ? 14 : 20);
      for (std::size_t k = 0; k < count; ++k) paths.push_back(path);
      return;
    }
    for (std::size_t k = 0, count = between(3, most_parts); k < count; ++k) {
      auto below = path;
      below.push_back(static_cast<int>(k));
      self(self, std::move(below), level - 1);
    }
  };
  do {
    paths.clear();
    add(add, {}, what.levels);
  } while (paths.size() < 128 || paths.size() + what.single_hosts > 512);
  for (std::size_t k = 0; k < what.single_hosts; ++k) {
    paths.push_back(std::vector<int>(what.levels, -1 - static_cast<int>(k)));
  }
  std::shuffle(paths.begin(), paths.end(), random);
  for (std::size_t level = 0; level < what.levels; ++level) {
    std::vector<std::vector<int>> labels;
    for (auto const& path : paths) {
      labels.emplace_back(path.begin(), path.end() - static_cast<std::ptrdiff_t>(level));
    }
    result.cluster_of.push_back(blink::detail::numbered_by_first(labels));
  }
  result.out.emplace_back(paths.size(), 12.5);
  result.latency.push_back(3e-6);
  for (std::size_t level = 0; level < what.levels; ++level) {
    auto const over =
        std::uniform_real_distribution<double>(what.least_over, what.most_over)(random);
    auto const count =
        static_cast<std::size_t>(*std::ranges::max_element(result.cluster_of[level]) + 1);
    auto& uplinks = result.out.emplace_back(count, 0);
    std::vector<bool> is_counted(result.out[level].size(), false);
    for (std::size_t host = 0; host < paths.size(); ++host) {
      auto const below = result.part(level, host);
      if (is_counted[below]) continue;
      is_counted[below] = true;
      uplinks[result.part(level + 1, host)] += result.out[level][below] / over;
    }
    // A host without any group has no other link.
    for (std::size_t host = 0; host < paths.size(); ++host) {
      if (paths[host].front() < 0) uplinks[result.part(level + 1, host)] = result.out[0][host];
    }
    result.latency.push_back(what.has_latencies ? 3e-6 : 0);
  }
  result.in = result.out;
  if (!what.is_symmetric) {
    for (std::size_t level = 1; level <= what.levels; ++level) {
      for (double& each : result.in[level]) each *= 0.7;
    }
  }
  return result;
}

}  // namespace blink_test
