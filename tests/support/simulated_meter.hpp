// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/topology/detail/machine_builder.hpp>
#include <blink/topology/detail/message_pattern.hpp>
#include <blink/topology/rank_paths.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// Probes of machines that exist only as a description.

namespace blink_test {

/// Measures patterns on a described machine, whose messages share links at max-min fair rates.
class simulated_meter {
 public:
  double noise = 0;                     ///< largest relative error of each message
  double delayed = 0;                   ///< share of messages that take five times as long
  double busy = 1;                      ///< small messages take up to so many times as long
  std::size_t limit = ~std::size_t{0};  ///< of patterns, which is all the time that there is
  std::size_t patterns = 0;             ///< that were measured

  explicit simulated_meter(blink::topology const& machine, unsigned seed = 1) : random_(seed) {
    std::map<std::pair<int, int>, int> numbers;  // of links, by their ends
    for (auto const& l : machine.links) {
      auto const next = static_cast<int>(links_.size());
      auto const [at, is_new] = numbers.try_emplace({l.tail, l.head}, next);
      if (is_new) links_.push_back({0, l.latency_seconds});
      links_[static_cast<std::size_t>(at->second)].rate +=
          machine.in_units(l.capacity).to_double() * 1e9;
    }
    for (auto const& from_each : blink::paths_between_ranks(machine)) {
      auto& paths = paths_.emplace_back();
      for (auto const& path : from_each) {
        auto& crossed = paths.emplace_back();
        if (!path) continue;
        for (std::size_t k = 0; k + 1 < path->nodes.size(); ++k) {
          crossed.push_back(
              static_cast<std::size_t>(numbers.at({path->nodes[k], path->nodes[k + 1]})));
        }
      }
    }
  }

  [[nodiscard]] double bytes() const { return 4e6; }
  [[nodiscard]] bool has_time(double share) const {
    return static_cast<double>(patterns) < share * static_cast<double>(limit);
  }
  [[nodiscard]] blink::detail::pattern_seconds measure(
      blink::detail::message_pattern const& pattern) {
    ++patterns;
    if (std::ranges::all_of(pattern.to, [](int receiver) { return receiver < 0; })) {
      throw std::logic_error("a pattern without a message, which no meter measures");
    }
    auto const rates = pattern.is_small ? std::vector<double>{} : fair_rates(pattern);
    std::uniform_real_distribution<double> factor(1 - noise, 1 + noise);
    std::bernoulli_distribution is_late(delayed);
    std::uniform_real_distribution<double> wait(1, busy);
    blink::detail::pattern_seconds result{0, std::vector<double>(pattern.to.size(), 0)};
    for (std::size_t r = 0; r < pattern.to.size(); ++r) {
      if (pattern.to[r] < 0) continue;
      double latency = 0;
      for (auto const link : path(pattern, r)) latency += links_[link].latency_seconds;
      double seconds = start_up_seconds + 2 * latency;  // there and back
      if (pattern.is_small && busy > 1) seconds *= wait(random_);
      if (!pattern.is_small) seconds = start_up_seconds / 2 + latency + bytes() / rates[r];
      result.of[r] = seconds * factor(random_) * (is_late(random_) ? 5 : 1);
      result.all = std::max(result.all, result.of[r]);
    }
    return result;
  }

  static constexpr double start_up_seconds = 4e-6;

 private:
  struct shared_link {
    double rate;  ///< bytes per second
    double latency_seconds;
  };
  struct link_use {
    double left = 0;       ///< bytes per second that no message has yet
    std::size_t open = 0;  ///< messages without a rate
    std::vector<std::size_t> senders{};
  };
  [[nodiscard]] std::vector<std::size_t> const& path(blink::detail::message_pattern const& pattern,
                                                     std::size_t from) const {
    return paths_[from][static_cast<std::size_t>(pattern.to[from])];
  }
  /// The rate of each sender's message: the fullest link sets the rates of its messages, then the
  /// fullest of the others with what is left, …
  [[nodiscard]] std::vector<double> fair_rates(
      blink::detail::message_pattern const& pattern) const {
    std::vector<double> result(pattern.to.size(), 0);
    std::map<std::size_t, link_use> uses;  // by link
    for (std::size_t r = 0; r < pattern.to.size(); ++r) {
      if (pattern.to[r] < 0) continue;
      for (auto const link : path(pattern, r)) uses[link].senders.push_back(r);
    }
    for (auto& [link, use] : uses) use = {links_[link].rate, use.senders.size(), use.senders};
    for (;;) {
      double least = std::numeric_limits<double>::infinity();
      for (auto const& [link, use] : uses) {
        if (use.open > 0) least = std::min(least, use.left / static_cast<double>(use.open));
      }
      if (least == std::numeric_limits<double>::infinity()) return result;
      // Links that are equally full do not change each other's shares.
      for (auto const& [full, use] : uses) {
        if (use.open == 0 || use.left / static_cast<double>(use.open) > least * (1 + 1e-9))
          continue;
        for (auto const r : use.senders) {
          if (result[r] > 0) continue;
          result[r] = least;
          for (auto const crossed : path(pattern, r)) {
            uses.at(crossed).left -= least;
            --uses.at(crossed).open;
          }
        }
      }
    }
  }

  std::vector<shared_link> links_;
  std::vector<std::vector<std::vector<std::size_t>>> paths_;  // by ranks: links
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
