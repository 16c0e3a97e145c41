// SPDX-License-Identifier: Apache-2.0
// Planners that do not look for the optimum: sound on every machine, and what each is known for.
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/planning/planners/plan_near_torus.hpp>
#include <blink/planning/planners/rank_patterns.hpp>
#include <blink/topology/machines.hpp>
#include <blink/topology/readers/read_json.hpp>
#include <blink/topology/subset.hpp>

#include "support/random_machines.hpp"
#include "support/small_machines.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace blink;

constexpr collective spanning[]{collective::broadcast, collective::reduce, collective::all_reduce,
                                collective::all_gather, collective::reduce_scatter};

/// The planners that need no more of a machine than ways between its ranks, and those that need
/// several servers.
constexpr std::string_view anywhere[]{"one_hop",     "pcie_ring", "double_tree",
                                      "binomial",    "bine",      "recursive_halving_doubling",
                                      "rabenseifner"};
constexpr std::string_view among_servers[]{"hierarchical_ring", "box_tree"};

plan sound_plan(topology const& machine, plan_request const& request) {
  auto p = make_plan(machine, request);
  auto const report = check_plan(machine, p);
  EXPECT_EQ(report.fault.value_or(""), "") << request.planner << " " << to_text(p.collective);
  EXPECT_EQ(p.planner, request.planner);
  return p;
}

/// Some link is full: no weight could be larger alone.
bool fills_a_link(topology const& machine, plan const& p) {
  auto const report = check_plan(machine, p);
  auto const view = detail::member_view(machine, p);
  return std::ranges::any_of(report.load, [&](auto const& entry) {
    return entry.second == view.capacity.at(entry.first);
  });
}

int tallest(plan const& p) {
  int result = 0;
  for (auto const& t : p.trees) result = std::max(result, height(t));
  return result;
}

/// Every planner of the list, every collective that the table gives it.
template <class Names>
void expect_sound(topology const& machine, Names const& names, std::optional<int> root = {}) {
  for (std::string_view const name : names) {
    for (auto const kind : spanning) {
      if (!planner_named(name).collectives.contains(kind)) {
        EXPECT_THROW((void)make_plan(machine, {kind, {}, std::string(name), {}}), planning_error);
        continue;
      }
      auto const p = sound_plan(machine, {kind, root, std::string(name), {}});
      EXPECT_GT(p.rate, rational(0)) << name << " " << to_text(kind);
      // A broadcast leaves one edge of its ring unused, which may be the narrow one.
      bool const has_gap = name.ends_with("ring") && has_one_root(kind);
      EXPECT_TRUE(has_gap || fills_a_link(machine, p)) << name << " " << to_text(kind);
    }
  }
}

TEST(baselines, are_sound_on_random_machines) {
  for (unsigned seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    auto const switches = seed % 3 == 0 ? 0 : 1 + seed % 4;
    auto const machine =
        seed % 2 == 0 ? test::make_random_machine(seed, 2 + seed % 9, switches, 4 + seed % 11)
                      : test::make_random_duplex_machine(seed, 2 + seed % 9, switches, seed % 8);
    auto const ranks = machine.rank_positions();
    expect_sound(machine, anywhere,
                 machine.nodes[static_cast<std::size_t>(ranks[seed % ranks.size()])].id);
    if (switches > 0) expect_sound(machine, std::array{"ring"});
    auto const servers = detail::servers_of(machine).size();
    if (servers > 1) {
      expect_sound(machine, among_servers);
    } else {
      for (auto const name : among_servers) {
        EXPECT_THROW((void)make_plan(machine, {collective::broadcast, {}, std::string(name), {}}),
                     planning_error);
      }
    }
  }
}

TEST(baselines, are_sound_on_parts_of_dgx1v) {
  auto const whole = machines::dgx1v();
  for (unsigned chosen = 3; chosen < 256; chosen += 11) {
    std::vector<int> ids;
    for (int i = 0; i < 8; ++i) {
      if ((chosen >> i & 1U) != 0) ids.push_back(i);
    }
    if (ids.size() < 2) continue;
    auto const machine = subset(whole, ids);
    SCOPED_TRACE(chosen);
    try {
      require_connected(machine);
    } catch (error const&) {
      EXPECT_THROW((void)make_plan(machine, {collective::all_reduce, {}, "one_hop", {}}),
                   planning_error);
      continue;
    }
    expect_sound(machine, anywhere);
  }
}

