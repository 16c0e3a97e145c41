// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/detail/part_joiner.hpp>
#include <blink/topology/host_clusters.hpp>
#include <blink/topology/measured_rates.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

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

/// Replaces values that differ by no more than noise by their median, so that hosts of one kind are
/// equal and plans have few trees. Neighbours in a group differ by 5 % at most, all by a quarter.
inline void merge_near_values(std::vector<double>& values) {
  constexpr double noise = 1.05, most = 1.25;
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return values[i]; });
  for (std::size_t first = 0, end = 0; first < order.size(); first = end) {
    double const least = values[order[first]];
    for (end = first + 1; end < order.size(); ++end) {
      double const here = values[order[end]];
      if (here > noise * values[order[end - 1]] || here > most * least) break;
    }
    double const middle = values[order[first + (end - first) / 2]];
    for (auto k = first; k < end; ++k) values[order[k]] = middle;
  }
}

/// The table of those rows and columns.
[[nodiscard]] inline host_table rows_and_columns(host_table const& table,
                                                 std::vector<std::size_t> const& members) {
  host_table result(members.size(), std::vector<double>(members.size(), 0));
  for (std::size_t i = 0; i < members.size(); ++i) {
    for (std::size_t k = 0; k < members.size(); ++k) result[i][k] = table[members[i]][members[k]];
  }
  return result;
}

/// The machine that fits rates: see `fit_machine`.
class machine_fitter {
 public:
  explicit machine_fitter(measured_rates const& rates)
      : rates_(rates), members_(rates.hosts_of_clusters()), ranks_(members_of(rates.host_of)) {
    ranks_.resize(rates.hosts());
    find_rank_rates();
    find_host_rates();
    find_cluster_rates();
    find_latencies();
  }

  [[nodiscard]] topology fit() {
    for (std::size_t r = 0; r < rates_.ranks(); ++r) {
      joiner_.machine.add_node(node_kind::rank, "rank" + std::to_string(r), rates_.host_of[r]);
    }
    bool const has_pairs = members_.size() > 1 && !core_explains_all();
    std::vector<machine_part> clusters;
    for (std::size_t c = 0; c < members_.size(); ++c) clusters.push_back(join_hosts(c, has_pairs));
    if (clusters.size() > 1) join_clusters(clusters, has_pairs);
    return joiner_.machine.build("probe");
  }

