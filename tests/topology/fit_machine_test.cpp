// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/make_plan.hpp>
#include <blink/topology/detail/measure_rates.hpp>
#include <blink/topology/fit_machine.hpp>
#include <blink/topology/measured_rates.hpp>
#include <blink/topology/rank_paths.hpp>

#include "support/expect_error.hpp"
#include "support/machine_contents.hpp"
#include "support/simulated_meter.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::fit_machine_test { namespace {

using blink_test::best_rate;
using blink_test::clustered_hosts;
using blink_test::simulated_meter;

constexpr double giga = 1e9;

/// Rates of `hosts` hosts of `ranks` ranks each: 10 GB/s inside, 2 GB/s between and for the NICs.
measured_rates even_rates(int hosts, int ranks) {
  measured_rates rates;
  auto const h = static_cast<std::size_t>(hosts);
  auto const n = static_cast<std::size_t>(hosts * ranks);
  for (int r = 0; r < hosts * ranks; ++r) rates.host_of.push_back(r / ranks);
  rates.alone.assign(n, std::vector<double>(n, 0));
  rates.start_up = rates.alone;
  rates.together.assign(n, ranks > 1 ? 10 * giga : 0);
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < n; ++b) {
      if (a != b) rates.alone[a][b] = (rates.host_of[a] == rates.host_of[b] ? 10 : 2) * giga;
    }
  }
  rates.between.assign(h, std::vector<double>(h, 2 * giga));
  rates.out.assign(h, 2 * giga);
  rates.in.assign(h, 2 * giga);
  return rates;
}

TEST(fit_machine, ranks_of_one_host_meet_at_a_switch) {
  auto const machine = fit_machine(even_rates(1, 4));
  EXPECT_EQ(machine.nodes.size(), 5U);
  EXPECT_EQ(machine.links.size(), 8U);
  EXPECT_EQ(best_rate(machine, collective::all_reduce), rational(10 * 4, 6));
}

TEST(fit_machine, hosts_meet_at_a_network) {
  auto const machine = fit_machine(even_rates(3, 2));
  auto const paths = paths_between_ranks(machine);
  EXPECT_EQ(machine.in_units(paths[0][1]->capacity), 10);
  EXPECT_EQ(machine.in_units(paths[0][2]->capacity), 2);
  // Each host takes in what the two others have: 3 parts of which 2 cross its NIC.
  EXPECT_EQ(best_rate(machine, collective::all_gather), rational(3));
  EXPECT_EQ(std::count_if(machine.nodes.begin(), machine.nodes.end(),
                          [](node const& n) { return n.server == -1; }),
            1);
}

TEST(fit_machine, hosts_of_one_rank_have_no_memory) {
  auto const machine = fit_machine(even_rates(2, 1));
  EXPECT_EQ(machine.nodes.size(), 5U);  // two ranks, two NICs, a network
  EXPECT_EQ(best_rate(machine, collective::all_gather), rational(4));
}

TEST(fit_machine, a_slow_pair_of_hosts_gives_each_pair_a_link) {
  auto rates = even_rates(3, 1);
  rates.between[0][1] = rates.between[1][0] = rates.alone[0][1] = rates.alone[1][0] = giga;
  auto const machine = fit_machine(rates);
  auto const paths = paths_between_ranks(machine);
  EXPECT_EQ(machine.in_units(paths[0][2]->capacity), 2);
  EXPECT_EQ(machine.in_units(paths[2][1]->capacity), 2);
  auto const direct = std::find_if(machine.links.begin(), machine.links.end(), [&](link const& l) {
    return machine.nodes[static_cast<std::size_t>(l.tail)].label == "nic0 out" &&
           machine.nodes[static_cast<std::size_t>(l.head)].label == "nic1 in";
  });
  ASSERT_NE(direct, machine.links.end());
  EXPECT_EQ(machine.in_units(direct->capacity), 1);
}

