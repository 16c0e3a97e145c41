// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/topology/detail/cluster_flows.hpp>
#include <blink/topology/detail/cluster_measurer.hpp>
#include <blink/topology/detail/message_pattern.hpp>
#include <blink/topology/detail/rate_patterns.hpp>
#include <blink/topology/host_clusters.hpp>
#include <blink/topology/measured_rates.hpp>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

// The patterns of messages that a probe measures, for whatever measures a pattern.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Measures rates by a fixed sequence of patterns. Equal seconds give equal sequences, so all ranks
/// measure the same pattern.
template <pattern_meter Meter>
class rate_measurer {
 public:
  /// host_of:   by rank, numbered from 0 by their first ranks
  /// few_hosts: of no more hosts, each pair is measured alone
  rate_measurer(Meter& meter, std::vector<int> host_of, std::size_t few_hosts = 8)
      : rates_(meter, std::move(host_of), few_hosts) {}

  [[nodiscard]] measured_rates measure() {
    measure_together();
    if (rates_.hosts.size() > 1) {
      bool const has_start_ups = measure_start_up_of_hosts();
      if (rates_.are_few()) {
        rates_.measure_pairs_of_hosts(rates_.some_pairs(rates_.all_hosts(), rates_.few_hosts), 0.5);
      }
      cluster_measurer<Meter> clusters(rates_);
      clusters.find_clusters(has_start_ups);
      cluster_flows const flows(rates_.measured);
      clusters.measure_clusters(flows);
      measure_hosts(flows);
    }
    rates_.are_few() ? measure_pairs() : measure_inside_hosts();
    return std::move(rates_.measured);
  }

 private:
  void set_start_up(int a, int b, double seconds) {
    auto const i = static_cast<std::size_t>(a), k = static_cast<std::size_t>(b);
    rates_.measured.start_up[i][k] = rates_.measured.start_up[k][i] = seconds;
  }

  /// All ranks of each host to the next one.
  void measure_together() {
    auto ring = rates_.pattern();
    bool has_any = false;
    for (auto const& ranks : rates_.hosts) {
      for (std::size_t i = 0; i < ranks.size() && ranks.size() > 1; ++i) {
        ring.send(ranks[i], ranks[(i + 1) % ranks.size()]);
        has_any = true;
      }
    }
    if (!has_any) return;
    // Half of what an all-reduce moves is combined on arrival.
    auto const plain = rates_.meter.measure(ring).all;
    ring.combines = true;
    auto const rate = 2 * rates_.meter.bytes() / (plain + rates_.meter.measure(ring).all);
    for (std::size_t r = 0; r < rates_.measured.ranks(); ++r) {
      if (ring.to[r] >= 0) rates_.measured.together[r] = rate;
    }
  }

  /// Small messages between the first ranks of hosts. They do not compete, so all hosts take part
  /// in each pattern. Some are measured twice.
  ///
  /// Returns: false if those differ so much that start-ups show nothing, as on busy computers
  [[nodiscard]] bool measure_start_up_of_hosts() {
    constexpr double share = 0.2;  // of the time; the first round is always measured
    constexpr std::size_t most_again = 8;
    constexpr double most_difference = 1.2;
    auto const all = rates_.rounds(rates_.all_hosts());
    for (std::size_t r = 0; r < all.size(); ++r) {
      if (r > 0 && !rates_.meter.has_time(share)) break;
      measure_start_up(all[r]);
    }
    auto const first = rates_.measured.start_up;
    std::vector<double> ratios;
    for (std::size_t r = 0; r < std::min(all.size(), most_again); ++r) {
      if (!rates_.meter.has_time(share)) break;
      measure_start_up(all[r]);
      for (auto const& [a, b] : all[r]) {
        auto const i = static_cast<std::size_t>(rates_.hosts[a].front());
        auto const k = static_cast<std::size_t>(rates_.hosts[b].front());
        auto& now = rates_.measured.start_up[i][k];
        if (first[i][k] <= 0) continue;
        ratios.push_back(std::max(now, first[i][k]) / std::min(now, first[i][k]));
        now = rates_.measured.start_up[k][i] = std::min(now, first[i][k]);
      }
    }
    return ratios.empty() || upper_median(std::move(ratios)) < most_difference;
  }
  void measure_start_up(host_pairs const& round) {
    auto small = rates_.pattern();
    small.is_small = true;
    for (auto const& [a, b] : round) {
      small.exchange(rates_.hosts[a].front(), rates_.hosts[b].front());
    }
    auto const seconds = rates_.meter.measure(small);
    for (auto const& [a, b] : round) {
      int const i = rates_.hosts[a].front(), k = rates_.hosts[b].front();
      set_start_up(i, k, (rates_.seconds_of(seconds, i) + rates_.seconds_of(seconds, k)) / 2);
    }
  }

