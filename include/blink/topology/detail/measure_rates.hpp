// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/topology/detail/message_pattern.hpp>
#include <blink/topology/measured_rates.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

// The patterns of messages that a probe measures, for whatever measures a pattern.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Measures rates by a fixed sequence of patterns. Equal seconds give equal sequences, so all ranks
/// measure the same pattern.
template <pattern_meter Meter>
class rate_measurer {
 public:
  /// host_of: by rank, numbered from 0 by their first ranks
  rate_measurer(Meter& meter, std::vector<int> host_of) : meter_(meter) {
    result_.host_of = std::move(host_of);
    auto const ranks = result_.ranks();
    for (std::size_t r = 0; r < ranks; ++r) {
      auto const host = static_cast<std::size_t>(result_.host_of[r]);
      if (hosts_.size() <= host) hosts_.resize(host + 1);
      hosts_[host].push_back(static_cast<int>(r));
    }
    result_.alone.assign(ranks, std::vector<double>(ranks, 0));
    result_.start_up = result_.alone;
    result_.together.assign(ranks, 0);
    result_.between.assign(hosts_.size(), std::vector<double>(hosts_.size(), 0));
    result_.loaded = result_.between;
    result_.out.assign(hosts_.size(), 0);
    result_.in = result_.out;
  }

  [[nodiscard]] measured_rates measure() {
    measure_together();
    if (hosts_.size() > 1) {
      measure_start_up_of_hosts();
      measure_under_load();
      if (hosts_.size() <= few_hosts) measure_pairs_of_hosts(some_pairs(hosts_.size()), 0.75);
      result_.cluster_of = clusters_of_hosts(result_);
      measure_clusters();
      measure_hosts();
    }
    hosts_.size() <= few_hosts ? measure_pairs() : measure_inside_hosts();
    return std::move(result_);
  }

 private:
  using group = std::vector<int>;  // ranks
  static constexpr std::size_t few_hosts = 8;

