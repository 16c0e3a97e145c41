// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/planning/plan/detail/route.hpp>
#include <blink/planning/plan/detail/routed_forest.hpp>
#include <blink/topology/detail/machine_builder.hpp>
#include <blink/topology/detail/message_pattern.hpp>
#include <blink/topology/rank_paths.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

// Probes of machines that exist only as a description.

namespace blink_test {

/// Measures patterns on a described machine, whose messages share links at max-min fair rates.
class simulated_meter {
 public:
  double noise = 0;                     ///< largest relative error of each message
  std::size_t limit = ~std::size_t{0};  ///< of patterns, which is all the time that there is
  std::size_t patterns = 0;             ///< that were measured

  explicit simulated_meter(blink::topology const& machine, unsigned seed = 1)
      : machine_(machine),
        route_(machine),
        paths_(blink::paths_between_ranks(machine)),
        random_(seed) {}

  [[nodiscard]] double bytes() const { return 4e6; }
  [[nodiscard]] bool has_time(double share) const {
    return static_cast<double>(patterns) < share * static_cast<double>(limit);
  }
  [[nodiscard]] blink::detail::pattern_seconds measure(
      blink::detail::message_pattern const& pattern) {
    ++patterns;
    blink::detail::group_loads load;  // each message is a group
    for (std::size_t r = 0; r < pattern.to.size() && !pattern.is_small; ++r) {
      if (pattern.to[r] < 0) continue;
      blink::detail::add_load(load, {0, 0, ids_of(path(pattern, r))}, static_cast<int>(r), 1);
    }
    auto const rates = blink::detail::fair_paces(load, route_);
    std::uniform_real_distribution<double> factor(1 - noise, 1 + noise);
    blink::detail::pattern_seconds result{0, std::vector<double>(pattern.to.size(), 0)};
    for (std::size_t r = 0; r < pattern.to.size(); ++r) {
      if (pattern.to[r] < 0) continue;
      double latency = 0;
      auto const nodes = path(pattern, r);
      for (std::size_t k = 0; k + 1 < nodes.size(); ++k) {
        for (auto const& l : machine_.links) {
          if (l.tail == nodes[k] && l.head == nodes[k + 1]) latency += l.latency_seconds;
        }
      }
      double seconds = start_up_seconds + 2 * latency;  // there and back
      if (!pattern.is_small) {
        seconds = start_up_seconds / 2 + latency +
                  bytes() / (rates.at(static_cast<int>(r)).to_double() * 1e9);
      }
      result.of[r] = seconds * factor(random_);
      result.all = std::max(result.all, result.of[r]);
    }
    return result;
  }

  static constexpr double start_up_seconds = 4e-6;

 private:
  [[nodiscard]] std::vector<int> const& path(blink::detail::message_pattern const& pattern,
                                             std::size_t from) const {
    return paths_[from][static_cast<std::size_t>(pattern.to[from])]->nodes;
  }
  [[nodiscard]] std::vector<int> ids_of(std::vector<int> positions) const {
    for (int& each : positions) each = machine_.nodes[static_cast<std::size_t>(each)].id;
    return positions;
  }

  blink::topology const& machine_;
  blink::detail::router route_;
  std::vector<std::vector<std::optional<blink::rank_path>>> paths_;
  std::mt19937 random_;
};
static_assert(blink::detail::pattern_meter<simulated_meter>);

/// Hosts in clusters, with rates in GB/s and latencies in seconds.
struct clustered_hosts {
  std::vector<int> cluster_of;  ///< by host
  int ranks = 1;                ///< of each host
  double nic = 12.5;
  double memory = 80;               ///< of each rank
  std::vector<double> uplink = {};  ///< by cluster
  double nic_latency = 3e-6;        ///< of each of two links
  double uplink_latency = 0;
  std::vector<double> nic_of = {};  ///< by host; empty: all are equal

  [[nodiscard]] std::size_t clusters() const { return uplink.size(); }
  [[nodiscard]] std::vector<int> host_of() const {
    std::vector<int> result;
    for (std::size_t host = 0; host < cluster_of.size(); ++host) {
      result.insert(result.end(), static_cast<std::size_t>(ranks), static_cast<int>(host));
    }
    return result;
  }
  /// The machine: NICs at the switches of their clusters, which meet at a core.
  [[nodiscard]] blink::topology machine() const {
    using blink::link_kind;
    using blink::node_kind;
    auto const rate = [](double gigabytes) {
      return blink::rational(static_cast<std::int64_t>(gigabytes * 1000), 1000);
    };
    blink::detail::machine_builder result;
    for (std::size_t r = 0; r < host_of().size(); ++r) {
      result.add_node(node_kind::rank, "rank" + std::to_string(r), host_of()[r]);
    }
    int const core = result.add_node(node_kind::switch_node, "core", -1);
    std::vector<int> switches;
    for (std::size_t c = 0; c < clusters(); ++c) {
      switches.push_back(result.add_node(node_kind::switch_node, "rack" + std::to_string(c), -1));
      result.add_both_ways(switches.back(), core, rate(uplink[c]), link_kind::network,
                           uplink_latency);
    }
    for (std::size_t host = 0; host < cluster_of.size(); ++host) {
      auto const server = static_cast<int>(host);
      int const top = result.add_node(node_kind::switch_node, "memory", server);
      for (int k = 0; k < ranks; ++k) {
        result.add_both_ways(server * ranks + k, top, rate(memory), link_kind::memory);
      }
      result.add_both_ways(top, switches[static_cast<std::size_t>(cluster_of[host])],
                           rate(nic_of.empty() ? nic : nic_of[host]), link_kind::network,
                           nic_latency);
    }
    return result.build("clustered");
  }
};

}  // namespace blink_test
