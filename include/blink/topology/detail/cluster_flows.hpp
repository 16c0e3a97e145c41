// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/topology/host_clusters.hpp>
#include <blink/topology/measured_rates.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Senders and receivers of messages that cross at the same time.
using message_flows = std::vector<std::pair<int, int>>;

/// Flows from each rank of `from` to the rank of `to` at the same place, as many as both have.
[[nodiscard]] inline message_flows flows_between(std::vector<int> const& from,
                                                 std::vector<int> const& to) {
  message_flows result;
  for (std::size_t k = 0; k < std::min(from.size(), to.size()); ++k) {
    result.emplace_back(from[k], to[k]);
  }
  return result;
}

/// The flows that measure clusters of hosts. Level `levels.size()` is one cluster of all hosts.
class cluster_flows {
 public:
  explicit cluster_flows(measured_rates const& rates)
      : rates_(rates), ranks_of_hosts_(members_of(rates.host_of)) {
    in_turn_.push_back({});  // hosts by level and cluster; level -1: each host alone
    for (std::size_t host = 0; host < rates.hosts(); ++host) in_turn_.back().push_back({host});
    for (std::size_t level = 0; level <= rates.levels.size(); ++level) {
      auto& here = in_turn_.emplace_back();
      for (auto const& inside : parts(level)) {
        std::vector<std::vector<std::size_t>> below;
        for (auto const part : inside) below.push_back(in_turn_[level][part]);
        here.push_back(taken_in_turn(below));
      }
    }
  }

  /// By cluster of a level: its hosts (level 0), or its clusters of the level below.
  [[nodiscard]] std::vector<std::vector<std::size_t>> parts(std::size_t level) const {
    std::vector<int> labels;
    if (level == rates_.levels.size()) {
      labels.assign(level == 0 ? rates_.hosts() : rates_.levels.back().clusters(), 0);
    } else if (level == 0) {
      labels = rates_.levels.front().cluster_of;
    } else {
      labels.resize(rates_.levels[level - 1].clusters());
      for (std::size_t host = 0; host < rates_.hosts(); ++host) {
        auto const below = static_cast<std::size_t>(rates_.levels[level - 1].cluster_of[host]);
        labels[below] = rates_.levels[level].cluster_of[host];
      }
    }
    return members_of(labels);
  }

  /// The hosts of a cluster, of which those of its parts take turns, and of their parts again. So
  /// the first ones spread over all uplinks.
  [[nodiscard]] std::vector<std::size_t> const& hosts(std::size_t level,
                                                      std::size_t cluster) const {
    return in_turn_[level + 1][cluster];
  }
  /// One rank of each of those hosts, then the second of each, …
  [[nodiscard]] std::vector<int> ranks(std::vector<std::size_t> const& hosts) const {
    std::vector<std::vector<int>> of_hosts;
    for (auto const host : hosts) {
      auto& here = of_hosts.emplace_back();
      for (auto const rank : ranks_of_hosts_[host]) here.push_back(static_cast<int>(rank));
    }
    return taken_in_turn(of_hosts);
  }
  [[nodiscard]] std::vector<int> ranks(std::size_t level, std::size_t cluster) const {
    return ranks(hosts(level, cluster));
  }

  /// From each rank of these hosts, or to it: a rank of other hosts of the cluster of `level` that
  /// has all of them. Empty if it has no others.
  [[nodiscard]] message_flows outside(std::vector<std::size_t> const& own, std::size_t level,
                                      bool is_out) const {
    auto const around =
        level < rates_.levels.size() ? rates_.levels[level].cluster_of[own.front()] : 0;
    std::vector<bool> is_own(rates_.hosts(), false);
    for (auto const host : own) is_own[host] = true;
    auto others = hosts(level, static_cast<std::size_t>(around));
    // The hosts after the first own one come first, so that not all send to the same.
    auto const first = std::ranges::find(others, own.front());
    std::ranges::rotate(others, first);
    std::erase_if(others, [&](std::size_t host) { return is_own[host]; });
    return is_out ? flows_between(ranks(own), ranks(others))
                  : flows_between(ranks(others), ranks(own));
  }

 private:
  /// The first of each list, then the second of each, …
  template <class T>
  [[nodiscard]] static std::vector<T> taken_in_turn(std::vector<std::vector<T>> const& lists) {
    std::size_t most = 0;
    for (auto const& each : lists) most = std::max(most, each.size());
    std::vector<T> result;
    for (std::size_t k = 0; k < most; ++k) {
      for (auto const& each : lists) {
        if (k < each.size()) result.push_back(each[k]);
      }
    }
    return result;
  }

  measured_rates const& rates_;
  std::vector<std::vector<std::size_t>> ranks_of_hosts_;
  std::vector<std::vector<std::vector<std::size_t>>> in_turn_;
};

}}}  // namespace blink::BLINK_ABI::detail
