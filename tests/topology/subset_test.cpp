// SPDX-License-Identifier: Apache-2.0
#include <blink/topology/subset.hpp>

#include "support/small_machines.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::subset_test { namespace {

/// A random machine with one-way and two-way links. Ids are 10 times the position.
topology random_machine(std::mt19937& random) {
  topology machine;
  machine.name = "random";
  int const count = std::uniform_int_distribution(1, 7)(random);
  std::bernoulli_distribution coin(0.5);
  std::bernoulli_distribution rarely(0.25);
  for (int i = 0; i < count; ++i) {
    auto const kind = i == 0 || coin(random) ? node_kind::rank : node_kind::switch_node;
    machine.nodes.push_back({10 * i, kind, "n" + std::to_string(i), 0});
  }
  for (int i = 0; i < count; ++i) {
    for (int j = 0; j < count; ++j) {
      if (i == j || !rarely(random)) continue;
      auto const kind = coin(random) ? link_kind::nvlink : link_kind::pcie;
      machine.links.push_back({i, j, 1, 0, kind});
      if (coin(random)) machine.links.push_back({j, i, 1, 0, kind});
    }
  }
  return machine;
}

std::vector<int> ids_of(topology const& machine, node_kind kind) {
  std::vector<int> result;
  for (auto const& n : machine.nodes) {
    if (n.kind == kind) result.push_back(n.id);
  }
  return result;
}

/// The ids of nodes on a simple path between two ranks. Tries all paths.
std::set<int> ids_on_paths(topology const& machine) {
  std::set<int> result;
  std::vector<int> path;
  std::function<void(int)> const extend = [&](int at) {
    if (std::find(path.begin(), path.end(), at) != path.end()) return;
    path.push_back(at);
    auto const& node = machine.nodes[static_cast<std::size_t>(at)];
    if (path.size() > 1 && node.kind == node_kind::rank) {
      for (int const v : path) result.insert(machine.nodes[static_cast<std::size_t>(v)].id);
    }
    for (auto const& l : machine.links) {
      if (l.tail == at) extend(l.head);
    }
    path.pop_back();
  };
  for (int const rank : machine.rank_positions()) extend(rank);
  return result;
}

std::string error_of(std::function<void()> const& call) {
  try {
    call();
  } catch (input_error const& fault) {
    return fault.what();
  }
  return "no error";
}

TEST(subset, keeps_the_requested_ranks_and_every_switch_on_a_path) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto const machine = random_machine(random);
    auto ids = ids_of(machine, node_kind::rank);
    std::shuffle(ids.begin(), ids.end(), random);
    ids.resize(std::uniform_int_distribution<std::size_t>(1, ids.size())(random));

    auto const part = subset(machine, ids);
    EXPECT_NO_THROW(validate(part));
    std::sort(ids.begin(), ids.end());
    EXPECT_EQ(ids_of(part, node_kind::rank), ids);

    // A naive subset that keeps all switches.
    topology naive = machine;
    std::vector<int> position(machine.nodes.size(), -1);
    naive.nodes.clear();
    for (std::size_t i = 0; i < machine.nodes.size(); ++i) {
      auto const& n = machine.nodes[i];
      if (n.kind == node_kind::rank && !std::binary_search(ids.begin(), ids.end(), n.id)) continue;
      position[i] = static_cast<int>(naive.nodes.size());
      naive.nodes.push_back(n);
    }
    std::erase_if(naive.links, [&](link& l) {
      l.tail = position[static_cast<std::size_t>(l.tail)];
      l.head = position[static_cast<std::size_t>(l.head)];
      return l.tail < 0 || l.head < 0;
    });
    EXPECT_EQ(rank_groups(part), rank_groups(naive));
    EXPECT_EQ(ids_on_paths(part), ids_on_paths(naive));
    for (int const switch_node : ids_on_paths(naive)) EXPECT_GE(part.position_of(switch_node), 0);

    // Every switch that is left forwards something.
    for (std::size_t v = 0; v < part.nodes.size(); ++v) {
      if (part.nodes[v].kind == node_kind::rank) continue;
      std::set<int> in;
      std::set<int> out;
      for (auto const& l : part.links) {
        if (l.head == static_cast<int>(v)) in.insert(l.tail);
        if (l.tail == static_cast<int>(v)) out.insert(l.head);
      }
      EXPECT_TRUE(!in.empty() && !out.empty());
      std::set<int> around = in;
      around.insert(out.begin(), out.end());
      EXPECT_GE(around.size(), 2U);
    }
    // A second subset changes nothing.
    auto const again = subset(part, ids);
    EXPECT_EQ(again.nodes.size(), part.nodes.size());
    EXPECT_EQ(again.links.size(), part.links.size());
  }
}

