// SPDX-License-Identifier: Apache-2.0
#include <blink/topology/built_in_machines.hpp>
#include <blink/topology/measured_rates.hpp>
#include <blink/topology/rank_paths.hpp>
#include <blink/topology/slow_links.hpp>

#include "support/expect_error.hpp"
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::measured_rates_test { namespace {

constexpr double giga = 1e9;

/// The rates of pairs alone that a machine's paths have.
measured_rates rates_of(topology const& machine) {
  auto const ranks = machine.rank_positions().size();
  measured_rates rates;
  rates.host_of.assign(ranks, 0);
  rates.alone.assign(ranks, std::vector<double>(ranks, 0));
  auto const paths = paths_between_ranks(machine);
  for (std::size_t a = 0; a < paths.size(); ++a) {
    for (std::size_t b = 0; b < paths.size(); ++b) {
      if (paths[a][b]) {
        rates.alone[a][b] = machine.in_units(paths[a][b]->capacity).to_double() * giga;
      }
    }
  }
  return rates;
}

TEST(slow_links, a_direct_link_of_half_its_rate_is_named) {
  auto const machine = *make_built_in_machine("fully_connected:4");
  auto rates = rates_of(machine);
  EXPECT_TRUE(slow_links(machine, rates, giga).empty());
  rates.alone[1][3] /= 2;
  auto const found = slow_links(machine, rates, giga);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].from, 1);
  EXPECT_EQ(found[0].to, 3);
  EXPECT_DOUBLE_EQ(found[0].measured * 2, found[0].described);
}

TEST(slow_links, a_port_of_a_switch_is_named_by_all_its_pairs) {
  auto const machine = *make_built_in_machine("dgx2");
  auto rates = rates_of(machine);
  for (auto& from_each : rates.alone) from_each[5] /= 2;  // into rank 5
  auto const found = slow_links(machine, rates, giga);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].from, 16);
  EXPECT_EQ(found[0].to, 5);
  rates.alone[0][5] *= 2;  // one pair shows that the port is as fast as described
  EXPECT_TRUE(slow_links(machine, rates, giga).empty());
}

TEST(slow_links, pairs_that_were_not_measured_name_nothing) {
  auto const machine = *make_built_in_machine("fully_connected:4");
  auto rates = rates_of(machine);
  rates.alone[1][3] = 0;
  EXPECT_TRUE(slow_links(machine, rates, giga).empty());
  EXPECT_ERROR((void)slow_links(*make_built_in_machine("fully_connected:5"), rates, giga),
               "other ranks than those measured");
}

/// Start-ups of hosts with one rank each, by clusters.
measured_rates rates_of_hosts(std::vector<int> const& cluster_of, double near, double far) {
  auto const hosts = cluster_of.size();
  measured_rates rates;
  rates.out.assign(hosts, giga);
  rates.start_up.assign(hosts, std::vector<double>(hosts, 0));
  for (std::size_t a = 0; a < hosts; ++a) {
    rates.host_of.push_back(static_cast<int>(a));
    for (std::size_t b = 0; b < hosts; ++b) {
      if (a != b) rates.start_up[a][b] = cluster_of[a] == cluster_of[b] ? near : far;
    }
  }
  return rates;
}

TEST(common_start_up, of_one_host_else_of_one_cluster_else_of_all) {
  auto rates = rates_of_hosts({0, 0, 0, 1, 1, 1}, 5e-6, 10e-6);
  rates.levels = {{{0, 0, 0, 1, 1, 1}, {}, {}, {}}};
  EXPECT_EQ(common_start_up(rates), 5e-6);
  rates.levels.front().cluster_of = {0, 1, 2, 0, 1, 2};
  EXPECT_EQ(common_start_up(rates), 10e-6);
  rates.host_of[1] = 0;
  rates.start_up[0][1] = rates.start_up[1][0] = 1e-6;
  EXPECT_EQ(common_start_up(rates), 1e-6);
  EXPECT_EQ(common_start_up({}), 0);
}

}}  // namespace blink::measured_rates_test