TEST(fit_machine, a_slow_pair_of_ranks_gives_each_pair_a_link) {
  for (int const hosts : {1, 2}) {
    auto rates = even_rates(hosts, 3);
    rates.alone[0][1] = rates.alone[1][0] = 4 * giga;
    auto const machine = fit_machine(rates);
    EXPECT_NO_THROW(validate(machine));
    auto const direct =
        std::find_if(machine.links.begin(), machine.links.end(), [&](link const& l) {
          return machine.nodes[static_cast<std::size_t>(l.tail)].label == "port0 out" &&
                 machine.nodes[static_cast<std::size_t>(l.head)].label == "port1 in";
        });
    ASSERT_NE(direct, machine.links.end());
    EXPECT_EQ(machine.in_units(direct->capacity), 4);
    EXPECT_EQ(machine.in_units(paths_between_ranks(machine)[1][2]->capacity), 10);
  }
}

TEST(fit_machine, pairs_that_were_not_measured_are_like_others) {
  auto rates = even_rates(1, 4);
  rates.alone[0][1] = 4 * giga;
  rates.alone[2][3] = 0;
  auto const paths = paths_between_ranks(fit_machine(rates));
  EXPECT_EQ(paths[0][1]->capacity * 10, 4 * paths[2][3]->capacity);
}

TEST(fit_machine, nothing_measured) {
  EXPECT_ERROR((void)fit_machine({}), "no rank was measured");
  auto rates = even_rates(2, 1);
  rates.between = host_table(2, std::vector<double>(2, 0));
  rates.out = rates.in = {0, 0};
  EXPECT_ERROR((void)fit_machine(rates), "no rate between hosts was measured");
  rates = even_rates(2, 1);
  for (auto const& clusters : {std::vector<int>{0, 1}, {0}, {0, -1}}) {
    rates.levels = {{clusters, {}, {}, {}}};
    EXPECT_ERROR((void)fit_machine(rates), "expected the same");
  }
  rates.levels = {{{0, 0}, {0}, {0}, {{0}}}, {{0, 1}, {0, 0}, {0, 0}, {{0, 0}, {0, 0}}}};
  EXPECT_ERROR((void)fit_machine(rates), "in several of the next level, expected one");
  rates.levels = {{{0, 2}, {0, 0, 0}, {0, 0, 0}, {{}, {}, {}}}};
  EXPECT_ERROR((void)fit_machine(rates), "a cluster is empty");
}

/// Random clusters of hosts whose uplinks carry a part of what their hosts can send.
clustered_hosts random_hosts(std::mt19937& random, int ranks) {
  clustered_hosts hosts;
  hosts.ranks = ranks;
  auto const clusters = 2 + random() % 4;
  for (std::size_t c = 0; c < clusters; ++c) {
    hosts.cluster_of.insert(hosts.cluster_of.end(), 3 + random() % 6, static_cast<int>(c));
  }
  std::shuffle(hosts.cluster_of.begin(), hosts.cluster_of.end(), random);
  hosts.cluster_of = detail::numbered_by_first(hosts.cluster_of);
  hosts.uplink.assign(clusters, 0);
  double const oversubscription = std::uniform_real_distribution<double>(1.5, 10)(random);
  for (int const c : hosts.cluster_of) {
    hosts.uplink[static_cast<std::size_t>(c)] += hosts.nic / oversubscription;
  }
  hosts.uplink_latency = 3e-6;
  return hosts;
}

/// The capacities of a machine's links by the labels of their ends, in GB/s.
std::map<std::pair<std::string, std::string>, double> rates_by_label(topology const& machine) {
  std::map<std::pair<std::string, std::string>, double> result;
  for (auto const& l : machine.links) {
    auto const label = [&](int at) { return machine.nodes[static_cast<std::size_t>(at)].label; };
    result[{label(l.tail), label(l.head)}] = machine.in_units(l.capacity).to_double();
  }
  return result;
}

void expect_near(double measured, double expected, double tolerance) {
  EXPECT_NEAR(measured / expected, 1, tolerance) << measured << " for " << expected;
}

constexpr double tolerance = 0.15;