  /// Some pairs of hosts of each innermost cluster, and one of each two clusters.
  [[nodiscard]] host_pairs some_pairs_of_hosts() {
    constexpr std::size_t most = 4;  // of a cluster
    auto members = rates_.measured.hosts_of_clusters(0);
    std::vector<std::size_t> clusters(members.size());
    std::iota(clusters.begin(), clusters.end(), std::size_t{0});
    host_pairs pairs;
    for (auto& inside : members) {
      std::shuffle(inside.begin(), inside.end(), rates_.random);
      for (std::size_t k = 0; k + 1 < inside.size() && k < most; ++k) {
        pairs.emplace_back(inside[k], inside[k + 1]);
      }
    }
    for (auto const& [c, d] : rates_.some_pairs(clusters, rates_.most_each_way)) {
      pairs.emplace_back(members[c][rates_.random() % members[c].size()],
                         members[d][rates_.random() % members[d].size()]);
    }
    return pairs;
  }

  /// The lowest level whose cluster of this host has other hosts. So narrow links between clusters
  /// do not count.
  [[nodiscard]] std::size_t level_with_others(std::size_t host) const {
    std::size_t level = 0;
    for (; level < rates_.measured.levels.size(); ++level) {
      auto const& labels = rates_.measured.levels[level].cluster_of;
      if (std::ranges::count(labels, labels[host]) > 1) break;
    }
    return level;
  }

  /// Each host to others of its cluster. Of many hosts, one of each cluster at once, which share no
  /// links. Of few, each alone.
  [[nodiscard]] std::vector<std::vector<std::size_t>> hosts_at_once() {
    std::vector<std::vector<std::size_t>> result;
    if (!rates_.are_few()) {
      for (auto& inside : rates_.measured.hosts_of_clusters(0)) {
        std::shuffle(inside.begin(), inside.end(), rates_.random);
        for (std::size_t k = 0; k < inside.size() && inside.size() > 1; ++k) {
          if (result.size() <= k) result.emplace_back();
          result[k].push_back(inside[k]);
        }
      }
    }
    for (std::size_t host = 0; host < rates_.hosts.size(); ++host) {
      if (rates_.are_few() || level_with_others(host) > 0) result.push_back({host});
    }
    std::shuffle(result.begin(), result.end(), rates_.random);
    return result;
  }

