// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/detail/average_linkage.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

// Clusters of hosts by measured distances: racks, pods or zones.

namespace blink { inline namespace BLINK_ABI {

/// Values of pairs of hosts, such as seconds: row by column. 0: not measured.
using host_table = std::vector<std::vector<double>>;

namespace detail {

/// The middle of some values, the upper one of two.
[[nodiscard]] inline double upper_median(std::vector<double> values) {
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The upper median of the positive values; 0 if there are none.
[[nodiscard]] inline double median_of_positive(std::vector<double> values) {
  std::erase_if(values, [](double each) { return !(each > 0); });
  return values.empty() ? 0 : upper_median(std::move(values));
}

/// The group of each member, for any labels of groups. Groups are numbered from 0 by their first
/// members.
template <class Label>
[[nodiscard]] std::vector<int> numbered_by_first(std::vector<Label> const& labels) {
  std::map<Label, int> numbers;
  std::vector<int> result;
  for (auto const& each : labels) {
    result.push_back(numbers.try_emplace(each, static_cast<int>(numbers.size())).first->second);
  }
  return result;
}

/// The members of each group. `group_of` has the group of each member, numbered from 0.
[[nodiscard]] inline std::vector<std::vector<std::size_t>> members_of(
    std::vector<int> const& group_of) {
  std::vector<std::vector<std::size_t>> result;
  for (std::size_t member = 0; member < group_of.size(); ++member) {
    auto const group = static_cast<std::size_t>(group_of[member]);
    if (result.size() <= group) result.resize(group + 1);
    result[group].push_back(member);
  }
  return result;
}

/// Splits hosts into clusters, and those again, as long as distances show it.
class host_clusterer {
 public:
  explicit host_clusterer(host_table const& distances) : distances_(distances) {
    for (std::size_t a = 0; a < distances.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        double const here = distances[a][b], back = distances[b][a];
        distances_[a][b] = distances_[b][a] =
            here > 0 && back > 0 ? (here + back) / 2 : std::max(here, back);
      }
    }
  }

  [[nodiscard]] std::vector<int> find() {
    cluster_of_.assign(distances_.size(), 0);
    members all(distances_.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    split(all);
    return numbered_by_first(cluster_of_);
  }

  /// The clearest clusters, which are not split again.
  [[nodiscard]] std::vector<int> find_clearest() const {
    members all(distances_.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    auto parts = best_parts(all);
    if (parts.empty()) parts.assign(all.size(), 0);
    return numbered_by_first(parts);
  }

  /// Moves hosts from these clusters, numbered below the number of hosts, to the nearest ones.
  [[nodiscard]] std::vector<int> settle(std::vector<int> cluster_of) const {
    members all(distances_.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    move_to_nearest(logs_among(all), cluster_of);
    return numbered_by_first(cluster_of);
  }

 private:
  using members = std::vector<std::size_t>;  // hosts
  using labels = std::vector<int>;           // by member

  void split(members const& hosts) {
    auto const parts = best_parts(hosts);
    if (parts.empty()) {
      for (auto const host : hosts) cluster_of_[host] = found_;
      ++found_;
      return;
    }
    std::map<int, members> by_part;
    for (std::size_t i = 0; i < hosts.size(); ++i) by_part[parts[i]].push_back(hosts[i]);
    for (auto const& [part, inside] : by_part) split(inside);
  }

  /// The logarithms of the distances of these hosts, at most those of twice their median. So one
  /// message that was delayed does not count as much as many that are not.
  [[nodiscard]] host_table logs_among(members const& hosts) const {
    host_table result(hosts.size(), std::vector<double>(hosts.size(), pair_means::unknown));
    std::vector<double> distances;
    for (std::size_t a = 0; a < hosts.size(); ++a) {
      for (std::size_t b = 0; b < hosts.size(); ++b) {
        auto const here = distances_[hosts[a]][hosts[b]];
        if (a == b || here <= 0) continue;
        result[a][b] = std::log(here);
        distances.push_back(here);
      }
    }
    auto const most = std::log(2 * median_of_positive(std::move(distances)));
    for (auto& row : result) {
      for (double& each : row) each = each == pair_means::unknown ? each : std::min(each, most);
    }
    return result;
  }

  /// The clearest parts of these hosts; empty if they are one cluster.
  [[nodiscard]] labels best_parts(members const& hosts) const {
    if (hosts.size() < 3) return {};
    auto const logs = logs_among(hosts);
    labels best;
    double clearest = hosts.size() < few ? clear_of_few : clear;
    for (auto& part : joined_parts(logs)) {
      move_to_nearest(logs, part);
      double const here = separation(logs, part);
      if (here < clearest || (here == clearest && !best.empty())) continue;
      clearest = here;
      best = std::move(part);
    }
    if (best.empty()) return best;
    join_overlapping(logs, best);
    leave_undecided(logs, best);
    auto const count = std::ranges::count_if(best, [&](int p) { return p != best.front(); });
    return count == 0 ? labels{} : best;
  }

  /// The parts that are left before far merges of the nearest ones, the farthest first.
  [[nodiscard]] static std::vector<labels> joined_parts(host_table const& logs) {
    constexpr std::size_t most = 16;
    auto const size = logs.size();
    pair_means means(size);
    for (std::size_t a = 0; a < size; ++a) {
      for (std::size_t b = 0; b < size; ++b) {
        if (logs[a][b] != pair_means::unknown) means.add(a, b, logs[a][b]);
      }
    }
    auto const merges = join_nearest(std::move(means));
    std::vector<std::pair<double, std::size_t>> jumps;  // after so many merges
    for (std::size_t done = 1; done + 1 < size && done <= merges.size(); ++done) {
      double const next =
          done < merges.size() ? merges[done].distance : std::numeric_limits<double>::max();
      jumps.emplace_back(merges[done - 1].distance - next, done);
    }
    std::ranges::sort(jumps);
    jumps.resize(std::min(jumps.size(), most));
    std::vector<labels> result;
    for (auto const& [jump, done] : jumps) {
      auto& part = result.emplace_back(size);
      std::iota(part.begin(), part.end(), 0);
      for (std::size_t m = 0; m < done; ++m) {
        int const from = part[merges[m].from], into = part[merges[m].into];
        std::ranges::replace(part, from, into);
      }
    }
    return result;
  }

  /// The mean logarithmic distances of a host to the members of each part.
  [[nodiscard]] static std::vector<double> means_from(host_table const& logs, labels const& part,
                                                      std::size_t at) {
    std::vector<double> sums(logs.size(), 0), counts(logs.size(), 0);
    for (std::size_t b = 0; b < logs.size(); ++b) {
      if (logs[at][b] == pair_means::unknown) continue;
      sums[static_cast<std::size_t>(part[b])] += logs[at][b];
      counts[static_cast<std::size_t>(part[b])] += 1;
    }
    for (std::size_t p = 0; p < sums.size(); ++p) {
      sums[p] = counts[p] > 0 ? sums[p] / counts[p] : pair_means::unknown;
    }
    return sums;
  }

  /// The mean of the hosts' silhouettes: how much farther the nearest other part is than the own
  /// one, as the logarithm of the ratio. Hosts alone in their part count 0. The result is 0 if most
  /// hosts are not much nearer to their own part. So a few delayed messages separate nothing.
  [[nodiscard]] static double separation(host_table const& logs, labels const& part) {
    double sum = 0;
    std::vector<double> all;
    for (std::size_t a = 0; a < logs.size(); ++a) {
      auto means = means_from(logs, part, a);
      auto const own = std::exchange(means[static_cast<std::size_t>(part[a])], pair_means::unknown);
      auto const other = *std::ranges::min_element(means);
      bool const is_known = own != pair_means::unknown && other != pair_means::unknown;
      all.push_back(is_known ? other - own : 0);
      sum += all.back();
    }
    return upper_median(std::move(all)) < clear / 2 ? 0 : sum / static_cast<double>(logs.size());
  }

  /// Moves hosts to the part that is nearest to them, which early merges may have missed.
  static void move_to_nearest(host_table const& logs, labels& part) {
    constexpr int most_rounds = 8;
    for (int round = 0, moved = 1; round < most_rounds && moved > 0; ++round) {
      moved = 0;
      for (std::size_t a = 0; a < logs.size(); ++a) {
        auto const means = means_from(logs, part, a);
        auto const own = means[static_cast<std::size_t>(part[a])];
        auto const nearest = std::ranges::min_element(means);
        if (own == pair_means::unknown || *nearest >= own) continue;
        part[a] = static_cast<int>(nearest - means.begin());
        ++moved;
      }
    }
  }

  /// Joins two parts if too many distances between them are no longer than distances within them.
  /// A few delayed messages make means differ, but do not change that.
  static void join_overlapping(host_table const& logs, labels& part) {
    std::map<std::pair<int, int>, std::vector<double>> found;  // sorted, by the lower part first
    for (std::size_t a = 0; a < logs.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (logs[a][b] == pair_means::unknown) continue;
        found[std::minmax({part[a], part[b]})].push_back(logs[a][b]);
      }
    }
    for (auto& [parts, distances] : found) std::ranges::sort(distances);
    std::map<int, int> joined;
    for (int const p : part) joined[p] = p;
    for (auto const& [parts, between] : found) {
      if (parts.first == parts.second) continue;
      double longer = 0, all = 0;  // of a distance within and one between
      for (int const p : {parts.first, parts.second}) {
        for (double const within : found[{p, p}]) {
          longer += static_cast<double>(between.end() - std::ranges::upper_bound(between, within));
          all += static_cast<double>(between.size());
        }
      }
      if (all == 0 || longer >= least_longer * all) continue;
      int const from = joined[parts.second], into = joined[parts.first];
      for (auto& [p, of] : joined) of = of == from ? into : of;
    }
    for (int& p : part) p = joined[p];
  }

  /// Takes hosts out of their part that are as near to another one, such as a host at the switch
  /// where racks meet. Each is then a part by itself.
  static void leave_undecided(host_table const& logs, labels& part) {
    auto const before = part;
    for (std::size_t a = 0; a < logs.size(); ++a) {
      auto means = means_from(logs, before, a);
      auto const own =
          std::exchange(means[static_cast<std::size_t>(before[a])], pair_means::unknown);
      auto const other = *std::ranges::min_element(means);
      if (own == pair_means::unknown || other >= own + least_margin) continue;
      // No other part has this number, for parts are numbered by members of theirs.
      part[a] = static_cast<int>(logs.size() + a);
    }
  }

  static constexpr double least_margin = 0.05;  // a ratio of 1.05
  // The least separation of clusters. Noise of 10 % can separate a few hosts by 1.1 / 0.9.
  static constexpr double least_longer = 0.9;
  static constexpr std::size_t few = 8;
  static constexpr double clear_of_few = 0.2;  // a ratio of 1.22
  static constexpr double clear = 0.14;        // a ratio of 1.15
  host_table distances_;                       // the means of both directions
  std::vector<int> cluster_of_;
  int found_ = 0;
};

}  // namespace detail

/// Clusters of hosts such as racks, pods or zones: hosts are nearer to their own cluster than to
/// any other one.
///
/// Groups of hosts are joined by their mean distance, in logarithms. The result is where the mean
/// silhouette of the hosts is the largest, if others are at least 1.15 times as far (1.22 times for
/// fewer than 8 hosts). Clusters are split again by the same rule. So the innermost of several
/// levels counts. Two hosts are one cluster.
///
/// Measurements with noise of 10 % and gaps of 1.3 or more are recovered; `host_clusters_test.cpp`
/// has the sizes. A sample of the pairs is enough if each host was measured with some of its
/// cluster.
///
/// distances: such as seconds of a small message; 0 where not measured. Both directions count.
/// Returns:   the cluster of each host, numbered from 0 by their first hosts
/// Source:    R. Sokal and C. Michener, "A statistical method for evaluating systematic
///            relationships", 1958 (average linkage); P. Rousseeuw, "Silhouettes", Journal of
///            Computational and Applied Mathematics 20, 1987.
/// Time:      O(H^2) as a rule for H hosts.
/// Throws:    precondition_error unless the table is square.
[[nodiscard]] inline std::vector<int> cluster_hosts(host_table const& distances) {
  for (auto const& row : distances) {
    expects(row.size() == distances.size(),
            "cluster_hosts: rows of other lengths than the number of hosts, expected a square");
  }
  return detail::host_clusterer(distances).find();
}

/// Completes a table of hosts: pairs that were not measured get the median of their two clusters in
/// this direction. Where none of those was measured, they get the median of all pairs within
/// clusters, or between them.
///
/// Time:   O(H^2) for H hosts.
/// Post:   measured pairs are as before; without any pair of its kind, a pair stays 0.
/// Throws: precondition_error for other numbers of hosts.
[[nodiscard]] inline host_table complete_pairs(host_table table,
                                               std::vector<int> const& cluster_of) {
  expects(table.size() == cluster_of.size(),
          "complete_pairs: a table of other hosts than the clusters', expected the same");
  std::map<std::pair<int, int>, std::vector<double>> of_clusters;
  std::map<bool, std::vector<double>> of_all;  // within clusters: true
  auto const hosts = table.size();
  for (std::size_t a = 0; a < hosts; ++a) {
    for (std::size_t b = 0; b < hosts; ++b) {
      if (a == b || table[a][b] <= 0) continue;
      of_clusters[{cluster_of[a], cluster_of[b]}].push_back(table[a][b]);
      of_all[cluster_of[a] == cluster_of[b]].push_back(table[a][b]);
    }
  }
  auto const medians_of = [](auto const& lists) {
    std::map<typename std::decay_t<decltype(lists)>::key_type, double> result;
    for (auto const& [key, values] : lists) result[key] = detail::median_of_positive(values);
    return result;
  };
  auto const medians = medians_of(of_clusters);
  auto const usual = medians_of(of_all);
  for (std::size_t a = 0; a < hosts; ++a) {
    for (std::size_t b = 0; b < hosts; ++b) {
      if (a == b || table[a][b] > 0) continue;
      auto const near = medians.find({cluster_of[a], cluster_of[b]});
      auto const any = usual.find(cluster_of[a] == cluster_of[b]);
      if (near != medians.end()) {
        table[a][b] = near->second;
      } else if (any != usual.end()) {
        table[a][b] = any->second;
      }
    }
  }
  return table;
}

}}  // namespace blink::BLINK_ABI
