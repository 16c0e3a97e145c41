// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/detail/cluster_flows.hpp>
#include <blink/topology/detail/part_joiner.hpp>
#include <blink/topology/host_clusters.hpp>
#include <blink/topology/measured_rates.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
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
      : rates_(rates),
        flows_(rates),
        levels_(rates.levels.size()),
        ranks_(members_of(rates.host_of)) {
    ranks_.resize(rates.hosts());
    for (std::size_t level = 0; level <= levels_; ++level) parts_.push_back(flows_.parts(level));
    find_rank_rates();
    find_host_rates();
    for (std::size_t level = 0; level < levels_; ++level) find_cluster_rates(level);
    find_latencies();
  }

  [[nodiscard]] topology fit() {
    for (std::size_t r = 0; r < rates_.ranks(); ++r) {
      joiner_.machine.add_node(node_kind::rank, "rank" + std::to_string(r), rates_.host_of[r]);
    }
    static_cast<void>(join_parts(levels_, 0, false));
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

  /// Joins the hosts of a cluster, or its clusters of the level below.
  ///
  /// is_split: a cluster around it has links of pairs
  machine_part join_parts(std::size_t level, std::size_t cluster, bool is_split) {
    auto const& inside = parts_[level][cluster];
    if (level > 0 && inside.size() == 1) return join_parts(level - 1, inside.front(), is_split);
    auto pairs =
        rows_and_columns(level == 0 ? rates_.between : rates_.levels[level - 1].between, inside);
    bool const has_pairs = !place_explains_all(level, inside, pairs);
    std::vector<machine_part> parts;
    for (auto const k : inside) {
      auto part = level == 0 ? join_ranks(k, has_pairs || is_split)
                             : join_parts(level - 1, k, has_pairs || is_split);
      part.port = level == 0 ? "nic" + std::to_string(k) : name_of("uplink", level - 1, k);
      part.out = out_[level][k];
      part.in = in_[level][k];
      part.latency_seconds = latency_[level][k];
      part.server = level == 0 ? static_cast<int>(k) : -1;
      parts.push_back(std::move(part));
    }
    if (rates_.hosts() == 1) return parts.front();
    bool const is_last = level == levels_;
    meeting_place const place{.name = is_last ? "network" : name_of("cluster", level, cluster),
                              .has_ports = level == 0,
                              .is_last = is_last,
                              .is_split = is_split};
    if (level == 0) {
      pairs = complete_pairs(std::move(pairs), std::vector<int>(inside.size(), 0));
    } else {
      for (std::size_t c = 0; c < parts.size(); ++c) {
        for (std::size_t d = 0; d < parts.size(); ++d) {
          if (pairs[c][d] <= 0) pairs[c][d] = std::min(parts[c].out, parts[d].in);
        }
      }
    }
    return joiner_.join(parts, place, has_pairs ? &pairs : nullptr);
  }
  /// Names such as cluster0, and level2_cluster0 for the level after the innermost one.
  [[nodiscard]] static std::string name_of(char const* what, std::size_t level, std::size_t k) {
    auto const before = level == 0 ? "" : "level" + std::to_string(level + 1) + "_";
    return before + what + std::to_string(k);
  }

  /// True if hosts or clusters that meet at one place reach about what their NICs and uplinks let
  /// pass.
  [[nodiscard]] bool place_explains_all(std::size_t level, std::vector<std::size_t> const& inside,
                                        host_table const& pairs) const {
    // Rates of many messages at once vary more, because each may be delayed.
    double const most = level == 0 ? most_spread : most_spread_of_clusters;
    for (std::size_t i = 0; i < inside.size(); ++i) {
      for (std::size_t k = 0; k < inside.size(); ++k) {
        if (i != k && !is_near(pairs[i][k], least_between(level, inside[i], inside[k]), most)) {
          return false;
        }
      }
    }
    return true;
  }
  /// True if a rate was not measured or is about what was expected.
  [[nodiscard]] static bool is_near(double measured, double expected, double spread) {
    return measured <= 0 || measured * spread >= expected;
  }
  /// The least that gets from one part to another one while each rank of the smaller one has a
  /// partner, if messages share links fairly: all of them as slow as the slowest.
  [[nodiscard]] double least_between(std::size_t level, std::size_t from, std::size_t to) const {
    if (level == 0) return std::min(out_[0][from], in_[0][to]);
    auto const flows = flows_between(flows_.ranks(level - 1, from), flows_.ranks(level - 1, to));
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t below = 0; below <= level; ++below) {
      std::map<std::size_t, int> senders, receivers;  // by part: flows over its link
      for (auto const& [a, b] : flows) {
        ++senders[part(below, static_cast<std::size_t>(a))];
        ++receivers[part(below, static_cast<std::size_t>(b))];
      }
      for (auto const& [at, uses] : senders) least = std::min(least, out_[below][at] / uses);
      for (auto const& [at, uses] : receivers) least = std::min(least, in_[below][at] / uses);
    }
    return least * static_cast<double>(flows.size());
  }
  /// The host of a rank, or its cluster of the level below.
  [[nodiscard]] std::size_t part(std::size_t level, std::size_t rank) const {
    auto const host = static_cast<std::size_t>(rates_.host_of[rank]);
    return level == 0 ? host : label(level - 1, host);
  }
  [[nodiscard]] std::size_t label(std::size_t level, std::size_t host) const {
    return static_cast<std::size_t>(rates_.levels[level].cluster_of[host]);
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
      out_.assign(1, {0.0});
      in_ = out_;
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
    add_level(all);
  }
  /// The uplinks of a level. One that was not measured does not limit what is inside.
  void find_cluster_rates(std::size_t level) {
    auto const& clusters = parts_[level];
    std::vector<double> all = rates_.levels[level].out;
    all.insert(all.end(), rates_.levels[level].in.begin(), rates_.levels[level].in.end());
    for (std::size_t c = 0; c < clusters.size(); ++c) {
      bool const has_out = all[c] > 0, has_in = all[clusters.size() + c] > 0;
      for (auto const part : clusters[c]) {
        if (!has_out) all[c] += out_[level][part];
        if (!has_in) all[clusters.size() + c] += in_[level][part];
      }
    }
    add_level(all);
  }
  /// all: of hosts or clusters, out and then in
  void add_level(std::vector<double> all) {
    merge_near_values(all);
    auto const middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
    out_.emplace_back(all.begin(), middle);
    in_.emplace_back(middle, all.end());
  }

  /// Start-ups beyond the common one are latencies of both ways, half of them at each end, in steps
  /// of 2.5 % of the common one. Those of a level are what pairs that meet there have beyond the
  /// levels below.
  void find_latencies() {
    auto const common = common_start_up(rates_);
    auto const between = start_up_of_hosts(rates_);
    auto const one_end = [&](std::vector<double> seconds) {
      auto const more = median_of_positive(std::move(seconds)) - common;
      return more <= 0 || common <= 0 ? 0 : std::round(10 * more / common) * common / 40;
    };
    std::vector<double> below(rates_.hosts(), 0);  // by host: up to the level
    for (std::size_t level = 0; level <= levels_; ++level) {
      auto const count = level == 0 ? rates_.hosts() : parts_[level - 1].size();
      std::vector<double> seconds(count, 0);
      for (std::size_t place = 0; place < parts_[level].size(); ++place) {
        // NICs of a cluster are alike, and their pairs many.
        std::vector<double> all;
        for (auto const part : parts_[level][place]) {
          std::vector<double> own;
          for (auto const a : hosts_of_part(level, part)) {
            for (auto const b : flows_.hosts(level, place)) {
              bool const is_own = level == 0 ? a == b : label(level - 1, a) == label(level - 1, b);
              if (!is_own) own.push_back(between[a][b]);
            }
          }
          all.insert(all.end(), own.begin(), own.end());
          if (level > 0) seconds[part] = one_end(std::move(own));
        }
        if (level > 0) continue;
        auto const usual = one_end(std::move(all));
        for (auto const part : parts_[level][place]) seconds[part] = usual;
      }
      merge_near_values(seconds);
      for (std::size_t part = 0; part < count; ++part) {
        auto const& hosts = hosts_of_part(level, part);
        std::vector<double> known;
        for (auto const host : hosts) known.push_back(below[host]);
        seconds[part] = std::max(0.0, seconds[part] - upper_median(std::move(known)));
        for (auto const host : hosts) below[host] += seconds[part];
      }
      latency_.push_back(std::move(seconds));
    }
  }
  /// The hosts of a part that meets others at `level`.
  [[nodiscard]] std::vector<std::size_t> hosts_of_part(std::size_t level, std::size_t part) const {
    return level == 0 ? std::vector<std::size_t>{part} : flows_.hosts(level - 1, part);
  }

  static constexpr double most_spread = 1.25, most_spread_of_clusters = 1.4;
  measured_rates const& rates_;
  cluster_flows flows_;
  std::size_t levels_;
  std::vector<std::vector<std::size_t>> ranks_;  ///< by host
  std::vector<double> rank_rate_;
  /// By level and cluster, also of the one that has all: its hosts, or clusters of the level below.
  std::vector<std::vector<std::vector<std::size_t>>> parts_;
  /// Of the link of each part to where the parts of a level meet.
  std::vector<std::vector<double>> out_, in_, latency_;
  part_joiner joiner_;
};

}  // namespace detail

