// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/topology/detail/cluster_flows.hpp>
#include <blink/topology/detail/message_pattern.hpp>
#include <blink/topology/detail/nested_clusters.hpp>
#include <blink/topology/detail/rate_patterns.hpp>
#include <blink/topology/host_clusters.hpp>
#include <blink/topology/measured_rates.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Finds clusters of hosts, and measures their links.
template <pattern_meter Meter>
class cluster_measurer {
 public:
  explicit cluster_measurer(rate_patterns<Meter>& rates)
      : rates_(rates), best_(rates.hosts.size(), 0) {}

  /// Finds clusters by start-ups and by rates under load, from the outside to the inside. Links
  /// inside a cluster are busy only if its hosts exchange data with each other.
  void find_clusters(bool has_start_ups) {
    nested_clusters clusters(rates_.hosts.size());
    if (has_start_ups) clusters.group_by_start_up(start_up_of_hosts(rates_.measured));
    for (std::size_t depth = 0; depth <= clusters.depth(); ++depth) {
      auto const groups = clusters.hosts_to_group(depth);
      if (groups.empty()) continue;
      auto rates = measure_under_load(groups, depth == 0);
      find_best_rates();
      auto const before = clusters;
      // Pairs alone are clearer than pairs under load, where all were measured.
      if (rates_.are_few()) clusters.group_by_rate(depth, rates_.measured.between, best_);
      if (clusters.labels(depth + 1) != before.labels(depth + 1)) continue;
      clusters.group_by_rate(depth, with_pairs_alone(rates), best_);
      auto const labels = clusters.labels(depth + 1);
      auto const more = rounds_of_undecided(groups, labels, rates);
      if (more.empty()) continue;
      measure_rounds(more, false, rates);
      clusters = before;
      clusters.group_by_rate(depth, with_pairs_alone(rates), best_);
    }
    for (auto& cluster_of : clusters.levels()) {
      rates_.measured.levels.push_back({std::move(cluster_of), {}, {}, {}});
    }
  }

  /// Clusters to others and from them, and to each other, from the outermost level to the
  /// innermost.
  void measure_clusters(cluster_flows const& flows) {
    constexpr double share = 0.85;
    auto const levels = rates_.measured.levels.size();
    for (auto level = levels; level-- > 0;) {
      auto& here = rates_.measured.levels[level];
      auto const count = here.clusters();
      here.out.assign(count, 0);
      here.in.assign(count, 0);
      here.between.assign(count, std::vector<double>(count, 0));
      for (auto const& inside : flows.parts(level + 1)) {
        if (inside.size() > 1) continue;
        auto const around =
            static_cast<std::size_t>(rates_.measured.levels[level + 1]
                                         .cluster_of[flows.hosts(level, inside.front()).front()]);
        here.out[inside.front()] = rates_.measured.levels[level + 1].out[around];
        here.in[inside.front()] = rates_.measured.levels[level + 1].in[around];
      }
      for (auto const& inside : flows.parts(level + 1)) {
        if (inside.size() < 2) continue;
        // Twice if it is low, because messages may have been delayed.
        for (bool const is_out : {true, false}) {
          auto& rates = is_out ? here.out : here.in;
          auto const measure = [&](std::size_t c) {
            auto const& own = flows.hosts(level, c);
            for (auto around = level + 1; around <= levels; ++around) {
              if (around > level + 1 && around < levels) continue;  // the nearest, and all
              rates[c] = std::max(rates[c], rates_.rate_of(flows.outside(own, around, is_out)));
            }
          };
          rates_.measure_twice_if_low(inside, share, measure,
                                      [&](std::size_t c) { return rates[c]; });
        }
        auto const pairs = rates_.some_pairs(inside, rates_.most_each_way);
        auto const measure = [&](std::pair<std::size_t, std::size_t> const& pair) {
          auto& rate = here.between[pair.first][pair.second];
          rate = std::max(rate, rates_.rate_of(flows_between(flows.ranks(level, pair.first),
                                                             flows.ranks(level, pair.second))));
        };
        rates_.measure_twice_if_low(pairs, share, measure, [&](auto const& pair) {
          return here.between[pair.first][pair.second];
        });
      }
    }
  }

 private:
  /// The largest rate that each host reached. Hosts that reached far less than others under load
  /// are measured alone, because they may have met none of their cluster.
  void find_best_rates() {
    for (std::size_t a = 0; a < rates_.hosts.size(); ++a) {
      for (std::size_t b = 0; b < rates_.hosts.size(); ++b) {
        best_[a] = std::max({best_[a], rates_.measured.loaded[a][b], rates_.measured.loaded[b][a],
                             rates_.measured.between[a][b], rates_.measured.between[b][a]});
      }
    }
    auto const usual = median_of_positive(best_);
    for (std::size_t host = 0; host < rates_.hosts.size() && !rates_.are_few(); ++host) {
      if (best_[host] >= rates_.low_share * usual || !rates_.meter.has_time(0.5)) continue;
      auto const other =
          (host + 1 + rates_.random() % (rates_.hosts.size() - 1)) % rates_.hosts.size();
      best_[host] = std::max(
          best_[host], rates_.rate_of(flows_between(rates_.hosts[host], rates_.hosts[other])));
    }
  }