  [[nodiscard]] message_pattern pattern() const { return message_pattern(result_.ranks()); }
  [[nodiscard]] double& alone(int from, int to) {
    return result_.alone[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
  }
  void set_start_up(int a, int b, double seconds) {
    auto const i = static_cast<std::size_t>(a), k = static_cast<std::size_t>(b);
    result_.start_up[i][k] = result_.start_up[k][i] = seconds;
  }
  [[nodiscard]] static double seconds_of(pattern_seconds const& seconds, int rank) {
    return seconds.of[static_cast<std::size_t>(rank)];
  }

  /// All ranks of each host to the next one.
  void measure_together() {
    auto ring = pattern();
    bool has_any = false;
    for (auto const& ranks : hosts_) {
      for (std::size_t i = 0; i < ranks.size() && ranks.size() > 1; ++i) {
        ring.send(ranks[i], ranks[(i + 1) % ranks.size()]);
        has_any = true;
      }
    }
    if (!has_any) return;
    // Half of what an all-reduce moves is combined on arrival.
    auto const plain = meter_.measure(ring).all;
    ring.combines = true;
    auto const rate = 2 * meter_.bytes() / (plain + meter_.measure(ring).all);
    for (std::size_t r = 0; r < result_.ranks(); ++r) {
      if (ring.to[r] >= 0) result_.together[r] = rate;
    }
  }

  /// The numbers below `count`.
  [[nodiscard]] std::vector<std::size_t> in_random_order(std::size_t count) {
    std::vector<std::size_t> result(count);
    std::iota(result.begin(), result.end(), std::size_t{0});
    std::shuffle(result.begin(), result.end(), random_);
    return result;
  }

  /// The rounds of a tournament of the hosts, in a random order that is the same on all ranks. So
  /// some rounds are a fair sample.
  [[nodiscard]] std::vector<std::vector<std::pair<std::size_t, std::size_t>>> rounds() {
    auto const player = in_random_order(hosts_.size());
    auto result = tournament_rounds(hosts_.size());
    std::shuffle(result.begin(), result.end(), random_);
    for (auto& round : result) {
      for (auto& [a, b] : round) {
        a = player[a];
        b = player[b];
      }
    }
    return result;
  }

  /// Small messages between the first ranks of hosts. They do not compete, so all hosts take part
  /// in each pattern.
  void measure_start_up_of_hosts() {
    constexpr double share = 0.25;  // of the time; the first round is always measured
    for (bool is_first = true; auto const& round : rounds()) {
      if (!std::exchange(is_first, false) && !meter_.has_time(share)) break;
      auto small = pattern();
      small.is_small = true;
      for (auto const& [a, b] : round) small.exchange(hosts_[a].front(), hosts_[b].front());
      auto const seconds = meter_.measure(small);
      for (auto const& [a, b] : round) {
        int const i = hosts_[a].front(), k = hosts_[b].front();
        set_start_up(i, k, (seconds_of(seconds, i) + seconds_of(seconds, k)) / 2);
      }
    }
  }

  /// Large messages both ways between all ranks of two hosts, for all hosts at once. Pairs that
  /// share a link are slower than others.
  void measure_under_load() {
    constexpr double share = 0.5;
    std::size_t const most = 8 * static_cast<std::size_t>(std::bit_width(hosts_.size()));
    auto all = rounds();
    for (std::size_t r = 0; r < std::min(most, all.size()); ++r) {
      if (r > 0 && !meter_.has_time(share)) break;
      auto large = pattern();
      auto const flows = [&](std::size_t a, std::size_t b) {
        return std::min(hosts_[a].size(), hosts_[b].size());
      };
      for (auto const& [a, b] : all[r]) {
        for (std::size_t k = 0; k < flows(a, b); ++k) large.exchange(hosts_[a][k], hosts_[b][k]);
      }
      auto const seconds = meter_.measure(large);
      auto const into = [&](std::size_t from, std::size_t to) {
        double last = 0;
        for (std::size_t k = 0; k < flows(from, to); ++k) {
          last = std::max(last, seconds_of(seconds, hosts_[from][k]));
        }
        result_.loaded[from][to] = static_cast<double>(flows(from, to)) * meter_.bytes() / last;
      };
      for (auto const& [a, b] : all[r]) {
        into(a, b);
        into(b, a);
      }
    }
  }

  /// The rate of a pattern: the most bytes that had arrived by some time, for each second until
  /// then. So a message that comes late by itself does not make the rate of all small.
  [[nodiscard]] double rate_of(message_pattern const& pattern) {
    auto const seconds = meter_.measure(pattern);
    std::vector<double> ends;
    for (std::size_t r = 0; r < pattern.to.size(); ++r) {
      if (pattern.to[r] >= 0) ends.push_back(seconds.of[r]);
    }
    std::ranges::sort(ends);
    double most = 0;
    for (std::size_t k = 0; k < ends.size(); ++k) {
      most = std::max(most, static_cast<double>(k + 1) * meter_.bytes() / ends[k]);
    }
    return most;
  }

  /// The rate from a group to another one, while each rank of the smaller one has a partner.
  [[nodiscard]] double rate_between(group const& from, group const& to) {
    auto large = pattern();
    for (std::size_t k = 0; k < std::min(from.size(), to.size()); ++k) large.send(from[k], to[k]);
    return rate_of(large);
  }

  /// The rate out of the first group or into it, while each of its ranks has a partner in another
  /// one: one rank of each, then the second of each, …
  [[nodiscard]] double rate_outside(std::vector<group> const& groups, bool is_out) {
    auto const& own = groups.front();
    group others;
    for (std::size_t k = 0; others.size() < own.size(); ++k) {
      bool has_more = false;
      for (std::size_t b = 1; b < groups.size(); ++b) {
        if (k >= groups[b].size()) continue;
        others.push_back(groups[b][k]);
        has_more = true;
      }
      if (!has_more) break;
    }
    return is_out ? rate_between(own, others) : rate_between(others, own);
  }
  /// These groups, from number `first` around.
  [[nodiscard]] static std::vector<group> beginning_with(std::size_t first,
                                                         std::vector<group> groups) {
    std::ranges::rotate(groups, groups.begin() + static_cast<std::ptrdiff_t>(first));
    return groups;
  }
  /// A host, then the other hosts of its cluster; those of all clusters if it is alone. So narrow
  /// links between clusters do not count.
  [[nodiscard]] std::vector<group> host_and_others(std::size_t host) const {
    std::vector<group> near;
    std::size_t at = 0;
    for (std::size_t b = 0; b < hosts_.size(); ++b) {
      if (result_.cluster_of[b] != result_.cluster_of[host]) continue;
      if (b == host) at = near.size();
      near.push_back(hosts_[b]);
    }
    return near.size() > 1 ? beginning_with(at, std::move(near)) : beginning_with(host, hosts_);
  }

  /// The ranks of each cluster: one of each host, then the second of each, …
  [[nodiscard]] std::vector<group> ranks_of_clusters() const {
    std::vector<group> result(result_.clusters());
    std::size_t most = 0;
    for (auto const& ranks : hosts_) most = std::max(most, ranks.size());
    for (std::size_t k = 0; k < most; ++k) {
      for (std::size_t host = 0; host < hosts_.size(); ++host) {
        if (k >= hosts_[host].size()) continue;
        result[static_cast<std::size_t>(result_.cluster_of[host])].push_back(hosts_[host][k]);
      }
    }
    return result;
  }

  /// All hosts of a cluster to hosts of the others, and clusters to each other.
  void measure_clusters() {
    constexpr double share = 0.85;
    auto const clusters = ranks_of_clusters();
    auto const count = clusters.size();
    result_.cluster_out.assign(count, 0);
    result_.cluster_in.assign(count, 0);
    result_.cluster_between.assign(count, std::vector<double>(count, 0));
    for (std::size_t c = 0; c < count && count > 1; ++c) {
      if (!meter_.has_time(share)) return;
      result_.cluster_out[c] = rate_outside(beginning_with(c, clusters), true);
      result_.cluster_in[c] = rate_outside(beginning_with(c, clusters), false);
    }
    for (auto const& [c, d] : some_pairs(count)) {
      if (!meter_.has_time(share)) return;
      result_.cluster_between[c][d] = rate_between(clusters[c], clusters[d]);
    }
  }

  /// Pairs of `count`, in both directions and a random order: all of few, else 4 for each.
  [[nodiscard]] std::vector<std::pair<std::size_t, std::size_t>> some_pairs(std::size_t count) {
    constexpr std::size_t most_rounds = 4;
    auto all = tournament_rounds(count);
    std::shuffle(all.begin(), all.end(), random_);
    if (count > few_hosts) all.resize(std::min(all.size(), most_rounds));
    std::vector<std::pair<std::size_t, std::size_t>> result;
    for (auto const& round : all) {
      for (auto const& [a, b] : round) {
        result.emplace_back(a, b);
        result.emplace_back(b, a);
      }
    }
    std::shuffle(result.begin(), result.end(), random_);
    return result;
  }

  void measure_between(std::size_t a, std::size_t b) {
    auto& rate = result_.between[a][b];
    if (rate > 0) return;
    rate = rate_between(hosts_[a], hosts_[b]);
    if (std::min(hosts_[a].size(), hosts_[b].size()) > 1) return;
    alone(hosts_[a].front(), hosts_[b].front()) = rate;
  }

  void measure_pairs_of_hosts(std::vector<std::pair<std::size_t, std::size_t>> const& pairs,
                              double share) {
    for (auto const& [a, b] : pairs) {
      if (meter_.has_time(share)) measure_between(a, b);
    }
  }

  /// Some pairs of hosts of each cluster, and one of each two clusters.
  [[nodiscard]] std::vector<std::pair<std::size_t, std::size_t>> some_pairs_of_hosts() {
    constexpr std::size_t most = 4;  // of a cluster
    auto members = result_.hosts_of_clusters();
    std::vector<std::pair<std::size_t, std::size_t>> pairs;
    for (auto& inside : members) {
      std::shuffle(inside.begin(), inside.end(), random_);
      for (std::size_t k = 0; k + 1 < inside.size() && k < most; ++k) {
        pairs.emplace_back(inside[k], inside[k + 1]);
      }
    }
    for (auto const& [c, d] : some_pairs(members.size())) {
      pairs.emplace_back(members[c][random_() % members[c].size()],
                         members[d][random_() % members[d].size()]);
    }
    return pairs;
  }

  /// Hosts alone: pairs of many of them, which are a sample, and each host to others.
  void measure_hosts() {
    bool const are_few = hosts_.size() <= few_hosts;
    if (!are_few) measure_pairs_of_hosts(some_pairs_of_hosts(), 1);
    for (auto const host : in_random_order(hosts_.size())) {
      if (!are_few && !meter_.has_time(1)) return;
      auto const groups = host_and_others(host);
      result_.out[host] = rate_outside(groups, true);
      result_.in[host] = rate_outside(groups, false);
      for (std::size_t b = 0; b < hosts_.size() && are_few; ++b) {
        result_.out[host] = std::max(result_.out[host], result_.between[host][b]);
        result_.in[host] = std::max(result_.in[host], result_.between[b][host]);
      }
    }
  }

  /// Measures what is not known yet of one pair in each host at once, or of one pair alone.
  void measure_at_once(std::vector<std::pair<int, int>> const& pairs) {
    auto large = pattern(), small = pattern();
    small.is_small = true;
    bool needs_large = false, needs_small = false;
    for (auto const& [a, b] : pairs) {
      large.send(a, b);
      small.exchange(a, b);
      auto const i = static_cast<std::size_t>(a), k = static_cast<std::size_t>(b);
      needs_large = needs_large || result_.alone[i][k] == 0;
      needs_small = needs_small || result_.start_up[i][k] == 0;
    }
    if (needs_large) {
      auto const seconds = meter_.measure(large);
      for (auto const& [a, b] : pairs) alone(a, b) = meter_.bytes() / seconds_of(seconds, a);
    }
    if (!needs_small) return;
    auto const seconds = meter_.measure(small);
    for (auto const& [a, b] : pairs) {
      set_start_up(a, b, (seconds_of(seconds, a) + seconds_of(seconds, b)) / 2);
    }
  }

  /// Each pair alone, in a random order, so that a short time is a fair sample.
  void measure_pairs() {
    std::vector<std::pair<int, int>> pairs;
    for (int a = 0; a < static_cast<int>(result_.ranks()); ++a) {
      for (int b = 0; b < static_cast<int>(result_.ranks()); ++b) {
        if (a != b) pairs.emplace_back(a, b);
      }
    }
    std::shuffle(pairs.begin(), pairs.end(), random_);
    for (auto const& pair : pairs) {
      if (!meter_.has_time(1)) return;
      measure_at_once({pair});
    }
  }

  /// Pairs inside hosts, one in each host at once, in a random order.
  void measure_inside_hosts() {
    std::size_t most = 0;
    for (auto const& ranks : hosts_) most = std::max(most, ranks.size());
    std::vector<std::pair<std::size_t, std::size_t>> places;
    for (std::size_t i = 0; i < most; ++i) {
      for (std::size_t k = 0; k < most; ++k) {
        if (i != k) places.emplace_back(i, k);
      }
    }
    std::shuffle(places.begin(), places.end(), random_);
    for (auto const& [i, k] : places) {
      if (!meter_.has_time(1)) return;
      std::vector<std::pair<int, int>> pairs;
      for (auto const& ranks : hosts_) {
        if (std::max(i, k) < ranks.size()) pairs.emplace_back(ranks[i], ranks[k]);
      }
      measure_at_once(pairs);
    }
  }

  Meter& meter_;
  measured_rates result_;
  std::vector<group> hosts_;  // by host: its ranks
  std::mt19937 random_{1};    // the same on all ranks
};

}}}  // namespace blink::BLINK_ABI::detail
