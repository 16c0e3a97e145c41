// SPDX-License-Identifier: Apache-2.0
#include <blink/topology/best_ring.hpp>
#include <blink/topology/detail/measure_rates.hpp>
#include <blink/topology/detail/nested_clusters.hpp>
#include <blink/topology/fit_machine.hpp>
#include <blink/topology/measured_rates.hpp>
#include <blink/topology/slow_links.hpp>

#include "support/nested_hosts.hpp"
#include "support/simulated_meter.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::nested_clusters_test { namespace {

using blink_test::nested_hosts;
using blink_test::nested_options;
using blink_test::random_nested_hosts;
using blink_test::simulated_meter;

constexpr double giga = 1e9;

measured_rates probed(nested_hosts const& hosts, topology const& machine, unsigned seed,
                      double noise = 0.1, double delayed = 0.01) {
  simulated_meter meter(machine, seed);
  meter.noise = noise;
  meter.delayed = delayed;
  auto result = detail::rate_measurer(meter, hosts.host_of()).measure();
  // H - 1 rounds, 8 (log2 H + 1) in each of the levels, and a few for each host and cluster.
  EXPECT_LE(meter.patterns, 8 * hosts.hosts());
  return result;
}

/// The clusters of a level, of the hosts that are in some group.
std::vector<int> clusters_of_groups(nested_hosts const& hosts, std::vector<int> const& labels) {
  auto const members = detail::members_of(hosts.cluster_of[0]);
  std::vector<int> result;
  for (std::size_t host = 0; host < hosts.hosts(); ++host) {
    if (members[hosts.part(1, host)].size() > 1) result.push_back(labels[host]);
  }
  return detail::numbered_by_first(result);
}

void expect_recovered(nested_hosts const& hosts, measured_rates const& rates) {
  ASSERT_EQ(rates.levels.size(), hosts.cluster_of.size());
  for (std::size_t level = 0; level < rates.levels.size(); ++level) {
    SCOPED_TRACE("level " + std::to_string(level));
    auto const& found = rates.levels[level].cluster_of;
    EXPECT_EQ(clusters_of_groups(hosts, found), clusters_of_groups(hosts, hosts.cluster_of[level]));
  }
}

/// The largest rate over the uplink of a cluster that hosts outside of it can send or receive: that
/// of the link, or less if all others have less.
double most_outside(nested_hosts const& hosts, std::size_t level, std::size_t cluster,
                    bool is_out) {
  auto const& own = (is_out ? hosts.out : hosts.in)[level];
  auto const& other = (is_out ? hosts.in : hosts.out)[level];
  auto const around = [&](std::size_t part) {
    return hosts.part(level + 1, hosts.hosts_of_parts(level)[part].front());
  };
  double near = 0;
  for (std::size_t k = 0; k < other.size(); ++k) {
    bool const is_beside = level == hosts.cluster_of.size() || around(k) == around(cluster);
    if (k != cluster && is_beside) near += other[k];
  }
  return std::min(own[cluster], near);
}

/// The number of ranks at the tail of each link of a tree, without links of single ranks.
std::multiset<std::size_t> hosts_below_links(topology const& machine) {
  std::vector<std::vector<int>> next(machine.nodes.size());
  for (auto const& l : machine.links) next[static_cast<std::size_t>(l.tail)].push_back(l.head);
  auto const all = machine.rank_positions().size();
  std::multiset<std::size_t> result;
  for (auto const& l : machine.links) {
    std::vector<bool> is_met(machine.nodes.size(), false);
    std::vector<int> open{l.tail};
    is_met[static_cast<std::size_t>(l.tail)] = is_met[static_cast<std::size_t>(l.head)] = true;
    std::size_t ranks = 0;
    while (!open.empty()) {
      auto const here = static_cast<std::size_t>(open.back());
      open.pop_back();
      if (machine.nodes[here].kind == node_kind::rank) ++ranks;
      for (int const to : next[here]) {
        if (!is_met[static_cast<std::size_t>(to)]) open.push_back(to);
        is_met[static_cast<std::size_t>(to)] = true;
      }
    }
    if (ranks > 1 && ranks + 1 < all) result.insert(ranks);
  }
  return result;
}

class nested : public testing::TestWithParam<std::size_t> {
 protected:
  /// Fewer of machines that take longer.
  [[nodiscard]] static unsigned cases() { return GetParam() == 1 ? 2 : 1; }
};

