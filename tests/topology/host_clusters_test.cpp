// SPDX-License-Identifier: Apache-2.0
#include <blink/topology/host_clusters.hpp>

#include "support/expect_error.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::host_clusters_test { namespace {

/// Hosts of known clusters, in random order.
struct known_hosts {
  std::vector<int> cluster_of;
  host_table distances;
};

/// distance: of two hosts, by their clusters, without noise
/// noise:    the largest relative error
/// share:    of the pairs that were measured
template <class Distance>
known_hosts make_hosts(std::vector<int> const& sizes, Distance const& distance, double noise,
                       double share, std::mt19937& random) {
  known_hosts result;
  for (std::size_t c = 0; c < sizes.size(); ++c) {
    result.cluster_of.insert(result.cluster_of.end(), static_cast<std::size_t>(sizes[c]),
                             static_cast<int>(c));
  }
  std::shuffle(result.cluster_of.begin(), result.cluster_of.end(), random);
  result.cluster_of = detail::numbered_by_first(result.cluster_of);
  auto const hosts = result.cluster_of.size();
  result.distances.assign(hosts, std::vector<double>(hosts, 0));
  std::uniform_real_distribution<double> factor(1 - noise, 1 + noise);
  std::bernoulli_distribution is_measured(share);
  for (std::size_t a = 0; a < hosts; ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      if (!is_measured(random)) continue;
      result.distances[a][b] = result.distances[b][a] =
          distance(result.cluster_of[a], result.cluster_of[b]) * factor(random);
    }
  }
  return result;
}

constexpr double noise = 0.1;

/// Between 2 and 8 clusters of at least `least` hosts.
std::vector<int> random_sizes(std::mt19937& random, int least) {
  std::vector<int> sizes(2 + random() % 7);
  for (int& size : sizes) size = least + static_cast<int>(random() % 9);
  return sizes;
}

double random_gap(std::mt19937& random) {
  return std::uniform_real_distribution<double>(1.3, 4)(random);
}

TEST(cluster_hosts, clusters_are_recovered_from_noisy_start_ups) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto const sizes = random_sizes(random, 3);
    double const gap = random_gap(random);
    auto const hosts =
        make_hosts(sizes, [&](int a, int b) { return a == b ? 10 : 10 * gap; }, noise, 1, random);
    EXPECT_EQ(cluster_hosts(hosts.distances), hosts.cluster_of);
  }
}

TEST(cluster_hosts, pairs_of_hosts_are_recovered_among_many) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<int> const sizes(4 + random() % 13, 2);
    auto const hosts =
        make_hosts(sizes, [](int a, int b) { return a == b ? 10 : 13; }, noise, 1, random);
    EXPECT_EQ(cluster_hosts(hosts.distances), hosts.cluster_of);
  }
}

TEST(cluster_hosts, one_switch_is_one_cluster) {
  for (int const size : {1, 2, 3, 4, 5, 8, 16, 100}) {
    for (unsigned seed = 0; seed < 50; ++seed) {
      SCOPED_TRACE(std::to_string(size) + " hosts, seed " + std::to_string(seed));
      std::mt19937 random(seed);
      auto const hosts = make_hosts({size}, [](int, int) { return 10; }, noise, 1, random);
      EXPECT_EQ(cluster_hosts(hosts.distances), hosts.cluster_of);
    }
  }
}

TEST(cluster_hosts, clusters_may_have_distances_of_their_own) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto const hosts = make_hosts(
        {5, 6, 7}, [](int a, int b) { return a == b ? 10 + 2.5 * a : 20; }, noise, 1, random);
    EXPECT_EQ(cluster_hosts(hosts.distances), hosts.cluster_of);
  }
}

// Racks in pods: the racks are found, not only the pods.
TEST(cluster_hosts, the_innermost_of_several_levels_counts) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    // Numbers of clusters are shuffled, so pods are those of equal parity.
    auto const hosts = make_hosts(
        {4, 5, 6, 7, 4, 5, 6, 7},
        [](int a, int b) { return a == b ? 10 : (a % 2 == b % 2 ? 15 : 40); }, noise, 1, random);
    EXPECT_EQ(cluster_hosts(hosts.distances), hosts.cluster_of);
  }
}