/// The machine that fits what was measured. Its ranks are those measured, in their order.
///
/// Ranks of a host meet at a switch, with the rates at which they move data while all of them do.
/// Each host has a NIC with its rates out and in. The NICs of a cluster meet at one switch. The
/// switches of clusters meet at that of the next level, over links with the rates of whole
/// clusters. Those of the last level meet at one more. Where one switch does not explain the rates
/// of pairs, each pair has a link. A cluster of one part has no switch.
///
/// Rates that were not measured are the usual ones of the cluster. Rates that differ by no more
/// than noise are equal in the result (`detail::merge_near_values`). Latencies are those of NICs
/// and clusters beyond `common_start_up`.
///
/// Pre:    `together` or `alone` of each rank of a host of several, and some rate between several
///         hosts, are measured.
/// Time:   O(L n^2) for n ranks and L levels.
/// Post:   `validate` accepts the result. Rates are multiples of 1 MB/s.
/// Throws: precondition_error if nothing was measured, or for levels of other hosts or clusters.
[[nodiscard]] inline topology fit_machine(measured_rates const& rates) {
  expects(rates.ranks() > 0 && rates.hosts() > 0,
          "fit_machine: no rank was measured, expected one or more");
  for (std::size_t level = 0; level < rates.levels.size(); ++level) {
    auto const& here = rates.levels[level];
    auto const clusters = here.clusters();
    bool const is_numbered = std::ranges::all_of(here.cluster_of, [](int c) { return c >= 0; });
    expects(is_numbered && here.cluster_of.size() == rates.hosts() && here.out.size() == clusters &&
                here.in.size() == clusters && here.between.size() == clusters,
            "fit_machine: rates of other clusters than those of the hosts, expected the same");
    for (auto const& inside : rates.hosts_of_clusters(level)) {
      bool const is_joined =
          !inside.empty() &&
          (level + 1 == rates.levels.size() || std::ranges::all_of(inside, [&](std::size_t host) {
             auto const& above = rates.levels[level + 1].cluster_of;
             return above.size() == rates.hosts() && above[host] == above[inside.front()];
           }));
      expects(is_joined,
              "fit_machine: a cluster is empty or in several of the next level, expected one");
    }
  }
  return detail::machine_fitter(rates).fit();
}

}}  // namespace blink::BLINK_ABI
