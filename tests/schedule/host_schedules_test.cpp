// SPDX-License-Identifier: Apache-2.0
// Schedules of ranks on several hosts: valid, with one edge into each other host in each tree.

#include <blink/schedule/default_tuning.hpp>
#include <blink/schedule/host_schedules.hpp>
#include <blink/schedule/operand_order.hpp>
#include <blink/schedule/schedule.hpp>

#include "support/expect_error.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <vector>

// A folder may be compiled as one source.
namespace host_schedules_test { namespace {

using blink::collective;
using blink::way_through_hosts;
using hosts_by_rank = std::vector<std::uint64_t>;

/// Up to five hosts with up to nine ranks each, in any order.
hosts_by_rank random_hosts(std::mt19937_64& random) {
  hosts_by_rank result;
  for (std::uint64_t host = 0; host < 1 + random() % 5; ++host) {
    result.insert(result.end(), 1 + random() % 9, 77 - host);
  }
  if (random() % 2 == 0) std::shuffle(result.begin(), result.end(), random);
  return result;
}

void expect_one_edge_into_each_host(blink::schedule const& made, hosts_by_rank const& hosts) {
  std::set<std::uint64_t> const all(hosts.begin(), hosts.end());
  for (auto const& tree : made.trees) {
    EXPECT_EQ(tree.reduce_parent, tree.broadcast_parent);
    std::map<std::uint64_t, int> edges;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      int const parent = tree.broadcast_parent[rank];
      if (parent < 0) continue;
      if (hosts[static_cast<std::size_t>(parent)] != hosts[rank]) ++edges[hosts[rank]];
    }
    EXPECT_EQ(edges.size() + 1, all.size());
    EXPECT_EQ(edges.count(hosts[static_cast<std::size_t>(tree.root)]), 0U);
    for (auto const& [host, count] : edges) EXPECT_EQ(count, 1) << host;
  }
}

TEST(host_schedules, cross_into_each_host_once_in_each_tree) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    auto const hosts = random_hosts(random);
    auto const all = blink::hosts_schedule(hosts);
    blink::validate(all);
    EXPECT_EQ(all.trees.size(), hosts.size());
    expect_one_edge_into_each_host(all, hosts);
    // The trees of each host together have the same share.
    std::map<std::uint64_t, std::uint64_t> shares;
    for (auto const& tree : all.trees) {
      shares[hosts[static_cast<std::size_t>(tree.root)]] += tree.weight;
    }
    for (auto const& [host, share] : shares) EXPECT_EQ(share, shares.begin()->second) << host;
    int const root = static_cast<int>(random() % hosts.size());
    for (auto const way : {way_through_hosts::binomial, way_through_hosts::chain}) {
      auto const one = blink::host_tree_schedule(hosts, root, way);
      blink::validate(one);
      EXPECT_EQ(one.trees[0].root, root);
      expect_one_edge_into_each_host(one, hosts);
    }
  }
}

TEST(host_schedules, keep_the_order_of_ranks_if_hosts_have_consecutive_ranks) {
  EXPECT_TRUE(blink::reduces_in_order(blink::hosts_schedule({5, 5, 5, 3, 3, 9})));
  EXPECT_FALSE(blink::reduces_in_order(blink::hosts_schedule({5, 3, 5, 3})));
}

TEST(host_schedules, of_wrong_arguments_are_refused) {
  EXPECT_ERROR(static_cast<void>(blink::hosts_schedule({})), "no ranks, expected at least one");
  EXPECT_ERROR(static_cast<void>(blink::host_tree_schedule({1, 1, 2}, 3, way_through_hosts::chain)),
               "host_tree_schedule");
}

TEST(host_schedules, are_the_default_among_hosts_with_several_ranks_alone) {
  auto const first_of = [](collective kind, hosts_by_rank const& hosts) {
    auto const table = blink::default_tuning(kind, 4, 0, {false, false, hosts});
    blink::validate(table);
    return table.algorithms[table.ranges.back().algorithm].name;
  };
  for (auto const kind : {collective::all_reduce, collective::all_gather, collective::broadcast,
                          collective::reduce, collective::reduce_scatter, collective::barrier}) {
    EXPECT_EQ(first_of(kind, {1, 1, 2, 2}).substr(0, 4), "host") << to_text(kind);
    EXPECT_NE(first_of(kind, {1, 2, 3, 4}).substr(0, 4), "host") << to_text(kind);
    EXPECT_NE(first_of(kind, {1, 1, 1, 1}).substr(0, 4), "host") << to_text(kind);
  }
  EXPECT_EQ(first_of(collective::all_to_all, {1, 1, 2, 2}), "direct");
}

}}  // namespace host_schedules_test
