// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/topology/host_clusters.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Hosts in clusters, those in clusters of clusters, and so on.
///
/// Parts of a cluster are grouped by `cluster_hosts`, and the groups again, until they are one.
/// The distance of two parts is the median of those of their hosts, without what a part alone is
/// the cause of. So a part that is far from all others, or has a slow uplink, makes no cluster of
/// the others.
class nested_clusters {
 public:
  explicit nested_clusters(std::size_t hosts) {
    for (std::size_t host = 0; host < hosts; ++host) {
      root_.hosts.push_back(host);
      root_.parts.push_back({{host}, {}});
    }
  }

  /// Groups all hosts by start-ups, which count as they are between single hosts.
  void group_by_start_up(host_table const& seconds) {
    group(root_, seconds, [&](cluster const&, host_table const& between) {
      if (between.size() == seconds.size()) return cluster_hosts(between);
      return nearer_inside(between, cluster_hosts(without_own_links(between)));
    });
  }

  /// Groups the parts of the clusters so many steps below the root by the rates of their hosts. The
  /// larger rate of both directions counts. Only the outermost groups are made, because
  /// links inside them are busy only in a measurement of their own.
  ///
  /// best: by host: the largest rate that it reached
  void group_by_rate(std::size_t depth, host_table const& rates, std::vector<double> const& best) {
    auto const hosts = rates.size();
    host_table seconds(hosts, std::vector<double>(hosts, 0));
    for (std::size_t a = 0; a < hosts; ++a) {
      for (std::size_t b = 0; b < hosts; ++b) {
        auto const here = std::max(rates[a][b], rates[b][a]);
        if (here > 0) seconds[a][b] = 1 / here;
      }
    }
    for (auto* const each : clusters_at(root_, depth)) group_outermost(*each, seconds, best);
  }

  /// The largest depth of a cluster of several hosts. 0: there is only the root.
  [[nodiscard]] std::size_t depth() const {
    return root_.parts.empty() ? 0 : static_cast<std::size_t>(height(root_));
  }
  /// The hosts of each cluster so many steps below the root that has parts to group.
  [[nodiscard]] std::vector<std::vector<std::size_t>> hosts_to_group(std::size_t depth) const {
    std::vector<std::vector<std::size_t>> result;
    for (auto const* const each : clusters_at(root_, depth)) {
      if (each->parts.size() > 2) result.push_back(each->hosts);
    }
    return result;
  }

  /// The cluster of each host so many steps below the root, numbered from 0.
  [[nodiscard]] std::vector<int> labels(std::size_t depth) const {
    std::vector<int> result(root_.hosts.size(), -1);
    int found = 0;
    for (std::size_t above = 0; above <= depth; ++above) {
      for (auto const* const each : clusters_at(root_, above)) {
        for (auto const host : each->hosts) result[host] = found;
        ++found;
      }
    }
    return numbered_by_first(result);
  }

  /// By level, the innermost first: the cluster of each host, numbered from 0 by their first hosts.
  /// A cluster that has no counterpart in a level is in it by itself.
  [[nodiscard]] std::vector<std::vector<int>> levels() const {
    std::vector<std::vector<int>> result;
    for (int level = 0; level < static_cast<int>(depth()); ++level) {
      std::vector<int> cluster_of(root_.hosts.size(), 0);
      int found = 0;
      for (auto const& part : root_.parts) number(part, level, found, cluster_of);
      result.push_back(numbered_by_first(cluster_of));
    }
    return result;
  }

 private:
  struct cluster {
    std::vector<std::size_t> hosts;
    std::vector<cluster> parts;
  };

  /// -1: one host.
  [[nodiscard]] static int height(cluster const& of) {
    int result = -1;
    for (auto const& part : of.parts) result = std::max(result, height(part) + 1);
    return result;
  }
  static void number(cluster const& of, int level, int& found, std::vector<int>& cluster_of) {
    if (height(of) > level) {
      for (auto const& part : of.parts) number(part, level, found, cluster_of);
      return;
    }
    for (auto const host : of.hosts) cluster_of[host] = found;
    ++found;
  }
  /// root: `root_`, or the same in a const tree
  template <class Cluster>
  [[nodiscard]] static std::vector<Cluster*> clusters_at(Cluster& root, std::size_t depth) {
    std::vector<Cluster*> result{&root};
    for (std::size_t k = 0; k < depth; ++k) {
      std::vector<Cluster*> below;
      for (auto* const each : result) {
        for (auto& part : each->parts) below.push_back(&part);
      }
      result = std::move(below);
    }
    return result;
  }

