// SPDX-License-Identifier: Apache-2.0
#include <blink/topology/canonical.hpp>

#include "support/small_machines.hpp"
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/isomorphism.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

// Rooms may be compiled as one source.
namespace canonical_test { namespace {

using blink::canonical;
using blink::link_kind;
using blink::node_kind;
using blink::topology;
using blink::test::direct_machine;
using matrix = std::vector<std::vector<std::int64_t>>;

std::vector<int> shuffled(int n, std::mt19937& random) {
  std::vector<int> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

/// Renumbers a machine. Node i of the result is node order[i] of the machine. The links are
/// shuffled.
topology renumbered(topology const& machine, std::vector<int> const& order, std::mt19937& random) {
  topology result = machine;
  std::vector<int> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    place[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
    result.nodes[i] = machine.nodes[static_cast<std::size_t>(order[i])];
    result.nodes[i].id = static_cast<int>(i) + 100;
    result.nodes[i].label = "n" + std::to_string(i);
  }
  for (auto& link : result.links) {
    link.tail = place[static_cast<std::size_t>(link.tail)];
    link.head = place[static_cast<std::size_t>(link.head)];
  }
  std::shuffle(result.links.begin(), result.links.end(), random);
  return result;
}

topology random_machine(std::mt19937& random, int n, int densities, int capacities, int kinds) {
  auto const below = [&](int limit) {
    return std::uniform_int_distribution<int>(0, limit - 1)(random);
  };
  topology machine;
  for (int i = 0; i < n; ++i) {
    bool const is_switch = i > 0 && kinds > 1 && below(4) == 0;
    machine.nodes.push_back({i, is_switch ? node_kind::switch_node : node_kind::rank, "", 0});
  }
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      if (i == j || below(densities) != 0) continue;
      auto const kind = static_cast<link_kind>(1 + below(kinds));
      machine.links.push_back({i, j, 1 + below(capacities), 0, kind});
    }
  }
  return machine;
}

/// The links between each two nodes, by kind and capacity. `place` renumbers the nodes.
std::map<std::pair<int, int>, std::multiset<std::pair<int, std::int64_t>>> links_of(
    topology const& machine, std::vector<int> const& place) {
  std::map<std::pair<int, int>, std::multiset<std::pair<int, std::int64_t>>> result;
  for (auto const& link : machine.links) {
    result[{place[static_cast<std::size_t>(link.tail)], place[static_cast<std::size_t>(link.head)]}]
        .insert({static_cast<int>(link.kind), link.capacity});
  }
  return result;
}

/// True if a renumbering maps `a` onto `b`. Tries all of them.
bool are_isomorphic(topology const& a, topology const& b) {
  if (a.nodes.size() != b.nodes.size() || a.links.size() != b.links.size()) return false;
  std::vector<int> same(a.nodes.size());
  std::iota(same.begin(), same.end(), 0);
  auto const wanted = links_of(b, same);
  auto place = same;
  do {
    bool fits = true;
    for (std::size_t i = 0; fits && i < place.size(); ++i) {
      fits = a.nodes[i].kind == b.nodes[static_cast<std::size_t>(place[i])].kind;
    }
    if (fits && links_of(a, place) == wanted) return true;
  } while (std::next_permutation(place.begin(), place.end()));
  return false;
}

bool is_connected(matrix const& links) {
  std::vector<bool> seen(links.size(), false);
  std::vector<std::size_t> open{0};
  seen[0] = true;
  std::size_t count = 1;
  while (!open.empty()) {
    auto const at = open.back();
    open.pop_back();
    for (std::size_t j = 0; j < links.size(); ++j) {
      if (seen[j] || links[at][j] == 0) continue;
      seen[j] = true;
      ++count;
      open.push_back(j);
    }
  }
  return count == links.size();
}

/// The number of classes of allocations of 3 to 8 GPUs. First those of connected allocations by the
/// number of GPUs, then that of all.
std::pair<std::vector<std::size_t>, std::size_t> classes_of(matrix const& whole) {
  std::vector<std::set<std::string>> connected(9);
  std::set<std::string> all;
  for (unsigned chosen = 0; chosen < 256; ++chosen) {
    auto const part = blink::test::part_of(whole, chosen);
    if (part.size() < 3) continue;
    auto const form = canonical(direct_machine(part));
    EXPECT_TRUE(form.is_exact);
    all.insert(form.key);
    if (is_connected(part)) connected[part.size()].insert(form.key);
  }
  std::vector<std::size_t> counts;
  for (std::size_t n = 3; n <= 8; ++n) counts.push_back(connected[n].size());
  return {counts, all.size()};
}

TEST(canonical, classes_of_dgx1v_allocations) {
  auto const [connected, all] = classes_of(blink::test::dgx1v_matrix(25));
  EXPECT_EQ(connected, (std::vector<std::size_t>{5, 14, 14, 10, 2, 1}));
  EXPECT_EQ(all, 53U);
}

TEST(canonical, classes_of_dgx1p_allocations) {
  auto const [connected, all] = classes_of(blink::test::dgx1p_matrix(20));
  EXPECT_EQ(connected, (std::vector<std::size_t>{2, 4, 3, 3, 1, 1}));
  EXPECT_EQ(all, 17U);
}

TEST(canonical, renumbered_machines_have_equal_keys) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    int const n = 1 + static_cast<int>(seed % 12);
    auto const machine = random_machine(random, n, 1 + static_cast<int>(seed % 5), 2, 2);
    auto const form = canonical(machine);
    EXPECT_TRUE(form.is_exact);
    auto sorted = form.order;
    std::sort(sorted.begin(), sorted.end());
    for (int i = 0; i < n; ++i) ASSERT_EQ(sorted[static_cast<std::size_t>(i)], i);
    auto const other = renumbered(machine, shuffled(n, random), random);
    EXPECT_EQ(canonical(other).key, form.key);
    // The orders are the certificate. They map the one machine onto the other.
    auto const same_key = canonical(other);
    std::vector<int> place(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < place.size(); ++i) {
      place[static_cast<std::size_t>(form.order[i])] = same_key.order[i];
    }
    std::vector<int> same(place.size());
    std::iota(same.begin(), same.end(), 0);
    EXPECT_EQ(links_of(machine, place), links_of(other, same));
  }
}