TEST(cluster_hosts, a_sample_of_the_pairs_is_enough) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    double const gap = random_gap(random);
    auto const hosts = make_hosts(
        std::vector<int>(8, 16), [&](int a, int b) { return a == b ? 10 : 10 * gap; }, noise, 0.6,
        random);
    EXPECT_EQ(cluster_hosts(hosts.distances), hosts.cluster_of);
  }
}

// A process that was interrupted delays a few messages by far more than the usual noise.
TEST(cluster_hosts, a_few_far_too_long_times_do_not_matter) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto hosts =
        make_hosts({8, 8, 10, 12}, [](int a, int b) { return a == b ? 10 : 20; }, noise, 1, random);
    for (auto& row : hosts.distances) {
      for (double& each : row) each *= random() % 200 == 0 ? 5 : 1;
    }
    EXPECT_EQ(cluster_hosts(hosts.distances), hosts.cluster_of);
  }
}

TEST(cluster_hosts, a_distant_host_is_alone) {
  std::mt19937 random(1);
  auto const hosts =
      make_hosts({7, 1}, [](int a, int b) { return a == b ? 10 : 30; }, noise, 1, random);
  EXPECT_EQ(cluster_hosts(hosts.distances), hosts.cluster_of);
}

TEST(cluster_hosts, many_hosts_take_little_time) {
  std::mt19937 random(1);
  auto const hosts = make_hosts(
      std::vector<int>(32, 16), [](int a, int b) { return a == b ? 10 : 13; }, noise, 1, random);
  EXPECT_EQ(cluster_hosts(hosts.distances), hosts.cluster_of);
}

TEST(cluster_hosts, nothing_measured_is_one_cluster) {
  EXPECT_EQ(cluster_hosts(host_table(5, std::vector<double>(5, 0))), std::vector<int>(5, 0));
  EXPECT_TRUE(cluster_hosts({}).empty());
}

TEST(cluster_hosts, tables_of_other_shapes) {
  EXPECT_ERROR((void)cluster_hosts({{0, 1}, {1}}), "expected a square");
  EXPECT_ERROR((void)complete_pairs({{0, 1}, {1, 0}}, {0}), "expected the same");
}

TEST(members_of, groups_in_the_order_of_their_numbers) {
  using detail::members_of;
  using detail::numbered_by_first;
  auto const group_of = numbered_by_first(std::vector<std::string>{"b", "a", "b", "c"});
  EXPECT_EQ(group_of, (std::vector<int>{0, 1, 0, 2}));
  EXPECT_EQ(members_of(group_of), (std::vector<std::vector<std::size_t>>{{0, 2}, {1}, {3}}));
  EXPECT_TRUE(members_of({}).empty());
}

TEST(complete_pairs, medians_of_the_two_clusters_in_each_direction) {
  host_table table(6, std::vector<double>(6, 0));
  std::vector<int> const cluster_of{0, 0, 0, 1, 1, 2};
  table[0][1] = 10;
  table[0][3] = 2;
  table[1][3] = 4;
  table[1][4] = 3;
  table[4][0] = 7;
  auto const full = complete_pairs(table, cluster_of);
  EXPECT_EQ(full[0][1], 10);
  EXPECT_EQ(full[2][1], 10);
  EXPECT_EQ(full[0][3], 2);
  EXPECT_EQ(full[2][4], 3);
  EXPECT_EQ(full[3][2], 7);
  EXPECT_EQ(full[3][4], 10);  // of other clusters
  EXPECT_EQ(full[5][0], 4);   // the upper median of 2, 3, 4, 7
  for (std::size_t a = 0; a < 6; ++a) EXPECT_EQ(full[a][a], 0);
}

}}  // namespace blink::host_clusters_test
