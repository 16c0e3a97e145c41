// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/topology/detail/cluster_flows.hpp>
#include <blink/topology/detail/message_pattern.hpp>
#include <blink/topology/host_clusters.hpp>
#include <blink/topology/measured_rates.hpp>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Pairs of hosts, or of clusters of one level.
using host_pairs = std::vector<std::pair<std::size_t, std::size_t>>;

/// The rates measured so far, and the patterns for measurements of hosts and clusters.
template <pattern_meter Meter>
struct rate_patterns {
  /// host_of: by rank, numbered from 0 by their first ranks
  /// few:     of no more hosts, each pair is measured alone
  rate_patterns(Meter& of, std::vector<int> host_of, std::size_t few) : meter(of), few_hosts(few) {
    measured.host_of = std::move(host_of);
    auto const ranks = measured.ranks();
    for (std::size_t r = 0; r < ranks; ++r) {
      auto const host = static_cast<std::size_t>(measured.host_of[r]);
      if (hosts.size() <= host) hosts.resize(host + 1);
      hosts[host].push_back(static_cast<int>(r));
    }
    measured.alone.assign(ranks, std::vector<double>(ranks, 0));
    measured.start_up = measured.alone;
    measured.together.assign(ranks, 0);
    measured.between.assign(hosts.size(), std::vector<double>(hosts.size(), 0));
    measured.loaded = measured.between;
    measured.out.assign(hosts.size(), 0);
    measured.in = measured.out;
  }

  [[nodiscard]] bool are_few() const { return hosts.size() <= few_hosts; }
  [[nodiscard]] std::vector<std::size_t> all_hosts() const {
    std::vector<std::size_t> result(hosts.size());
    std::iota(result.begin(), result.end(), std::size_t{0});
    return result;
  }
  [[nodiscard]] message_pattern pattern() const { return message_pattern(measured.ranks()); }
  [[nodiscard]] double& alone(int from, int to) {
    return measured.alone[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
  }
  [[nodiscard]] static double seconds_of(pattern_seconds const& seconds, int rank) {
    return seconds.of[static_cast<std::size_t>(rank)];
  }

  /// The rounds of a tournament of hosts or clusters, in a random order that is the same on all
  /// ranks. So some rounds are a fair sample.
  [[nodiscard]] std::vector<host_pairs> rounds(std::vector<std::size_t> players) {
    std::shuffle(players.begin(), players.end(), random);
    auto result = tournament_rounds(players.size());
    std::shuffle(result.begin(), result.end(), random);
    for (auto& round : result) {
      for (auto& [a, b] : round) {
        a = players[a];
        b = players[b];
      }
    }
    return result;
  }

  /// The rates of some flows, all at once: the most bytes that had arrived by some time, for each
  /// second until then. So a message that comes late by itself does not make the rate of all small.
  /// Without any flow nothing is measured, and rates are 0.
  [[nodiscard]] std::vector<double> rates_of(std::vector<message_flows> const& at_once) {
    if (std::ranges::all_of(at_once, &message_flows::empty)) {
      return std::vector<double>(at_once.size(), 0);
    }
    auto large = pattern();
    for (auto const& flows : at_once) {
      for (auto const& [from, to] : flows) large.send(from, to);
    }
    auto const seconds = meter.measure(large);
    std::vector<double> result;
    for (auto const& flows : at_once) {
      std::vector<double> ends;
      for (auto const& [from, to] : flows) ends.push_back(seconds_of(seconds, from));
      std::ranges::sort(ends);
      double most = 0;
      for (std::size_t k = 0; k < ends.size(); ++k) {
        most = std::max(most, static_cast<double>(k + 1) * meter.bytes() / ends[k]);
      }
      result.push_back(most);
    }
    return result;
  }
  [[nodiscard]] double rate_of(message_flows const& flows) { return rates_of({flows}).front(); }

  static constexpr double low_share = 0.8;
  /// Measures each of a list, and those again that are far below the usual rate, because messages
  /// may have been delayed.
  template <class Item, class Measure, class Rate>
  void measure_twice_if_low(std::vector<Item> const& items, double share, Measure const& measure,
                            Rate const& rate) {
    std::vector<double> found;
    for (auto const& each : items) {
      if (!meter.has_time(share)) return;
      measure(each);
      found.push_back(rate(each));
    }
    auto const usual = median_of_positive(std::move(found));
    for (auto const& each : items) {
      if (rate(each) < low_share * usual && meter.has_time(share)) measure(each);
    }
  }

  static constexpr std::size_t most_each_way = 8;
  /// Pairs of hosts or clusters, in both directions and a random order: all of `few`, else those of
  /// 4 rounds.
  [[nodiscard]] host_pairs some_pairs(std::vector<std::size_t> const& of, std::size_t few) {
    constexpr std::size_t most_rounds = 4;
    auto all = rounds(of);
    if (of.size() > few) all.resize(std::min(all.size(), most_rounds));
    host_pairs result;
    for (auto const& round : all) {
      for (auto const& [a, b] : round) {
        result.emplace_back(a, b);
        result.emplace_back(b, a);
      }
    }
    std::shuffle(result.begin(), result.end(), random);
    return result;
  }

  void measure_between(std::size_t a, std::size_t b) {
    auto& rate = measured.between[a][b];
    rate = std::max(rate, rate_of(flows_between(hosts[a], hosts[b])));
    if (std::min(hosts[a].size(), hosts[b].size()) > 1) return;
    alone(hosts[a].front(), hosts[b].front()) = rate;
  }

  void measure_pairs_of_hosts(host_pairs const& pairs, double share) {
    measure_twice_if_low(
        pairs, share, [&](auto const& pair) { measure_between(pair.first, pair.second); },
        [&](auto const& pair) { return measured.between[pair.first][pair.second]; });
  }

  Meter& meter;
  std::size_t few_hosts;
  measured_rates measured;
  std::vector<std::vector<int>> hosts;  ///< by host: its ranks
  std::mt19937 random{1};               ///< the same on all ranks
};

}}}  // namespace blink::BLINK_ABI::detail