 private:
  /// Ranks whose pairs are about equally fast meet at one switch.
  ///
  /// is_split: the host has a link to each other host
  machine_part join_ranks(std::size_t host, bool is_split) {
    auto const& ranks = ranks_[host];
    auto const server = static_cast<int>(host);
    auto const pairs = rows_and_columns(rates_.alone, ranks);
    std::vector<machine_part> parts;
    std::vector<double> all;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      auto const node = static_cast<int>(ranks[i]);
      auto const rate = rank_rate_[ranks[i]];
      parts.push_back({"port" + std::to_string(node), node, node, rate, rate, 0, server});
      all.insert(all.end(), pairs[i].begin(), pairs[i].end());
    }
    meeting_place const memory{.name = "memory" + std::to_string(host),
                               .server = server,
                               .kind = link_kind::memory,
                               .is_last = rates_.hosts() == 1,
                               .is_split = is_split};
    auto const full = complete_pairs(pairs, std::vector<int>(ranks.size(), 0));
    return joiner_.join(parts, memory, spread_of(all) <= most_spread ? nullptr : &full);
  }

  /// is_split: the cluster has a link to each other cluster
  machine_part join_hosts(std::size_t cluster, bool is_split) {
    auto const& hosts = members_[cluster];
    auto const pairs = rows_and_columns(rates_.between, hosts);
    bool const has_pairs = !switch_explains_all(hosts, pairs);
    std::vector<machine_part> parts;
    for (auto const host : hosts) {
      auto part = join_ranks(host, has_pairs || is_split);
      part.port = "nic" + std::to_string(host);
      part.out = out_[host];
      part.in = in_[host];
      part.latency_seconds = nic_latency_[cluster];
      part.server = static_cast<int>(host);
      parts.push_back(std::move(part));
    }
    if (rates_.hosts() == 1) return parts.front();
    bool const is_only = members_.size() == 1;
    meeting_place const rack{.name = is_only ? "network" : "cluster" + std::to_string(cluster),
                             .has_ports = true,
                             .is_last = is_only,
                             .is_split = is_split};
    auto const full = complete_pairs(pairs, std::vector<int>(hosts.size(), 0));
    auto all = joiner_.join(parts, rack, has_pairs ? &full : nullptr);
    all.port = "uplink" + std::to_string(cluster);
    all.out = cluster_out_[cluster];
    all.in = cluster_in_[cluster];
    all.latency_seconds = uplink_latency_[cluster];
    return all;
  }

  void join_clusters(std::vector<machine_part> const& parts, bool has_pairs) {
    auto pairs = rates_.cluster_between;
    for (std::size_t c = 0; c < parts.size(); ++c) {
      for (std::size_t d = 0; d < parts.size(); ++d) {
        if (pairs[c][d] <= 0) pairs[c][d] = std::min(parts[c].out, parts[d].in);
      }
    }
    meeting_place const core{.name = "network", .is_last = true};
    static_cast<void>(joiner_.join(parts, core, has_pairs ? &pairs : nullptr));
  }

  /// True if hosts of a cluster reach about what their NICs let pass.
  [[nodiscard]] bool switch_explains_all(std::vector<std::size_t> const& hosts,
                                         host_table const& pairs) const {
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      for (std::size_t k = 0; k < hosts.size(); ++k) {
        if (!is_near(pairs[i][k], std::min(out_[hosts[i]], in_[hosts[k]]))) return false;
      }
    }
    return true;
  }
  /// True if clusters reach about what their uplinks, and the NICs of the smaller one, let pass.
  [[nodiscard]] bool core_explains_all() const {
    for (std::size_t c = 0; c < members_.size(); ++c) {
      for (std::size_t d = 0; d < members_.size(); ++d) {
        auto const most = std::min({cluster_out_[c], cluster_in_[d], most_between(c, d)});
        if (!is_near(rates_.cluster_between[c][d], most)) return false;
      }
    }
    return true;
  }
  /// True if a rate was not measured or is about what was expected.
  [[nodiscard]] static bool is_near(double measured, double expected) {
    return measured <= 0 || measured * most_spread >= expected;
  }
  /// The most that the NICs let pass while each host of the smaller cluster has a partner.
  [[nodiscard]] double most_between(std::size_t from, std::size_t to) const {
    double out = 0, in = 0;
    for (std::size_t k = 0; k < std::min(members_[from].size(), members_[to].size()); ++k) {
      out += out_[members_[from][k]];
      in += in_[members_[to][k]];
    }
    return std::min(out, in);
  }

  void find_rank_rates() {
    rank_rate_ = rates_.together;
    for (auto const& ranks : ranks_) {
      for (auto const a : ranks) {
        if (rank_rate_[a] > 0) continue;
        for (auto const b : ranks) {
          rank_rate_[a] = std::max({rank_rate_[a], rates_.alone[a][b], rates_.alone[b][a]});
        }
      }
    }
    merge_near_values(rank_rate_);
  }

  /// The usual rate of a host under load in its cluster. It counts also if the host was measured
  /// alone, because its partner may have been a slow one. If nothing else is known, the best rate
  /// of its pairs counts.
  template <class Pair>
  [[nodiscard]] double usual_rate(std::size_t host, bool is_known, Pair const& pair) const {
    std::vector<double> near;
    double best = 0;
    for (std::size_t b = 0; b < rates_.hosts(); ++b) {
      auto const loaded = rates_.loaded.empty() ? 0 : pair(rates_.loaded, b);
      best = std::max({best, loaded, pair(rates_.between, b)});
      if (rates_.cluster(b) == rates_.cluster(host)) near.push_back(loaded);
    }
    auto const usual = median_of_positive(std::move(near));
    return usual > 0 || is_known ? usual : best;
  }
  void find_host_rates() {
    auto const hosts = rates_.hosts();
    if (hosts == 1) {
      out_ = in_ = {0};
      return;
    }
    std::vector<double> all = rates_.out;
    all.insert(all.end(), rates_.in.begin(), rates_.in.end());
    for (std::size_t host = 0; host < hosts; ++host) {
      auto const out = [&](auto const& of, std::size_t b) { return of[host][b]; };
      auto const in = [&](auto const& of, std::size_t b) { return of[b][host]; };
      all[host] = std::max(all[host], usual_rate(host, all[host] > 0, out));
      all[hosts + host] = std::max(all[hosts + host], usual_rate(host, all[hosts + host] > 0, in));
    }
    auto const usual = median_of_positive(all);
    expects(usual > 0, "fit_machine: no rate between hosts was measured, expected some");
    std::ranges::replace_if(all, [](double each) { return each <= 0; }, usual);
    merge_near_values(all);
    auto const middle = all.begin() + static_cast<std::ptrdiff_t>(hosts);
    out_.assign(all.begin(), middle);
    in_.assign(middle, all.end());
  }
  void find_cluster_rates() {
    auto const clusters = members_.size();
    std::vector<double> all(2 * clusters, 0);
    for (std::size_t c = 0; c < clusters && clusters > 1; ++c) {
      all[c] = rates_.cluster_out[c];
      all[clusters + c] = rates_.cluster_in[c];
      // One that was not measured does not limit its hosts.
      bool const has_out = all[c] > 0, has_in = all[clusters + c] > 0;
      for (auto const host : members_[c]) {
        if (!has_out) all[c] += out_[host];
        if (!has_in) all[clusters + c] += in_[host];
      }
    }
    merge_near_values(all);
    auto const middle = all.begin() + static_cast<std::ptrdiff_t>(clusters);
    cluster_out_.assign(all.begin(), middle);
    cluster_in_.assign(middle, all.end());
  }

  /// Start-ups beyond the common one are latencies of both ways, half of them at each end, in steps
  /// of 2.5 % of the common one.
  void find_latencies() {
    auto const clusters = members_.size();
    auto const common = common_start_up(rates_);
    auto const between = start_up_of_hosts(rates_);
    nic_latency_.assign(clusters, 0);
    uplink_latency_.assign(clusters, 0);
    auto const one_end = [&](std::vector<double> seconds) {
      auto const more = median_of_positive(std::move(seconds)) - common;
      return more <= 0 || common <= 0 ? 0 : std::round(10 * more / common) * common / 40;
    };
    for (std::size_t c = 0; c < clusters; ++c) {
      std::vector<double> near, far;
      for (auto const host : members_[c]) {
        for (std::size_t b = 0; b < rates_.hosts(); ++b) {
          (rates_.cluster(b) == static_cast<int>(c) ? near : far).push_back(between[host][b]);
        }
      }
      nic_latency_[c] = one_end(std::move(near));
      uplink_latency_[c] = one_end(std::move(far));
    }
    merge_near_values(nic_latency_);
    merge_near_values(uplink_latency_);
    for (std::size_t c = 0; c < clusters; ++c) {
      uplink_latency_[c] = std::max(0.0, uplink_latency_[c] - nic_latency_[c]);
    }
  }

  static constexpr double most_spread = 1.25;
  measured_rates const& rates_;
  std::vector<std::vector<std::size_t>> members_;  ///< by cluster: hosts
  std::vector<std::vector<std::size_t>> ranks_;    ///< by host
  std::vector<double> rank_rate_, out_, in_, cluster_out_, cluster_in_;
  std::vector<double> nic_latency_, uplink_latency_;  ///< by cluster, of one link
  part_joiner joiner_;
};

}  // namespace detail

