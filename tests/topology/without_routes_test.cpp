// SPDX-License-Identifier: Apache-2.0
#include <blink/topology/machines.hpp>
#include <blink/topology/subset.hpp>
#include <blink/topology/topology.hpp>
#include <blink/topology/without_routes.hpp>

#include "support/expect_error.hpp"
#include "support/random_machines.hpp"
#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::without_routes_test { namespace {

using pairs = std::vector<std::pair<int, int>>;

/// Ids of the ranks that `id` reaches directly or over switches alone.
std::set<int> joined_to(topology const& machine, int id) {
  std::set<int> result;
  std::set<int> seen{machine.position_of(id)};
  std::vector<int> open{machine.position_of(id)};
  while (!open.empty()) {
    int const here = open.back();
    open.pop_back();
    for (auto const& each : machine.links) {
      if (each.tail != here || !seen.insert(each.head).second) continue;
      auto const& to = machine.nodes[static_cast<std::size_t>(each.head)];
      if (to.kind == node_kind::switch_node) {
        open.push_back(each.head);
      } else {
        result.insert(to.id);
      }
    }
  }
  return result;
}

/// The ends of all links by id, because nodes of the result have other positions.
std::multiset<std::pair<int, int>> ends_of(topology const& machine) {
  std::multiset<std::pair<int, int>> result;
  for (auto const& each : machine.links) {
    result.emplace(machine.nodes[static_cast<std::size_t>(each.tail)].id,
                   machine.nodes[static_cast<std::size_t>(each.head)].id);
  }
  return result;
}

pairs every_pair(int ranks) {
  pairs result;
  for (int a = 0; a < ranks; ++a) {
    for (int b = a + 1; b < ranks; ++b) result.emplace_back(a, b);
  }
  return result;
}

TEST(without_routes, nothing_is_cut_for_no_pair) {
  auto const machine = machines::dgx1v_pcie();
  EXPECT_EQ(ends_of(without_routes(machine, {})), ends_of(machine));
}

// Routes over one switch stay.
TEST(without_routes, sockets_come_apart_where_they_are_joined) {
  auto machine = machines::dgx1v_pcie();
  std::erase_if(machine.links, [](struct link const& l) { return l.kind == link_kind::nvlink; });
  pairs across;
  for (int a = 0; a < 4; ++a) {
    for (int b = 4; b < 8; ++b) across.emplace_back(b, a);
  }
  EXPECT_EQ(ends_of(without_routes(machine, across)),
            ends_of(only_links(machine, link_kind::pcie)));
}

TEST(without_routes, one_gpu_loses_its_own_connection) {
  auto machine = machines::dgx1v_pcie();
  std::erase_if(machine.links, [](struct link const& l) { return l.kind == link_kind::nvlink; });
  pairs of_five;
  for (int other = 0; other < 8; ++other) {
    if (other != 5) of_five.emplace_back(5, other);
  }
  auto const left = without_routes(machine, of_five);
  EXPECT_EQ(left.links.size() + 2, machine.links.size());
  EXPECT_TRUE(joined_to(left, 5).empty());
  EXPECT_EQ(joined_to(left, 4), (std::set<int>{0, 1, 2, 3, 6, 7}));
}

TEST(without_routes, nvlinks_remain_where_pcie_does_not_bring_anything) {
  auto const machine = machines::dgx1v_pcie();
  auto const nvlinks = machines::dgx1v();
  pairs lost;  // pairs without an NVLink
  for (auto const& [a, b] : every_pair(8)) {
    if (!joined_to(nvlinks, a).contains(b)) lost.emplace_back(a, b);
  }
  auto const left = without_routes(machine, lost);
  for (int id = 0; id < 8; ++id) EXPECT_EQ(joined_to(left, id), joined_to(nvlinks, id));
}

TEST(without_routes, random_machines) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    auto const ranks = 2 + seed % 5;
    auto const machine = seed % 2 == 0
                             ? test::make_random_duplex_machine(seed, ranks, seed % 4, seed % 7)
                             : test::make_random_machine(seed, ranks, seed % 4, seed % 7);
    std::mt19937 random(seed);
    auto const all = every_pair(static_cast<int>(ranks));
    pairs lost;
    for (auto const& each : all) {
      if (random() % 3 == 0) lost.push_back(each);
    }
    auto const left = without_routes(machine, lost);
    validate(left);
    auto const position = machine.rank_positions();
    auto const id_of = [&](int rank) {
      return machine.nodes[static_cast<std::size_t>(position[static_cast<std::size_t>(rank)])].id;
    };
    for (auto const& [a, b] : lost) {
      EXPECT_FALSE(joined_to(left, id_of(a)).contains(id_of(b)));
      EXPECT_FALSE(joined_to(left, id_of(b)).contains(id_of(a)));
    }
    ASSERT_EQ(left.rank_positions().size(), position.size());
    auto const before = ends_of(machine);
    for (auto const& each : ends_of(left)) EXPECT_TRUE(before.contains(each));
    if (lost.empty()) {
      EXPECT_EQ(ends_of(left), ends_of(detail::without_idle_switches(machine)));
    }
  }
}

TEST(without_routes, ranks_that_are_not_there) {
  auto const machine = machines::fully_connected(3);
  EXPECT_ERROR((void)without_routes(machine, {{0, 3}}), "rank 3, expected 0 to 2");
  EXPECT_ERROR((void)without_routes(machine, {{-1, 0}}), "rank -1");
  EXPECT_ERROR((void)without_routes(machine, {{1, 1}}),
               "rank 1 is paired with itself, expected two ranks");
}

}}  // namespace blink::without_routes_test
