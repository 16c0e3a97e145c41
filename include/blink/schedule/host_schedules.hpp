// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/schedule/schedule.hpp>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

// Schedules of ranks on several hosts. Each tree has one edge into each host but the root's. So
// data crosses the network once. Trees that do not know hosts carry it once for each rank.

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// The ranks of each host, by rising rank, and the position of each rank on its host.
struct hosts_of_ranks {
  /// hosts: by rank, a number that is equal for ranks of one host
  template <class = when_used>
  explicit hosts_of_ranks(std::vector<std::uint64_t> const& hosts) {
    std::vector<std::uint64_t> known;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      std::size_t host = 0;
      while (host < known.size() && known[host] != hosts[rank]) ++host;
      if (host == known.size()) known.push_back(hosts[rank]);
      if (host == ranks.size()) ranks.emplace_back();
      host_of.push_back(host);
      position.push_back(ranks[host].size());
      ranks[host].push_back(static_cast<int>(rank));
    }
  }

  std::vector<std::vector<int>> ranks;  ///< by host
  std::vector<std::size_t> host_of;     ///< by rank
  std::vector<std::size_t> position;    ///< by rank, among the ranks of its host

  /// Makes the other ranks of a host children of one of them, or the nodes of a binomial tree below
  /// it.
  template <class = when_used>
  void join_host(std::vector<int>& parents, std::size_t host, int leader, bool is_binomial) const {
    auto const& all = ranks[host];
    auto const first = position[static_cast<std::size_t>(leader)];
    for (std::size_t distance = 1; distance < all.size(); ++distance) {
      auto const above = is_binomial ? distance & (distance - 1) : 0;
      parents[static_cast<std::size_t>(all[(first + distance) % all.size()])] =
          all[(first + above) % all.size()];
    }
  }
  /// The rank of a host at a position, of which there may be fewer.
  [[nodiscard]] int rank_at(std::size_t host, std::size_t at) const {
    return ranks[host][at % ranks[host].size()];
  }
};

}  // namespace detail

/// A schedule in which every rank roots a tree. The ranks of the root's host are its children. On
/// each other host one rank is a child of the root and the parent of the others; it takes turns.
/// Hosts have equal shares. For an all-reduce each host sends and receives 2 (h - 1) / h times the
/// buffer, the least of all schedules among h hosts.
///
/// hosts: by rank, a number that is equal for ranks of one host
/// Pre:   at least one rank.
template <class = when_used>
[[nodiscard]] schedule hosts_schedule(std::vector<std::uint64_t> const& hosts) {
  expects(!hosts.empty(), "hosts_schedule: no ranks, expected at least one");
  detail::hosts_of_ranks const all(hosts);
  std::uint64_t most = 1;  // a multiple of the ranks of every host, unless that is too large
  for (auto const& of_host : all.ranks) {
    auto const next = std::lcm(most, std::uint64_t{of_host.size()});
    most = next < (std::uint64_t{1} << 32) ? next : most;
  }
  schedule result;
  result.rank_count = static_cast<int>(hosts.size());
  for (std::size_t root = 0; root < hosts.size(); ++root) {
    int const root_rank = static_cast<int>(root);
    std::vector<int> parents(hosts.size(), -1);
    for (std::size_t host = 0; host < all.ranks.size(); ++host) {
      bool const is_own = host == all.host_of[root];
      int const leader = is_own ? root_rank : all.rank_at(host, all.position[root]);
      if (!is_own) parents[static_cast<std::size_t>(leader)] = root_rank;
      all.join_host(parents, host, leader, false);
    }
    auto& tree = result.trees.emplace_back(detail::both_phases(root_rank, std::move(parents)));
    auto const weight = most / all.ranks[all.host_of[root]].size();
    tree.weight = weight == 0 ? 1 : weight;
  }
  return result;
}

/// The way of one tree through hosts.
enum class way_through_hosts {
  binomial,  ///< few steps, for small buffers
  chain      ///< each host sends once, for large buffers
};

/// One tree, in which each host has one edge from another one. It ends at the rank from which the
/// other ranks of the host get the data.
///
/// hosts:  by rank, a number that is equal for ranks of one host
/// Throws: precondition_error if `root` is no rank.
template <class = when_used>
[[nodiscard]] schedule host_tree_schedule(std::vector<std::uint64_t> const& hosts, int root,
                                          way_through_hosts way) {
  detail::expect_root("host_tree_schedule", static_cast<int>(hosts.size()), root);
  detail::hosts_of_ranks const all(hosts);
  constexpr std::size_t few = 8;  // ranks that one rank serves
  std::size_t const count = all.ranks.size();
  std::size_t const first = all.host_of[static_cast<std::size_t>(root)];
  auto const leader = [&](std::size_t host) { return host == first ? root : all.rank_at(host, 0); };
  std::vector<int> parents(hosts.size(), -1);
  for (std::size_t distance = 0; distance < count; ++distance) {
    auto const host = (first + distance) % count;
    if (distance > 0) {
      auto const above = way == way_through_hosts::chain ? distance - 1 : distance & (distance - 1);
      parents[static_cast<std::size_t>(leader(host))] = leader((first + above) % count);
    }
    all.join_host(parents, host, leader(host), all.ranks[host].size() > few);
  }
  schedule result;
  result.rank_count = static_cast<int>(hosts.size());
  result.trees.push_back(detail::both_phases(root, std::move(parents)));
  return result;
}

}}  // namespace blink::BLINK_ABI
