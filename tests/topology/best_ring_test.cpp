// SPDX-License-Identifier: Apache-2.0
#include <blink/topology/best_ring.hpp>
#include <blink/topology/built_in_machines.hpp>

#include "support/expect_error.hpp"
#include "support/simulated_meter.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <random>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::best_ring_test { namespace {

using blink_test::clustered_hosts;

constexpr double giga = 1e9;

/// The number of hops of a ring between ranks of different groups.
template <class Group>
int crossings(std::vector<int> const& order, Group const& group) {
  int result = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    result += group(order[i]) != group(order[(i + 1) % order.size()]) ? 1 : 0;
  }
  return result;
}

void expect_permutation(std::vector<int> order) {
  std::sort(order.begin(), order.end());
  std::vector<int> all(order.size());
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(order, all);
}

TEST(best_ring, hops_that_share_an_uplink_divide_it) {
  // Hosts of two clusters in turn: 0, 1, 0, 1, 0, 1. Three hops cross each uplink each way.
  clustered_hosts hosts{{0, 1, 0, 1, 0, 1}};
  hosts.uplink = {10, 10};
  auto const machine = hosts.machine();
  auto const order = best_ring(machine);
  EXPECT_DOUBLE_EQ(order.as_they_are.bytes_per_second, 10 * giga / 3);
  EXPECT_DOUBLE_EQ(order.cost.bytes_per_second, 10 * giga);
  EXPECT_DOUBLE_EQ(order.gain(), 3);
  EXPECT_EQ(order.ranks, (std::vector<int>{0, 2, 4, 1, 3, 5}));
}

TEST(best_ring, hosts_and_clusters_stay_together) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    clustered_hosts hosts;
    hosts.ranks = 1 + static_cast<int>(random() % 4);
    int const clusters = 2 + static_cast<int>(random() % 6);
    for (int host = 0; host < 8 * clusters; ++host) hosts.cluster_of.push_back(host % clusters);
    std::shuffle(hosts.cluster_of.begin(), hosts.cluster_of.end(), random);
    hosts.uplink.assign(static_cast<std::size_t>(clusters), 25);
    hosts.nic_of.assign(hosts.cluster_of.size(), hosts.nic);
    hosts.nic_of[random() % hosts.nic_of.size()] = 6;  // a slow host does not break the order
    auto const host_of = hosts.host_of();
    auto const order = best_ring(hosts.machine());
    expect_permutation(order.ranks);
    auto const host = [&](int rank) { return host_of[static_cast<std::size_t>(rank)]; };
    auto const cluster = [&](int rank) {
      return hosts.cluster_of[static_cast<std::size_t>(host(rank))];
    };
    EXPECT_EQ(crossings(order.ranks, host), static_cast<int>(hosts.cluster_of.size()));
    EXPECT_EQ(crossings(order.ranks, cluster), clusters);
    EXPECT_DOUBLE_EQ(order.cost.bytes_per_second, 6 * giga);
  }
}

TEST(best_ring, slow_hops_are_avoided) {
  auto machine = *make_built_in_machine("fully_connected:5");
  auto const is_slow = [](link const& l) {
    return std::minmax({l.tail, l.head}) == std::pair(0, 1) ||
           std::minmax({l.tail, l.head}) == std::pair(3, 4);
  };
  machine.steps_per_unit = 2;
  for (auto& l : machine.links) l.capacity *= is_slow(l) ? 1 : 2;
  auto const order = best_ring(machine);
  expect_permutation(order.ranks);
  EXPECT_DOUBLE_EQ(order.gain(), 2);
  EXPECT_DOUBLE_EQ(cost_of_ring(machine, order.ranks).bytes_per_second,
                   order.cost.bytes_per_second);
}

TEST(best_ring, many_ranks) {
  clustered_hosts hosts;
  for (int host = 0; host < 128; ++host) hosts.cluster_of.push_back(host % 8);
  hosts.ranks = 2;
  hosts.uplink.assign(8, 100);
  auto const order = best_ring(hosts.machine());
  expect_permutation(order.ranks);
  EXPECT_DOUBLE_EQ(order.cost.bytes_per_second, hosts.nic * giga);
  EXPECT_DOUBLE_EQ(order.as_they_are.bytes_per_second, 100 * giga / 16);
}

TEST(best_ring, the_time_of_an_all_reduce) {
  clustered_hosts hosts{{0, 0, 1, 1}};
  hosts.uplink = {5, 5};
  hosts.uplink_latency = 1e-6;
  auto const cost = cost_of_ring(hosts.machine(), {0, 1, 2, 3});
  // Each hop has the latencies of two NICs, two of them those of two uplinks.
  EXPECT_DOUBLE_EQ(cost.latency_seconds, 8 * hosts.nic_latency + 4 * hosts.uplink_latency);
  EXPECT_DOUBLE_EQ(cost.bytes_per_second, 5 * giga);
  double const expected = 6 * (2e-6 + (cost.latency_seconds + 1e9 / (5 * giga)) / 4);
  EXPECT_DOUBLE_EQ(ring_all_reduce_seconds(cost, 4, 1e9, 2e-6), expected);
  EXPECT_EQ(ring_all_reduce_seconds(cost, 1, 1e9, 2e-6), 0);
}

TEST(best_ring, one_rank_and_no_path) {
  auto const one = best_ring(*make_built_in_machine("fully_connected:1"));
  EXPECT_EQ(one.ranks, std::vector<int>{0});
  EXPECT_EQ(one.gain(), 0);
  topology apart;
  apart.nodes = {{0, node_kind::rank, ""}, {1, node_kind::rank, ""}};
  EXPECT_EQ(best_ring(apart).cost.bytes_per_second, 0);
  for (auto const& order : {std::vector<int>{0}, {0, 0}, {1, 2}}) {
    EXPECT_ERROR((void)cost_of_ring(apart, order), "expected each of them once");
  }
}

}}  // namespace blink::best_ring_test