// Noise of 10 %, and each hundredth message takes five times as long. Every second machine has
// slower links into clusters than out of them.
TEST_P(nested, clusters_and_capacities_are_recovered_from_noisy_probes) {
  for (unsigned seed = 0; seed < cases(); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    nested_options const what{.levels = GetParam(), .is_symmetric = (seed + GetParam()) % 2 == 0};
    auto const hosts = random_nested_hosts(what, random);
    auto const truth = hosts.machine();
    auto const rates = probed(hosts, truth, seed);
    expect_recovered(hosts, rates);
    if (HasFailure()) return;
    for (std::size_t level = 0; level < rates.levels.size(); ++level) {
      for (std::size_t c = 0; c < rates.levels[level].clusters(); ++c) {
        for (bool const is_out : {true, false}) {
          auto const& here = rates.levels[level];
          double const measured = (is_out ? here.out : here.in)[c] / giga;
          double const most = (is_out ? hosts.out : hosts.in)[level + 1][c];
          EXPECT_LE(measured, 1.15 * most);
          EXPECT_GE(measured, 0.75 * most_outside(hosts, level + 1, c, is_out));
        }
      }
    }
    auto const fitted = fit_machine(rates);
    EXPECT_NO_THROW(validate(fitted));
    // The same switches: each link has as many hosts below it.
    EXPECT_EQ(hosts_below_links(fitted), hosts_below_links(truth));
    // The order of the ranks is as good as the best one of the true machine.
    auto const order = best_ring(fitted);
    auto const real = cost_of_ring(truth, order.ranks);
    EXPECT_DOUBLE_EQ(real.bytes_per_second, best_ring(truth).cost.bytes_per_second);
    EXPECT_NEAR(order.cost.bytes_per_second / real.bytes_per_second, 1, 0.15);
    EXPECT_GT(order.gain(), 2);
  }
}

// All start-ups are equal, so that clusters show only in the rates of many messages at once.
TEST_P(nested, clusters_of_equal_latency_are_recovered_by_their_rates) {
  for (unsigned seed = 0; seed < cases(); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    nested_options const what{
        .levels = GetParam(), .has_latencies = false, .least_over = 2.5, .most_over = 4};
    auto const hosts = random_nested_hosts(what, random);
    auto const truth = hosts.machine();
    expect_recovered(hosts, probed(hosts, truth, seed));
  }
}

TEST_P(nested, hosts_at_the_outermost_switch_are_in_no_group) {
  std::mt19937 random(1);
  auto const hosts = random_nested_hosts({.levels = GetParam(), .single_hosts = 3}, random);
  auto const truth = hosts.machine();
  auto const rates = probed(hosts, truth, 1);
  expect_recovered(hosts, rates);
  auto const members = detail::members_of(hosts.cluster_of[0]);
  for (auto const& found : rates.hosts_of_clusters(0)) {
    std::set<bool> kinds;
    for (auto const host : found) kinds.insert(members[hosts.part(1, host)].size() > 1);
    EXPECT_EQ(kinds.size(), 1U);
  }
  EXPECT_NO_THROW(validate(fit_machine(rates)));
}

INSTANTIATE_TEST_SUITE_P(levels, nested, testing::Values(1U, 2U, 3U));

// A time that is too short leaves measurements out. What is there is a machine of all ranks.
TEST(nested_probe, any_number_of_patterns_gives_a_machine) {
  std::mt19937 random(1);
  auto const hosts = random_nested_hosts({}, random);
  auto const truth = hosts.machine();
  for (std::size_t const limit : {1U, 10U, 100U, 1000U}) {
    SCOPED_TRACE(limit);
    simulated_meter meter(truth);
    meter.noise = 0.1;
    meter.limit = limit;
    auto const rates = detail::rate_measurer(meter, hosts.host_of()).measure();
    auto const fitted = fit_machine(rates);
    EXPECT_NO_THROW(validate(fitted));
    EXPECT_EQ(fitted.rank_positions().size(), hosts.hosts());
    EXPECT_GT(best_ring(fitted).cost.bytes_per_second, 0);
    if (limit == 1000) expect_recovered(hosts, rates);
  }
}

// On busy computers start-ups are without any order. Then rates of pairs alone show both levels.
TEST(nested_probe, start_ups_of_busy_hosts_do_not_count) {
  nested_hosts hosts;
  hosts.cluster_of = {{0, 1, 2, 3, 0, 1, 2, 3}, {0, 1, 0, 1, 0, 1, 0, 1}};
  hosts.out = {std::vector<double>(8, 2.5), std::vector<double>(4, 1.8), {1.2, 1.2}};
  hosts.in = hosts.out;
  hosts.latency = {0, 0, 0};
  auto const truth = hosts.machine();
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    simulated_meter meter(truth, seed);
    meter.noise = 0.05;
    meter.busy = 5;
    auto const rates = detail::rate_measurer(meter, hosts.host_of()).measure();
    expect_recovered(hosts, rates);
    EXPECT_EQ(best_ring(fit_machine(rates)).gain(), best_ring(truth).gain());
  }
}

// Uplinks of a rack and of a pod that are half as fast as described are named, and nothing else.
TEST(nested_probe, slow_shared_links_of_two_levels_are_named) {
  for (unsigned seed = 0; seed < 2; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto const described = random_nested_hosts({.least_over = 2, .most_over = 2}, random);
    auto const machine = described.machine();
    EXPECT_TRUE(slow_links(machine, probed(described, machine, seed, 0, 0), giga).empty());
    auto slower = described;
    std::size_t const rack = random() % slower.out[1].size(), pod = random() % slower.out[2].size();
    slower.out[1][rack] /= 2;
    slower.in[2][pod] /= 2;
    auto const truth = slower.machine();
    std::set<std::pair<int, int>> expected;
    for (std::size_t k = 0; k < truth.links.size(); ++k) {
      if (truth.in_units(truth.links[k].capacity) != machine.in_units(machine.links[k].capacity)) {
        expected.insert({truth.links[k].tail, truth.links[k].head});
      }
    }
    ASSERT_EQ(expected.size(), 2U);
    std::set<std::pair<int, int>> found;
    for (auto const& one : slow_links(machine, probed(slower, truth, seed, 0, 0), giga)) {
      found.insert({one.from, one.to});
      EXPECT_NEAR(one.measured / one.described, 0.5, 0.05);
    }
    EXPECT_EQ(found, expected);
  }
}