TEST(fit_machine, clusters_and_capacities_are_recovered_from_noisy_probes) {
  for (unsigned seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto const hosts = random_hosts(random, seed % 2 == 0 ? 1 : 2);
    auto const truth = hosts.machine();
    simulated_meter meter(truth, seed);
    meter.noise = 0.1;
    auto const rates = detail::rate_measurer(meter, hosts.host_of()).measure();
    ASSERT_EQ(rates.levels.size(), 1U);
    EXPECT_EQ(rates.levels[0].cluster_of, hosts.cluster_of);
    auto const fitted = fit_machine(rates);
    EXPECT_NO_THROW(validate(fitted));
    auto const links = rates_by_label(fitted);
    for (std::size_t host = 0; host < hosts.cluster_of.size(); ++host) {
      auto const nic = "nic" + std::to_string(host);
      auto const cluster = "cluster" + std::to_string(hosts.cluster_of[host]);
      expect_near(links.at({nic, cluster}), hosts.nic, tolerance);
      expect_near(links.at({cluster, nic}), hosts.nic, tolerance);
    }
    double const all = std::accumulate(hosts.uplink.begin(), hosts.uplink.end(), 0.0);
    for (std::size_t c = 0; c < hosts.clusters(); ++c) {
      // More than all others take in never crosses.
      double const uplink = std::min(hosts.uplink[c], all - hosts.uplink[c]);
      auto const cluster = "cluster" + std::to_string(c);
      expect_near(links.at({cluster, "network"}), uplink, tolerance);
      expect_near(links.at({"network", cluster}), uplink, tolerance);
    }
    for (auto const kind : {collective::all_reduce, collective::all_gather}) {
      expect_near(best_rate(fitted, kind).to_double(), best_rate(truth, kind).to_double(),
                  tolerance);
    }
  }
}

// Without a gap in latency, clusters show in the rates of many pairs at once.
TEST(fit_machine, clusters_of_equal_latency_are_recovered_by_their_rates) {
  int recovered = 0;
  constexpr int cases = 20;
  for (unsigned seed = 0; seed < cases; ++seed) {
    std::mt19937 random(seed);
    auto hosts = random_hosts(random, 1);
    hosts.uplink_latency = 0;
    for (double& uplink : hosts.uplink) uplink /= 2;  // at least 3 to 1
    auto const truth = hosts.machine();
    simulated_meter meter(truth, seed);
    meter.noise = 0.1;
    auto const rates = detail::rate_measurer(meter, hosts.host_of()).measure();
    bool const has_level = rates.levels.size() == 1;
    recovered += has_level && rates.levels[0].cluster_of == hosts.cluster_of ? 1 : 0;
  }
  EXPECT_EQ(recovered, cases);
}

TEST(fit_machine, latencies_of_nics_and_uplinks) {
  clustered_hosts hosts{{0, 0, 0, 0, 1, 1, 1, 1}, 2};
  hosts.uplink = {25, 25};
  hosts.uplink_latency = 5e-6;
  auto const truth = hosts.machine();
  simulated_meter meter(truth);
  auto const rates = detail::rate_measurer(meter, hosts.host_of()).measure();
  auto const fitted = fit_machine(rates);
  double const common = simulated_meter::start_up_seconds;
  EXPECT_NEAR(common_start_up(rates), common, 1e-12);
  EXPECT_NEAR(rates.start_up[0][2], common + 4 * hosts.nic_latency, 1e-12);
  auto const paths = paths_between_ranks(fitted);
  auto const seconds = [&](std::size_t a, std::size_t b) {
    double sum = 0;
    auto const& nodes = paths[a][b]->nodes;
    for (std::size_t k = 0; k + 1 < nodes.size(); ++k) {
      for (auto const& l : fitted.links) {
        if (l.tail == nodes[k] && l.head == nodes[k + 1]) sum += l.latency_seconds;
      }
    }
    return sum;
  };
  EXPECT_EQ(seconds(0, 1), 0);
  EXPECT_NEAR(seconds(0, 2), 2 * hosts.nic_latency, 0.05 * common);
  EXPECT_NEAR(seconds(0, 8), 2 * (hosts.nic_latency + hosts.uplink_latency), 0.05 * common);
}

TEST(fit_machine, equal_hosts_have_equal_rates_in_spite_of_noise) {
  clustered_hosts hosts;
  for (int host = 0; host < 128; ++host) hosts.cluster_of.push_back(host / 16);
  hosts.uplink.assign(8, 100);
  hosts.uplink_latency = 3e-6;
  auto const truth = hosts.machine();
  simulated_meter meter(truth);
  meter.noise = 0.1;
  auto const rates = detail::rate_measurer(meter, hosts.host_of()).measure();
  ASSERT_EQ(rates.levels.size(), 1U);
  EXPECT_EQ(rates.levels[0].cluster_of, hosts.cluster_of);
  // H - 1 rounds and some again, 8 (log2 H + 1) of all hosts and 15 of those of a cluster. Then 21
  // for each cluster, and 2 for one host of each cluster at once.
  EXPECT_LE(meter.patterns, 127U + 64 + 15 + 21 * 8 + 2 * 16 + 32);
  auto const fitted = fit_machine(rates);
  std::set<std::int64_t> capacities;
  for (auto const& l : fitted.links) capacities.insert(l.capacity);
  EXPECT_LE(capacities.size(), 3U);
  // Few rates leave few trees: one for each rank.
  plan_request const request{collective::all_reduce};
  auto const planned = make_plan(fitted, request);
  EXPECT_LE(planned.trees.size(), 128U);
  expect_near(planned.rate.to_double(), make_plan(truth, request).rate.to_double(), tolerance);
}