TEST(baselines, are_sound_on_servers_of_different_size) {
  auto const machine = subset(machines::dgx_a100(3), {0, 2, 5, 8, 9, 10, 13, 15, 20});
  expect_sound(machine, anywhere, 9);
  expect_sound(machine, among_servers, 9);
  expect_sound(machine, std::array{"ring"}, 9);
}

TEST(baselines, are_sound_on_machines_of_the_table) {
  auto const folder = std::string(BLINK_TEST_DATA_DIR) + "/topologies/";
  for (auto const* name : {"dgx_a100_2box", "dgx_h100_2box", "mi250_2box", "dragonfly_4x5",
                           "ndv2_2box", "mesh2d_4x4", "hub_and_spoke_8", "amd16_teccl"}) {
    SCOPED_TRACE(name);
    auto const machine = read_json_file(folder + name + ".json");
    bool const several = detail::servers_of(machine).size() > 1;
    for (auto const kind : {collective::all_reduce, collective::broadcast}) {
      for (auto const planner : anywhere) {
        if (!planner_named(planner).collectives.contains(kind)) continue;
        EXPECT_GT(sound_plan(machine, {kind, {}, std::string(planner), {}}).rate, rational(0));
      }
      for (auto const planner : among_servers) {
        if (!several) continue;
        EXPECT_GT(sound_plan(machine, {kind, {}, std::string(planner), {}}).rate, rational(0));
      }
    }
  }
}

TEST(baselines, rings_use_every_nic) {
  for (int const servers : {2, 4}) {
    for (auto const& [machine, nic] :
         {std::pair(machines::dgx_a100(servers), 25), std::pair(machines::dgx_h100(servers), 50)}) {
      auto const p = sound_plan(machine, {collective::broadcast, {}, "ring", {}});
      EXPECT_EQ(p.trees.size(), 8U);
      EXPECT_EQ(p.rate, rational(8 * nic)) << machine.name;
      auto const all = sound_plan(machine, {collective::all_reduce, {}, "ring", {}});
      EXPECT_EQ(all.rate, rational(8 * nic) * (8 * servers) / (2 * (8 * servers - 1)));
    }
  }
}

TEST(baselines, heights_are_logarithmic) {
  for (int n = 2; n <= 33; ++n) {
    auto const machine = test::star_machine(n, 12);
    int ceiling = 0;
    while (1 << ceiling < n) ++ceiling;
    for (auto const* name : {"binomial", "bine", "recursive_halving_doubling", "rabenseifner"}) {
      auto const p = sound_plan(machine, {collective::all_reduce, {}, name, {}});
      EXPECT_LE(tallest(p), ceiling) << n;
      if (name != std::string("binomial")) {
        EXPECT_EQ(p.trees.size(), static_cast<std::size_t>(n));
      }
    }
    EXPECT_LE(tallest(sound_plan(machine, {collective::all_reduce, {}, "double_tree", {}})),
              2 * ceiling);
  }
}

int rounds_by(int base, int n) {
  int result = 0;
  for (int reached = 1; reached < n; reached *= base) ++result;
  return result;
}

/// Sum of the rounds of all dimensions.
int rounds_by(int base, std::vector<int> const& extents) {
  int result = 0;
  for (int const n : extents) result += rounds_by(base, n);
  return result;
}

TEST(baselines, trees_of_rings_and_tori_are_low) {
  for (std::vector<int> const& extents : {std::vector<int>{3},
                                          {4},
                                          {5},
                                          {7},
                                          {8},
                                          {9},
                                          {10},
                                          {16},
                                          {26},
                                          {27},
                                          {28},
                                          {3, 3},
                                          {2, 4},
                                          {3, 5},
                                          {4, 4},
                                          {6, 3},
                                          {3, 3, 3},
                                          {2, 3, 4}}) {
    auto const machine =
        extents.size() == 1 ? machines::ring(extents[0]) : machines::torus(extents);
    SCOPED_TRACE(machine.name);
    auto const ranks = machine.rank_positions().size();
    int folded = 0;  // a last round where an extent is no power of two
    for (int const n : extents) folded += std::has_single_bit(static_cast<unsigned>(n)) ? 0 : 1;
    int const binary = rounds_by(2, extents);
    for (auto const kind : spanning) {
      auto const low = sound_plan(machine, {kind, {}, "trivance", {}});
      EXPECT_EQ(tallest(low), rounds_by(3, extents));
      bool const is_odd = std::ranges::all_of(extents, [](int n) { return n % 2 == 1; });
      EXPECT_EQ(low.trees.size(),
                (has_one_root(kind) ? 1 : ranks) * extents.size() * (is_odd ? 1 : 2));
      EXPECT_TRUE(fills_a_link(machine, low));
      auto const swing = sound_plan(machine, {kind, {}, "swing", {}});
      EXPECT_LE(tallest(swing), binary + folded);
      EXPECT_TRUE(fills_a_link(machine, swing));
    }
  }
}