TEST(subset, keeps_order_ids_labels_and_links) {
  auto machine = test::direct_machine(test::dgx1v_matrix(25));
  machine.nodes[5].uuids = {"GPU-5", "other"};
  machine.nodes[5].bus_id = "0000:05:00.0";
  auto const part = subset(machine, {5, 3, 1});
  ASSERT_EQ(part.nodes.size(), 3U);
  EXPECT_EQ(part.nodes[0].id, 1);
  EXPECT_EQ(part.nodes[1].id, 3);
  EXPECT_EQ(part.nodes[2].id, 5);
  EXPECT_EQ(part.nodes[2].label, "gpu5");
  EXPECT_EQ(part.nodes[2].uuids, machine.nodes[5].uuids);
  EXPECT_EQ(part.nodes[2].bus_id, "0000:05:00.0");
  std::int64_t sum = 0;
  for (auto const& l : part.links) sum += l.capacity;
  EXPECT_EQ(part.links.size(), 4U);  // 1 - 3 one link, 1 - 5 two
  EXPECT_EQ(sum, 2 * 25 + 2 * 50);
}

TEST(subset, of_one_rank_has_no_links) {
  auto const part = subset(test::star_machine(8, 300), {4});
  EXPECT_EQ(part.nodes.size(), 1U);
  EXPECT_TRUE(part.links.empty());
}

TEST(subset, drops_a_chain_of_switches_that_ends_nowhere) {
  auto machine = test::star_machine(2, 10);  // the switch is node 2
  for (int i = 3; i < 6; ++i) {
    machine.nodes.push_back({i, node_kind::switch_node, "chain", 0});
    machine.links.push_back({i - 1, i, 1, 0, link_kind::pcie});
    machine.links.push_back({i, i - 1, 1, 0, link_kind::pcie});
  }
  auto const part = subset(machine, {0, 1});
  EXPECT_EQ(part.nodes.size(), 3U);
  EXPECT_EQ(part.links.size(), 4U);
}

TEST(subset, says_what_is_wrong_with_the_ids) {
  auto const machine = test::star_machine(3, 10);
  auto const of = [&](std::vector<int> const& ids) {
    return error_of([&] { (void)subset(machine, ids); });
  };
  EXPECT_EQ(of({}), "machine 'star': no rank chosen, expected some of the ranks 0 1 2");
  EXPECT_EQ(of({0, 7}), "machine 'star': no node has the id 7, expected some of the ranks 0 1 2");
  EXPECT_EQ(of({0, 3}), "machine 'star': node 3 is a switch, expected some of the ranks 0 1 2");
  EXPECT_EQ(of({1, 0, 1}),
            "machine 'star': rank 1 is chosen twice, expected some of the ranks 0 1 2");
}

/// Ranks 0 … n-1 below a PCIe switch (id n), and NVLinks between the given pairs.
topology with_pcie(int n, std::vector<std::pair<int, int>> const& nvlinks) {
  auto machine = test::star_machine(n, 12);
  for (auto& l : machine.links) l.kind = link_kind::pcie;
  for (auto const& [a, b] : nvlinks) {
    machine.links.push_back({a, b, 25, 0, link_kind::nvlink});
    machine.links.push_back({b, a, 25, 0, link_kind::nvlink});
  }
  return machine;
}

TEST(only_links, keeps_one_kind_and_drops_switches_of_the_others) {
  auto const machine = with_pcie(3, {{0, 1}, {1, 2}});
  auto const nvlink = only_links(machine, link_kind::nvlink);
  EXPECT_EQ(nvlink.nodes.size(), 3U);
  EXPECT_EQ(nvlink.links.size(), 4U);
  auto const pcie = only_links(machine, link_kind::pcie);
  EXPECT_EQ(pcie.nodes.size(), 4U);
  EXPECT_EQ(pcie.links.size(), 6U);
  EXPECT_EQ(error_of([&] { (void)only_links(machine, link_kind::xgmi); }),
            "machine 'star': no link of kind xgmi, expected one of the kinds that it has: "
            "nvlink, pcie");
}