  /// The medians of the distances between hosts of two parts.
  [[nodiscard]] static host_table between_parts(cluster const& of, host_table const& distances) {
    auto const count = of.parts.size();
    host_table result(count, std::vector<double>(count, 0));
    for (std::size_t p = 0; p < count; ++p) {
      for (std::size_t q = 0; q < p; ++q) {
        std::vector<double> found;
        for (auto const a : of.parts[p].hosts) {
          for (auto const b : of.parts[q].hosts) {
            found.insert(found.end(), {distances[a][b], distances[b][a]});
          }
        }
        result[p][q] = result[q][p] = median_of_positive(std::move(found));
      }
    }
    return result;
  }
  /// Takes from start-ups what each part adds to all of its own, such as a long link to its switch.
  /// If all parts meet at one switch, all are then equally far from each other.
  ///
  /// Source: N. Saitou and M. Nei, "The neighbor-joining method", Molecular Biology and
  ///         Evolution 4, 1987.
  [[nodiscard]] static host_table without_own_links(host_table seconds) {
    auto const count = static_cast<double>(seconds.size());
    std::vector<double> own;
    double all = 0;
    for (auto const& row : seconds) {
      double sum = 0, known = 0;
      for (double const each : row) {
        sum += each;
        known += each > 0 ? 1 : 0;
      }
      own.push_back(known > 0 ? sum / known * (count - 1) / (count - 2) : 0);
      all += own.back();
    }
    for (std::size_t p = 0; p < seconds.size(); ++p) {
      for (std::size_t q = 0; q < seconds.size(); ++q) {
        auto const here = seconds[p][q];
        if (here <= 0) continue;
        seconds[p][q] = std::max(0.1 * here, here - own[p] - own[q] + 2 * all / count);
      }
    }
    return seconds;
  }
  /// Dissolves groups whose parts are as far from each other as from the rest. `without_own_links`
  /// leaves where a tree is split, but not on which side its root is.
  [[nodiscard]] static std::vector<int> nearer_inside(host_table const& seconds,
                                                      std::vector<int> labels) {
    constexpr double least = 1.1;
    auto const before = labels;
    for (auto const& members : members_of(before)) {
      double inside = 0, outside = 0, pairs_inside = 0, pairs_outside = 0;
      for (auto const p : members) {
        for (std::size_t q = 0; q < seconds.size(); ++q) {
          if (seconds[p][q] <= 0) continue;
          bool const is_inside = before[p] == before[q];
          (is_inside ? inside : outside) += seconds[p][q];
          (is_inside ? pairs_inside : pairs_outside) += 1;
        }
      }
      if (outside * pairs_inside >= least * inside * pairs_outside) continue;
      for (auto const p : members) labels[p] = static_cast<int>(seconds.size() + p);
    }
    return numbered_by_first(labels);
  }
  /// Divides distances by that of the nearest part, the larger one of both ends. So a slow NIC or
  /// uplink makes no cluster.
  static void relate_to_nearest(cluster const& of, std::vector<double> const& best,
                                host_table& distances) {
    std::vector<double> nearest;
    for (std::size_t p = 0; p < of.parts.size(); ++p) {
      auto const& hosts = of.parts[p].hosts;
      double least = hosts.size() == 1 && best[hosts.front()] > 0 ? 1 / best[hosts.front()] : 0;
      for (double const each : distances[p]) {
        if (each > 0 && (least == 0 || each < least)) least = each;
      }
      nearest.push_back(least);
    }
    for (std::size_t p = 0; p < distances.size(); ++p) {
      for (std::size_t q = 0; q < distances.size(); ++q) {
        if (distances[p][q] > 0) distances[p][q] /= std::max(nearest[p], nearest[q]);
      }
    }
  }
  /// labels_of: clusters parts by the table of their distances
  template <class Labels>
  static void group(cluster& of, host_table const& distances, Labels const& labels_of) {
    while (of.parts.size() > 2) {
      auto const labels = labels_of(of, between_parts(of, distances));
      auto const groups = members_of(labels).size();
      if (groups == 1 || groups == of.parts.size()) return;
      join(of, labels);
    }
  }
  /// Makes a cluster of the parts with the same label.
  static void join(cluster& of, std::vector<int> const& labels) {
    std::vector<cluster> joined;
    for (auto const& members : members_of(labels)) {
      if (members.size() == 1) {
        joined.push_back(std::move(of.parts[members.front()]));
        continue;
      }
      auto& into = joined.emplace_back();
      for (auto const p : members) {
        auto& part = into.parts.emplace_back(std::move(of.parts[p]));
        into.hosts.insert(into.hosts.end(), part.hosts.begin(), part.hosts.end());
      }
    }
    of.parts = std::move(joined);
  }
  /// Groups parts, keeps the outermost groups alone, and moves parts to the nearest one.
  static void group_outermost(cluster& of, host_table const& distances,
                              std::vector<double> const& best) {
    auto const before = of;
    group(of, distances, [&](cluster const& parts, host_table between) {
      relate_to_nearest(parts, best, between);
      return host_clusterer(between).find_clearest();
    });
    if (of.parts.size() == before.parts.size()) return;
    std::map<std::size_t, int> group_of;  // by host
    for (std::size_t p = 0; p < of.parts.size(); ++p) {
      for (auto const host : of.parts[p].hosts) group_of[host] = static_cast<int>(p);
    }
    std::vector<int> labels;
    for (auto const& part : before.parts) labels.push_back(group_of.at(part.hosts.front()));
    auto between = between_parts(before, distances);
    relate_to_nearest(before, best, between);
    of = before;
    join(of, host_clusterer(between).settle(std::move(labels)));
  }

  cluster root_;
};

}}}  // namespace blink::BLINK_ABI::detail