  /// The smaller rate of pairs that were also measured alone. If `rates` is empty, those of before.
  [[nodiscard]] host_table with_pairs_alone(host_table rates) const {
    bool const has_any = std::ranges::any_of(rates, [](auto const& row) {
      return std::ranges::any_of(row, [](double each) { return each > 0; });
    });
    if (!has_any) rates = rates_.measured.loaded;
    for (std::size_t a = 0; a < rates_.hosts.size(); ++a) {
      for (std::size_t b = 0; b < rates_.hosts.size(); ++b) {
        auto const alone = rates_.measured.between[a][b];
        if (alone > 0) rates[a][b] = rates[a][b] > 0 ? std::min(rates[a][b], alone) : alone;
      }
    }
    return rates;
  }

  /// Rounds of pairs for all hosts of each group at once: a random sample of many.
  [[nodiscard]] host_table measure_under_load(std::vector<std::vector<std::size_t>> const& groups,
                                              bool is_first) {
    std::vector<host_pairs> all;
    for (auto const& hosts : groups) {
      auto const of_group = rates_.rounds(hosts);
      auto const enough = 8 * static_cast<std::size_t>(std::bit_width(hosts.size()));
      for (std::size_t r = 0; r < std::min(enough, of_group.size()); ++r) {
        if (all.size() <= r) all.emplace_back();
        all[r].insert(all[r].end(), of_group[r].begin(), of_group[r].end());
      }
    }
    host_table result(rates_.hosts.size(), std::vector<double>(rates_.hosts.size(), 0));
    measure_rounds(all, is_first, result);
    return result;
  }

  /// Rounds in which hosts that were measured with few others of their cluster, or with none, meet
  /// two hosts of each cluster of their group. The other hosts meet at random.
  [[nodiscard]] std::vector<host_pairs> rounds_of_undecided(
      std::vector<std::vector<std::size_t>> const& groups, std::vector<int> const& labels,
      host_table const& rates) {
    constexpr std::ptrdiff_t enough = 3;
    std::vector<host_pairs> result;
    for (auto const& hosts : groups) {
      std::map<int, std::vector<std::size_t>> members;
      for (auto const host : hosts) members[labels[host]].push_back(host);
      if (members.size() < 2) continue;
      std::vector<std::size_t> open;
      for (auto const host : hosts) {
        auto const& near = members[labels[host]];
        auto const known = std::ranges::count_if(near, [&](auto b) { return rates[host][b] > 0; });
        auto const others = std::ssize(near) - 1;
        if (others == 0 || known < std::min(enough, others)) open.push_back(host);
      }
      for (std::size_t r = 0; r < 2 * members.size() && !open.empty(); ++r) {
        if (result.size() <= r) result.emplace_back();
        std::vector<bool> is_taken(rates_.hosts.size(), false);
        for (auto const host : open) is_taken[host] = true;
        for (std::size_t k = 0; k < open.size(); ++k) {
          auto& others =
              std::next(members.begin(), static_cast<std::ptrdiff_t>((r + k) % members.size()))
                  ->second;
          std::shuffle(others.begin(), others.end(), rates_.random);
          auto const other = std::ranges::find_if(others, [&](auto b) { return !is_taken[b]; });
          if (other == others.end()) continue;
          is_taken[*other] = true;
          result[r].emplace_back(open[k], *other);
        }
        std::vector<std::size_t> rest;
        for (auto const host : hosts) {
          if (!is_taken[host]) rest.push_back(host);
        }
        std::shuffle(rest.begin(), rest.end(), rates_.random);
        for (std::size_t k = 0; k + 1 < rest.size(); k += 2) {
          result[r].emplace_back(rest[k], rest[k + 1]);
        }
      }
    }
    return result;
  }

  /// Large messages both ways between all ranks of two hosts, for all pairs of a round at once.
  /// Pairs that share a link are slower than others.
  ///
  /// is_first: the first round is measured in any case
  /// rates:    those of pairs are set, also in `loaded`
  void measure_rounds(std::vector<host_pairs> const& all, bool is_first, host_table& rates) {
    double const share = rates_.are_few() ? 0.65 : 0.5;
    for (std::size_t r = 0; r < all.size(); ++r) {
      if (all[r].empty()) continue;  // hosts that met none of their cluster found no others free
      if ((r > 0 || !is_first) && !rates_.meter.has_time(share)) break;
      auto large = rates_.pattern();
      auto const flows = [&](std::size_t a, std::size_t b) {
        return std::min(rates_.hosts[a].size(), rates_.hosts[b].size());
      };
      for (auto const& [a, b] : all[r]) {
        for (std::size_t k = 0; k < flows(a, b); ++k) {
          large.exchange(rates_.hosts[a][k], rates_.hosts[b][k]);
        }
      }
      auto const seconds = rates_.meter.measure(large);
      auto const into = [&](std::size_t from, std::size_t to) {
        double last = 0;
        for (std::size_t k = 0; k < flows(from, to); ++k) {
          last = std::max(last, rates_.seconds_of(seconds, rates_.hosts[from][k]));
        }
        rates[from][to] = rates_.measured.loaded[from][to] =
            static_cast<double>(flows(from, to)) * rates_.meter.bytes() / last;
      };
      for (auto const& [a, b] : all[r]) {
        into(a, b);
        into(b, a);
      }
    }
  }

  rate_patterns<Meter>& rates_;
  std::vector<double> best_;  // by host: the largest rate of a pair
};

}}}  // namespace blink::BLINK_ABI::detail
