// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/make_plan.hpp>
#include <blink/topology/built_in_machines.hpp>
#include <blink/topology/measured_rates.hpp>
#include <blink/topology/rank_paths.hpp>

#include "support/expect_error.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::measured_rates_test { namespace {

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

rational best_rate(topology const& machine, collective kind) {
  return make_plan(machine, plan_request{kind}).rate;
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
    return machine.nodes[static_cast<std::size_t>(l.tail)].label == "nic0" &&
           machine.nodes[static_cast<std::size_t>(l.head)].label == "nic1";
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
          return machine.nodes[static_cast<std::size_t>(l.tail)].label == "port0" &&
                 machine.nodes[static_cast<std::size_t>(l.head)].label == "port1";
        });
    ASSERT_NE(direct, machine.links.end());
    EXPECT_EQ(machine.in_units(direct->capacity), 4);
    EXPECT_EQ(machine.in_units(paths_between_ranks(machine)[1][2]->capacity), 10);
  }
}

TEST(fit_machine, nothing_measured) {
  EXPECT_ERROR((void)fit_machine({}), "no rank was measured");
}

/// The rates of pairs alone that a machine's paths have.
measured_rates rates_of(topology const& machine) {
  auto rates = even_rates(1, static_cast<int>(machine.rank_positions().size()));
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

TEST(best_ring, ranks_of_a_host_follow_each_other) {
  // Hosts of two ranks, dealt out in turn: 0, 1, 2, 0, 1, 2.
  auto rates = even_rates(3, 2);
  for (std::size_t a = 0; a < 6; ++a) {
    for (std::size_t b = 0; b < 6; ++b) {
      rates.alone[a][b] = a == b ? 0 : (a % 3 == b % 3 ? 10 : 2) * giga;
    }
  }
  auto const order = best_ring(rates);
  int crossings = 0;
  for (std::size_t i = 0; i < 6; ++i) {
    crossings += order.ranks[i] % 3 != order.ranks[(i + 1) % 6] % 3;
  }
  EXPECT_EQ(crossings, 3);
  auto sorted = order.ranks;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

TEST(best_ring, slow_hops_are_avoided) {
  auto rates = even_rates(1, 5);
  rates.alone[0][1] = rates.alone[1][0] = giga;
  rates.alone[3][4] = rates.alone[4][3] = giga;
  auto const order = best_ring(rates);
  EXPECT_EQ(order.slowest_as_they_are, giga);
  EXPECT_EQ(order.slowest, 10 * giga);
}

}}  // namespace blink::measured_rates_test