TEST(canonical, equal_keys_exactly_for_isomorphic_machines) {
  int isomorphic = 0;
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    int const n = 2 + static_cast<int>(seed % 4);
    auto const a = random_machine(random, n, 2, 1 + static_cast<int>(seed % 2), 2);
    auto b = random_machine(random, n, 2, 1 + static_cast<int>(seed % 2), 2);
    if (seed % 3 == 0) {  // a near miss: one link of a renumbered copy is reversed
      b = renumbered(a, shuffled(n, random), random);
      if (!b.links.empty()) std::swap(b.links[0].tail, b.links[0].head);
    }
    bool const expected = are_isomorphic(a, b);
    isomorphic += expected ? 1 : 0;
    EXPECT_EQ(canonical(a).key == canonical(b).key, expected);
  }
  EXPECT_GT(isomorphic, 20);
  EXPECT_LT(isomorphic, 380);
}

TEST(canonical, agrees_with_boost_on_regular_graphs) {
  using boost_graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS>;
  int isomorphic = 0;
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    // Sums of two random permutations without fixed points. Every degree is 2, so that refinement
    // alone cannot distinguish the nodes.
    int const n = 5 + static_cast<int>(seed % 3);
    auto const two_regular = [&] {
      for (;;) {
        topology machine;
        for (int i = 0; i < n; ++i) machine.nodes.push_back({i, node_kind::rank, "", 0});
        auto const p = shuffled(n, random);
        auto const q = shuffled(n, random);
        bool fits = true;
        for (int i = 0; fits && i < n; ++i) {
          int const first = p[static_cast<std::size_t>(i)];
          int const second = q[static_cast<std::size_t>(i)];
          fits = first != i && second != i && first != second;
          machine.links.push_back({i, first, 1, 0, link_kind::nvlink});
          machine.links.push_back({i, second, 1, 0, link_kind::nvlink});
        }
        if (fits) return machine;
      }
    };
    auto const a = two_regular();
    auto const b = two_regular();
    auto const as_boost = [&](topology const& machine) {
      boost_graph graph(static_cast<std::size_t>(n));
      for (auto const& link : machine.links) {
        add_edge(static_cast<std::size_t>(link.tail), static_cast<std::size_t>(link.head), graph);
      }
      return graph;
    };
    bool const expected = boost::isomorphism(as_boost(a), as_boost(b));
    isomorphic += expected ? 1 : 0;
    EXPECT_EQ(canonical(a).key == canonical(b).key, expected);
  }
  EXPECT_GT(isomorphic, 5);
  EXPECT_LT(isomorphic, 195);
}