/// Both are optimal where every link is as busy as any other.
TEST(baselines, trees_of_small_tori_are_optimal) {
  for (auto const kind : {collective::all_reduce, collective::all_gather}) {
    for (auto const& [extents, name] : {std::pair(std::vector<int>{3, 3}, "trivance"),
                                        {{4, 4}, "trivance"},
                                        {{4, 4}, "swing"},
                                        {{4, 4, 4}, "swing"}}) {
      auto const p = sound_plan(machines::torus(extents), {kind, {}, name, {}});
      EXPECT_EQ(p.rate, p.bound) << name << " " << extents.size();
    }
  }
}

// The trees of a whole torus, of which few change, reach the optimum of any planner.
TEST(near_torus, lost_and_slow_links_leave_an_optimal_all_gather) {
  std::mt19937 random(24);
  int planned = 0;
  for (int run = 0; run < 24; ++run) {
    SCOPED_TRACE(run);
    auto machine = run % 3 == 0   ? machines::torus({3, 4, 2})
                   : run % 3 == 1 ? machines::torus({4, 5})
                                  : machines::ring(9);
    for (auto& l : machine.links) l.capacity = 4;
    for (auto damaged = 1 + random() % 3; damaged > 0; --damaged) {
      auto const i = random() % machine.links.size();
      auto const [tail, head] = std::pair(machine.links[i].tail, machine.links[i].head);
      bool const is_lost = random() % 2 == 0;
      for (auto& l : machine.links) {
        if (std::minmax(l.tail, l.head) == std::minmax(tail, head)) l.capacity = is_lost ? 0 : 3;
      }
    }
    std::erase_if(machine.links, [](auto const& l) { return l.capacity == 0; });
    plan_request const request{collective::all_gather, {}, "exact", {}};
    auto const p = plan_near_torus(machine, request);
    if (!p) continue;
    ++planned;
    EXPECT_EQ(check_plan(machine, *p).fault.value_or(""), "");
    EXPECT_EQ(p->rate, p->bound);
    EXPECT_EQ(p->rate, make_plan(machine, request).rate);
  }
  EXPECT_GT(planned, 12);
  EXPECT_FALSE(plan_near_torus(machines::torus({4, 4}), {collective::all_gather}));
  EXPECT_FALSE(plan_near_torus(machines::dgx1v(), {collective::all_gather}));
}

TEST(near_torus, is_the_plan_of_many_ranks) {
  auto machine = machines::torus({10, 10});
  std::erase_if(machine.links, [](auto const& l) { return l.tail + l.head == 1; });
  for (auto const kind : {collective::all_gather, collective::reduce_scatter}) {
    auto const p = sound_plan(machine, {kind, {}, "exact", {}});
    EXPECT_EQ(p.rate, p.bound);
    EXPECT_EQ(p.rate, rational(300, 99));
  }
}

TEST(baselines, trees_of_tori_are_refused_elsewhere) {
  for (auto const& machine : {machines::dgx1v(), machines::dgx2(), machines::line(5)}) {
    for (auto const* name : {"swing", "trivance"}) {
      EXPECT_THROW((void)make_plan(machine, {collective::all_reduce, {}, name, {}}),
                   planning_error);
    }
  }
}

/// On a switch with N = 2^k every butterfly reaches the optimum: all ports carry the same.
TEST(baselines, butterflies_are_optimal_on_a_switch) {
  for (int const n : {2, 4, 8, 16}) {
    auto const machine = test::star_machine(n, 150);
    for (auto const* name : {"bine", "recursive_halving_doubling", "rabenseifner", "one_hop"}) {
      for (auto const kind :
           {collective::all_reduce, collective::all_gather, collective::reduce_scatter}) {
        auto const p = sound_plan(machine, {kind, {}, name, {}});
        EXPECT_EQ(p.rate, p.bound) << name << " " << n;
      }
    }
  }
}