/// The machine that fits what was measured. Its ranks are those measured, in their order.
///
/// Ranks of a host meet at a switch, with the rates at which they move data while all of them do.
/// Each host has a NIC with its rates out and in. The NICs of a cluster meet at one switch, and the
/// switches of clusters at another one, over links with the rates of whole clusters. Where one
/// switch does not explain the rates of pairs, each pair has a link.
///
/// Rates that were not measured are the usual ones of the cluster. Rates that differ by no more
/// than noise are equal in the result (`detail::merge_near_values`). Latencies are those of NICs
/// and clusters beyond `common_start_up`.
///
/// Pre:    `together` or `alone` of each rank of a host of several, and some rate between several
///         hosts, are measured.
/// Time:   O(n^2) for n ranks.
/// Post:   `validate` accepts the result. Rates are multiples of 1 MB/s.
/// Throws: precondition_error if nothing was measured, or for other numbers of clusters.
[[nodiscard]] inline topology fit_machine(measured_rates const& rates) {
  expects(rates.ranks() > 0 && rates.hosts() > 0,
          "fit_machine: no rank was measured, expected one or more");
  auto const clusters = rates.clusters();
  bool const has_clusters = rates.cluster_of.empty() || rates.cluster_of.size() == rates.hosts();
  bool const has_rates = rates.cluster_out.size() == clusters &&
                         rates.cluster_in.size() == clusters &&
                         rates.cluster_between.size() == clusters;
  expects(has_clusters && (clusters == 1 || has_rates),
          "fit_machine: rates of other clusters than those of the hosts, expected the same");
  return detail::machine_fitter(rates).fit();
}

}}  // namespace blink::BLINK_ABI