/// Rates of hosts by their clusters of two levels.
host_table rates_by_clusters(std::vector<int> const& inner, std::vector<int> const& outer,
                             double near, double middle, double far) {
  host_table result(inner.size(), std::vector<double>(inner.size(), 0));
  for (std::size_t a = 0; a < inner.size(); ++a) {
    for (std::size_t b = 0; b < inner.size(); ++b) {
      if (a == b) continue;
      result[a][b] = inner[a] == inner[b] ? near : outer[a] == outer[b] ? middle : far;
    }
  }
  return result;
}

TEST(nested_clusters, start_ups_give_all_levels) {
  std::vector<int> const racks{0, 0, 1, 1, 2, 2, 3, 3}, pods{0, 0, 0, 0, 1, 1, 1, 1};
  detail::nested_clusters clusters(8);
  clusters.group_by_start_up(rates_by_clusters(racks, pods, 5, 10, 20));
  EXPECT_EQ(clusters.levels(), (std::vector<std::vector<int>>{racks, pods}));
  EXPECT_EQ(clusters.depth(), 2U);
  // No cluster has three parts.
  EXPECT_TRUE(clusters.hosts_to_group(1).empty());
  EXPECT_TRUE(clusters.hosts_to_group(5).empty());
}

TEST(nested_clusters, rates_give_one_level_at_a_time) {
  std::vector<int> const racks{0, 0, 1, 1, 2, 2, 3, 3}, pods{0, 0, 0, 0, 1, 1, 1, 1};
  auto const rates = rates_by_clusters(racks, pods, 10, 5, 2);
  detail::nested_clusters clusters(8);
  clusters.group_by_rate(0, rates, std::vector<double>(8, 10));
  EXPECT_EQ(clusters.levels(), std::vector<std::vector<int>>{pods});
  EXPECT_EQ(clusters.hosts_to_group(1).size(), 2U);
  clusters.group_by_rate(1, rates, std::vector<double>(8, 10));
  EXPECT_EQ(clusters.levels(), (std::vector<std::vector<int>>{racks, pods}));
}

TEST(nested_clusters, slow_nics_and_distant_racks_make_no_cluster) {
  std::vector<int> const racks{0, 0, 1, 1, 2, 2, 3, 3}, all(8, 0);
  auto rates = rates_by_clusters(all, all, 10, 10, 10);
  for (std::size_t const slow : {1U, 4U}) {
    for (std::size_t b = 0; b < 8; ++b) rates[slow][b] = rates[b][slow] = b == slow ? 0 : 2;
  }
  std::vector<double> best(8, 10);
  best[1] = best[4] = 2;
  detail::nested_clusters slow_nics(8);
  slow_nics.group_by_rate(0, rates, best);
  EXPECT_TRUE(slow_nics.levels().empty());
  // Rack 3 is far from all others, which are no pod because of that.
  auto seconds = rates_by_clusters(racks, all, 5, 10, 10);
  for (std::size_t const far : {6U, 7U}) {
    for (std::size_t b = 0; b < 6; ++b) seconds[far][b] = seconds[b][far] = 25;
  }
  detail::nested_clusters distant(8);
  distant.group_by_start_up(seconds);
  EXPECT_EQ(distant.levels(), std::vector<std::vector<int>>{racks});
}

// Racks in one pod and none in the others: a cluster without a counterpart is by itself in a level.
TEST(nested_clusters, levels_of_unequal_depth) {
  std::vector<int> const racks{0, 0, 1, 1, 2, 2, 3, 3, 4, 4}, pods{0, 0, 0, 0, 1, 1, 2, 2, 3, 3};
  detail::nested_clusters clusters(10);
  clusters.group_by_start_up(rates_by_clusters(racks, pods, 5, 10, 30));
  EXPECT_EQ(clusters.levels(), (std::vector<std::vector<int>>{racks, pods}));
}

TEST(nested_clusters, no_host_and_nothing_measured) {
  detail::nested_clusters none(0);
  none.group_by_start_up({});
  EXPECT_TRUE(none.levels().empty());
  detail::nested_clusters unknown(5);
  unknown.group_by_start_up(host_table(5, std::vector<double>(5, 0)));
  unknown.group_by_rate(0, host_table(5, std::vector<double>(5, 0)), std::vector<double>(5, 0));
  EXPECT_TRUE(unknown.levels().empty());
  EXPECT_EQ(unknown.depth(), 0U);
}

}}  // namespace blink::nested_clusters_test