/// Sum of the distances round the circle that a tree's edges span.
long span_of(plan const& p, long n) {
  long result = 0;
  for (auto const& e : p.trees.front().broadcast) {
    long const d = std::abs(e.from - e.to);
    result += std::min(d, n - d);
  }
  return result;
}

TEST(baselines, bine_trees_span_less_distance) {
  for (int const n : {8, 16, 32, 64, 128}) {
    auto const machine = test::star_machine(n, 1);
    for (int const root : {0, 3, n - 1}) {
      auto const bine = span_of(sound_plan(machine, {collective::broadcast, root, "bine", {}}), n);
      auto const binomial =
          span_of(sound_plan(machine, {collective::broadcast, root, "binomial", {}}), n);
      // Distances are (2^s - (-1)^s) / 3 instead of 2^(s-1); the longest, n/2 on the circle, is cut
      // most.
      EXPECT_LT(bine, binomial);
      if (n >= 64) {
        EXPECT_LT(static_cast<double>(bine), 0.75 * static_cast<double>(binomial));
      }
    }
  }
}

// One message of a rank in each of ceil(log2 N) rounds, far partners first and with the fewest
// blocks: what PAT does, for any number of ranks.
TEST(baselines, binomial_trees_gather_in_the_rounds_of_pat) {
  for (unsigned const n : {2U, 3U, 5U, 6U, 7U, 8U, 12U, 31U, 32U, 33U, 100U, 255U, 257U, 1000U}) {
    std::vector<int> ranks(n);
    std::iota(ranks.begin(), ranks.end(), 0);
    plan_request request;
    request.collective = collective::all_gather;
    auto const trees = detail::binomial_trees({}, request, ranks);
    ASSERT_EQ(trees.size(), n);
    std::map<std::pair<unsigned, int>, std::map<int, unsigned>> messages;  // round and sender
    for (auto const& tree : trees) {
      std::vector<unsigned> reached_in(n, std::bit_width(n));  // the round of the shortest distance
      for (auto const& [from, to] : tree.hops) {               // is 0, and the last
        auto const distance = static_cast<unsigned>(to - from + static_cast<int>(n)) % n;
        ASSERT_TRUE(std::has_single_bit(distance));
        auto const round = static_cast<unsigned>(std::countr_zero(distance));
        ASSERT_LT(round, reached_in[static_cast<std::size_t>(from)]) << "sent before it arrives";
        reached_in[static_cast<std::size_t>(to)] = round;
        ++messages[{round, from}][to];
      }
    }
    std::set<unsigned> rounds;
    for (auto const& [at, to] : messages) {
      rounds.insert(at.first);
      ASSERT_EQ(to.size(), 1U) << "a rank sends to one other rank in a round";
      unsigned const reach = 1U << at.first;
      ASSERT_EQ(to.begin()->second, (n - reach - 1) / (2 * reach) + 1) << "blocks over " << reach;
    }
    EXPECT_EQ(rounds.size(), std::bit_width(n - 1)) << n;
  }
}

TEST(baselines, one_hop_broadcasts_at_the_ports_rate) {
  auto const machine = machines::dgx2();
  auto const p = sound_plan(machine, {collective::broadcast, 5, "one_hop", {}});
  EXPECT_EQ(p.rate, rational(150));
  EXPECT_EQ(tallest(p), 2);
  EXPECT_EQ(sound_plan(machine, {collective::all_reduce, {}, "one_hop", {}}).rate, rational(80));
}

/// Two switches side by side: routes take them in turn.
TEST(baselines, equally_short_ways_are_used_in_turn) {
  topology machine;
  machine.name = "planes";
  for (int i = 0; i < 4; ++i) machine.nodes.push_back({i, node_kind::rank, ""});
  for (int s = 4; s < 6; ++s) {
    machine.nodes.push_back({s, node_kind::switch_node, ""});
    for (int i = 0; i < 4; ++i) {
      machine.links.push_back({i, s, 10});
      machine.links.push_back({s, i, 10});
    }
  }
  EXPECT_EQ(sound_plan(machine, {collective::broadcast, {}, "ring", {}}).rate, rational(20));
  EXPECT_GE(sound_plan(machine, {collective::all_gather, {}, "one_hop", {}}).rate, rational(20));
}

TEST(baselines, one_rank_has_nothing_to_move) {
  topology machine;
  machine.nodes.push_back({4, node_kind::rank, ""});
  for (auto const name : anywhere) {
    EXPECT_TRUE(
        make_plan(machine, {collective::all_reduce, {}, std::string(name), {}}).trees.empty());
  }
}

}  // namespace