TEST(fastest_connecting_kind, is_the_fastest_kind_if_it_joins_all_ranks) {
  EXPECT_EQ(fastest_connecting_kind(with_pcie(3, {{0, 1}, {1, 2}})), link_kind::nvlink);
  // Rank 2 has no NVLink. All links are needed, because PCIe alone would be slow.
  EXPECT_EQ(fastest_connecting_kind(with_pcie(3, {{0, 1}})), std::nullopt);
  // There is only one kind.
  EXPECT_EQ(fastest_connecting_kind(with_pcie(3, {})), std::nullopt);
  EXPECT_EQ(fastest_connecting_kind(subset(with_pcie(3, {}), {0})), std::nullopt);
  // A link of unknown kind may be the fastest.
  auto machine = with_pcie(2, {{0, 1}});
  machine.links.front().kind = link_kind::unknown;
  EXPECT_EQ(fastest_connecting_kind(machine), std::nullopt);
}

TEST(fastest_connecting_kind, joins_both_ways) {
  auto machine = with_pcie(2, {});
  machine.links.push_back({0, 1, 25, 0, link_kind::nvlink});
  EXPECT_EQ(fastest_connecting_kind(machine), std::nullopt);
  machine.links.push_back({1, 0, 25, 0, link_kind::nvlink});
  EXPECT_EQ(fastest_connecting_kind(machine), link_kind::nvlink);
}

TEST(rank_groups, are_the_classes_of_mutual_reach) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto const machine = random_machine(random);
    auto const n = machine.nodes.size();
    std::vector<std::vector<bool>> reach(n, std::vector<bool>(n, false));  // Warshall's closure
    for (std::size_t i = 0; i < n; ++i) reach[i][i] = true;
    for (auto const& l : machine.links) {
      reach[static_cast<std::size_t>(l.tail)][static_cast<std::size_t>(l.head)] = true;
    }
    for (std::size_t k = 0; k < n; ++k) {
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
          if (reach[i][k] && reach[k][j]) reach[i][j] = true;
        }
      }
    }
    std::vector<std::vector<int>> expected;
    for (int const rank : machine.rank_positions()) {
      auto const r = static_cast<std::size_t>(rank);
      auto const group = std::find_if(expected.begin(), expected.end(), [&](auto const& g) {
        auto const first = static_cast<std::size_t>(machine.position_of(g.front()));
        return reach[r][first] && reach[first][r];
      });
      if (group == expected.end()) {
        expected.push_back({machine.nodes[r].id});
      } else {
        group->push_back(machine.nodes[r].id);
      }
    }
    EXPECT_EQ(rank_groups(machine), expected);
    EXPECT_EQ(error_of([&] { require_connected(machine); }) == "no error", expected.size() == 1);
  }
}

TEST(require_connected, names_two_ranks_and_the_groups) {
  auto machine = test::direct_machine({{0, 5, 0, 0}, {5, 0, 0, 0}, {0, 0, 0, 5}, {0, 0, 5, 0}});
  EXPECT_EQ(error_of([&] { require_connected(machine); }),
            "machine 'direct': no path from rank 0 to rank 2, expected one joined group, found {0 "
            "1} {2 3}");
  machine.links.push_back({1, 2, 5, 0, link_kind::nvlink});  // one direction only
  EXPECT_EQ(error_of([&] { require_connected(machine); }),
            "machine 'direct': no path from rank 2 to rank 0, expected one joined group, found {0 "
            "1} {2 3}");
  machine.links.push_back({3, 0, 5, 0, link_kind::nvlink});
  EXPECT_NO_THROW(require_connected(machine));
}

TEST(read_link_kind, knows_every_name_and_lists_them) {
  for (auto kind :
       {link_kind::unknown, link_kind::nvlink, link_kind::xgmi, link_kind::xelink, link_kind::c2c,
        link_kind::pcie, link_kind::socket, link_kind::network, link_kind::memory}) {
    EXPECT_EQ(read_link_kind(to_text(kind)), kind);
  }
  EXPECT_NE(error_of([] {
              (void)read_link_kind("nvlnk");
            }).find("'nvlnk', expected one of unknown, nvlink, xgmi"),
            std::string::npos);
}

}}  // namespace blink::subset_test