TEST(canonical, capacities_kinds_and_parallel_links_matter_and_names_do_not) {
  auto const base = direct_machine({{0, 25}, {25, 0}});
  auto const key = canonical(base).key;
  auto other = base;
  other.name = "elsewhere";
  other.nodes[0].id = 7;
  other.nodes[1].server = 3;
  other.nodes[0].uuids = {"GPU-8932f937"};
  other.nodes[1].bus_id = "0000:06:00.0";
  other.links[0].latency_seconds = 1e-6;
  EXPECT_EQ(canonical(other).key, key);
  other.steps_per_unit = 2;  // the same capacities in half units
  for (auto& link : other.links) link.capacity *= 2;
  EXPECT_EQ(canonical(other).key, key);
  other = base;
  other.links[0].capacity = 24;
  EXPECT_NE(canonical(other).key, key);
  other = base;
  other.links[0].kind = link_kind::pcie;
  EXPECT_NE(canonical(other).key, key);
  other = base;
  other.nodes[1].kind = node_kind::switch_node;
  EXPECT_NE(canonical(other).key, key);
  other = base;
  other.links.push_back(other.links[0]);
  other.links[0].capacity = 12;
  other.links.back().capacity = 13;
  EXPECT_NE(canonical(other).key, key);
  other = base;
  other.unit = "B/s";
  EXPECT_NE(canonical(other).key, key);
}

TEST(canonical, symmetric_machines_need_few_steps) {
  struct machine_and_steps {
    topology machine;
    std::int64_t steps;
  };
  auto const torus = [](int side) {
    matrix links(static_cast<std::size_t>(side * side),
                 std::vector<std::int64_t>(static_cast<std::size_t>(side * side), 0));
    for (int x = 0; x < side; ++x) {
      for (int y = 0; y < side; ++y) {
        auto const at = [&](int i, int j) {
          return static_cast<std::size_t>((i + side) % side * side + (j + side) % side);
        };
        links[at(x, y)][at(x + 1, y)] = links[at(x + 1, y)][at(x, y)] = 1;
        links[at(x, y)][at(x, y + 1)] = links[at(x, y + 1)][at(x, y)] = 1;
      }
    }
    return direct_machine(links);
  };
  std::vector<machine_and_steps> const cases{{blink::test::star_machine(24, 50), 24 * 25},
                                             {torus(6), 36 * 37},
                                             {direct_machine(blink::test::dgx1p_matrix(1)), 60}};
  std::mt19937 random(1);
  for (auto const& [machine, steps] : cases) {
    auto const form = canonical(machine);
    EXPECT_TRUE(form.is_exact);
    EXPECT_LE(form.steps, steps);
    auto const n = static_cast<int>(machine.nodes.size());
    EXPECT_EQ(canonical(renumbered(machine, shuffled(n, random), random)).key, form.key);
  }
}

TEST(canonical, the_limit_is_reported) {
  auto const machine = blink::test::star_machine(6, 1);
  auto const cut = canonical(machine, 3);
  EXPECT_FALSE(cut.is_exact);
  EXPECT_EQ(cut.order.size(), machine.nodes.size());
  EXPECT_TRUE(canonical(machine).is_exact);
  EXPECT_THROW((void)canonical(machine, 0), blink::precondition_error);
  EXPECT_THROW((void)canonical(topology{}), blink::input_error);
}

}}  // namespace canonical_test