TEST(fit_machine, a_slow_host_keeps_its_rate) {
  clustered_hosts hosts{{0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1}};
  hosts.uplink = {40, 40};
  hosts.uplink_latency = 3e-6;
  hosts.nic_of.assign(12, hosts.nic);
  hosts.nic_of[4] = hosts.nic / 2;
  auto const truth = hosts.machine();
  simulated_meter meter(truth);
  meter.noise = 0.1;
  auto const rates = detail::rate_measurer(meter, hosts.host_of()).measure();
  ASSERT_EQ(rates.levels.size(), 1U);
  EXPECT_EQ(rates.levels[0].cluster_of, hosts.cluster_of);
  auto const links = rates_by_label(fit_machine(rates));
  expect_near(links.at({"nic4", "cluster0"}), hosts.nic / 2, tolerance);
  expect_near(links.at({"nic3", "cluster0"}), hosts.nic, tolerance);
}

TEST(fit_machine, hosts_that_were_not_measured_alone_are_like_others_under_load) {
  clustered_hosts hosts;
  for (int host = 0; host < 32; ++host) hosts.cluster_of.push_back(host / 16);
  hosts.uplink = {100, 100};
  hosts.uplink_latency = 3e-6;
  auto const truth = hosts.machine();
  simulated_meter meter(truth);
  meter.noise = 0.1;
  meter.limit = 60;
  auto const rates = detail::rate_measurer(meter, hosts.host_of()).measure();
  EXPECT_LE(meter.patterns, 61U);
  ASSERT_EQ(rates.levels.size(), 1U);
  EXPECT_EQ(rates.levels[0].cluster_of, hosts.cluster_of);
  EXPECT_TRUE(std::ranges::count(rates.out, 0.0) > 0);
  auto const links = rates_by_label(fit_machine(rates));
  for (int host = 0; host < 32; ++host) {
    expect_near(links.at({"nic" + std::to_string(host), host < 16 ? "cluster0" : "cluster1"}),
                hosts.nic, tolerance);
  }
}

TEST(fit_machine, unequal_pairs_of_clusters_have_links) {
  auto rates = even_rates(6, 1);
  std::vector<double> const uplinks(3, 3 * giga);
  rates.levels = {{{0, 0, 1, 1, 2, 2},
                   uplinks,
                   uplinks,
                   {{0, 3 * giga, giga}, {3 * giga, 0, 3 * giga}, {giga, 3 * giga, 0}}}};
  auto const machine = fit_machine(rates);
  EXPECT_NO_THROW(validate(machine));
  auto const links = rates_by_label(machine);
  EXPECT_EQ(links.at({"uplink0 out", "uplink2 in"}), 1);
  EXPECT_EQ(links.at({"uplink0 out", "uplink1 in"}), 3);
  EXPECT_EQ(machine.in_units(paths_between_ranks(machine)[0][4]->capacity), 1);
  EXPECT_EQ(machine.in_units(paths_between_ranks(machine)[0][2]->capacity), 2);
}

TEST(merge_near_values, groups_by_gaps_and_total_width) {
  std::vector<double> values{100, 51, 103, 49, 99, 0, 200};
  detail::merge_near_values(values);
  EXPECT_EQ(values, (std::vector<double>{100, 51, 100, 51, 100, 0, 200}));
  // A chain of near values ends at a quarter above its least one.
  values.clear();
  for (int k = 0; k < 12; ++k) values.push_back(std::pow(1.04, k));
  detail::merge_near_values(values);
  EXPECT_EQ(values[0], values[5]);
  EXPECT_LT(values[5], values[6]);
}

}}  // namespace blink::fit_machine_test