  /// Hosts alone: pairs of many of them, which are a sample, and each host to others.
  void measure_hosts(cluster_flows const& flows) {
    if (!rates_.are_few()) rates_.measure_pairs_of_hosts(some_pairs_of_hosts(), 1);
    auto const measure = [&](std::vector<std::size_t> const& at_once) {
      for (bool const is_out : {true, false}) {
        std::vector<message_flows> now;
        for (auto const host : at_once) {
          now.push_back(flows.outside({host}, level_with_others(host), is_out));
        }
        auto const found = rates_.rates_of(now);
        for (std::size_t k = 0; k < at_once.size(); ++k) {
          auto& rate = (is_out ? rates_.measured.out : rates_.measured.in)[at_once[k]];
          rate = std::max(rate, found[k]);
        }
      }
    };
    for (auto const& at_once : hosts_at_once()) {
      if (!rates_.are_few() && !rates_.meter.has_time(1)) return;
      measure(at_once);
    }
    for (auto const* rates : {&rates_.measured.out, &rates_.measured.in}) {
      for (auto const& inside : rates_.measured.hosts_of_clusters(0)) {
        std::vector<double> found;
        for (auto const host : inside) found.push_back((*rates)[host]);
        auto const usual = median_of_positive(std::move(found));
        for (auto const host : inside) {
          bool const is_low = (*rates)[host] < rates_.low_share * usual;
          if (is_low && rates_.meter.has_time(1)) measure({host});
        }
      }
    }
    for (std::size_t a = 0; a < rates_.hosts.size() && rates_.are_few(); ++a) {
      for (std::size_t b = 0; b < rates_.hosts.size(); ++b) {
        rates_.measured.out[a] = std::max(rates_.measured.out[a], rates_.measured.between[a][b]);
        rates_.measured.in[a] = std::max(rates_.measured.in[a], rates_.measured.between[b][a]);
      }
    }
  }

  /// Measures what is not known yet of one pair in each host at once, or of one pair alone.
  void measure_at_once(std::vector<std::pair<int, int>> const& pairs) {
    auto large = rates_.pattern(), small = rates_.pattern();
    small.is_small = true;
    bool needs_large = false, needs_small = false;
    for (auto const& [a, b] : pairs) {
      large.send(a, b);
      small.exchange(a, b);
      auto const i = static_cast<std::size_t>(a), k = static_cast<std::size_t>(b);
      needs_large = needs_large || rates_.measured.alone[i][k] == 0;
      needs_small = needs_small || rates_.measured.start_up[i][k] == 0;
    }
    if (needs_large) {
      auto const seconds = rates_.meter.measure(large);
      for (auto const& [a, b] : pairs) {
        rates_.alone(a, b) = rates_.meter.bytes() / rates_.seconds_of(seconds, a);
      }
    }
    if (!needs_small) return;
    auto const seconds = rates_.meter.measure(small);
    for (auto const& [a, b] : pairs) {
      set_start_up(a, b, (rates_.seconds_of(seconds, a) + rates_.seconds_of(seconds, b)) / 2);
    }
  }

  /// Each pair alone, in a random order, so that a short time is a fair sample.
  void measure_pairs() {
    std::vector<std::pair<int, int>> pairs;
    for (int a = 0; a < static_cast<int>(rates_.measured.ranks()); ++a) {
      for (int b = 0; b < static_cast<int>(rates_.measured.ranks()); ++b) {
        if (a != b) pairs.emplace_back(a, b);
      }
    }
    std::shuffle(pairs.begin(), pairs.end(), rates_.random);
    for (auto const& pair : pairs) {
      if (!rates_.meter.has_time(1)) return;
      measure_at_once({pair});
    }
  }

  /// Pairs inside hosts, one in each host at once, in a random order.
  void measure_inside_hosts() {
    std::size_t most = 0;
    for (auto const& ranks : rates_.hosts) most = std::max(most, ranks.size());
    std::vector<std::pair<std::size_t, std::size_t>> places;
    for (std::size_t i = 0; i < most; ++i) {
      for (std::size_t k = 0; k < most; ++k) {
        if (i != k) places.emplace_back(i, k);
      }
    }
    std::shuffle(places.begin(), places.end(), rates_.random);
    for (auto const& [i, k] : places) {
      if (!rates_.meter.has_time(1)) return;
      std::vector<std::pair<int, int>> pairs;
      for (auto const& ranks : rates_.hosts) {
        if (std::max(i, k) < ranks.size()) pairs.emplace_back(ranks[i], ranks[k]);
      }
      measure_at_once(pairs);
    }
  }

  rate_patterns<Meter> rates_;
};

}}}  // namespace blink::BLINK_ABI::detail
