// SPDX-License-Identifier: Apache-2.0
// The forms of the Blink paper beside the single packing: servers in three phases, two kinds of
// link at once, its speed-up over rings.
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/planning/planners/plan_among_servers.hpp>
#include <blink/planning/planners/plan_joint.hpp>
#include <blink/topology/machines.hpp>
#include <blink/topology/readers/read_json.hpp>
#include <blink/topology/subset.hpp>

#include "support/dgx1_classes.hpp"
#include "support/random_machines.hpp"
#include "support/small_machines.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

// Rooms may be compiled as one source.
namespace forms_test { namespace {

using namespace blink;

constexpr collective spanning[]{collective::broadcast, collective::reduce, collective::all_reduce,
                                collective::all_gather, collective::reduce_scatter};

plan sound_plan(topology const& machine, plan_request const& request) {
  auto p = make_plan(machine, request);
  auto const report = check_plan(machine, p);
  EXPECT_EQ(report.fault.value_or(""), "") << request.planner << " " << to_text(p.collective);
  EXPECT_EQ(p.planner, request.planner);
  EXPECT_LE(p.rate, p.bound);
  return p;
}

/// Servers with `sizes` ranks: random links inside, a port of 4 for each rank into one network.
topology random_servers(unsigned seed, std::vector<unsigned> const& sizes) {
  topology machine;
  machine.name = "servers" + std::to_string(seed);
  auto const add = [&](int id, node_kind kind, int server) {
    machine.nodes.push_back({id, kind, "", server});
    return static_cast<int>(machine.nodes.size()) - 1;
  };
  int const network = add(1000, node_kind::switch_node, -1);
  for (std::size_t b = 0; b < sizes.size(); ++b) {
    auto const part = test::make_random_duplex_machine(seed + static_cast<unsigned>(b), sizes[b],
                                                       seed % 2, seed % 4, 30);
    int const first = static_cast<int>(machine.nodes.size());
    for (auto const& n : part.nodes) {
      int const at = add(100 * static_cast<int>(b) + n.id, n.kind, static_cast<int>(b));
      if (n.kind == node_kind::switch_node) continue;
      machine.links.push_back({at, network, 4, 0, link_kind::network});
      machine.links.push_back({network, at, 4, 0, link_kind::network});
    }
    for (auto l : part.links) {
      l.tail += first;
      l.head += first;
      machine.links.push_back(l);
    }
  }
  return machine;
}

TEST(three_phase, is_sound_on_servers_of_any_size) {
  for (unsigned seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    std::vector<unsigned> sizes{3, 5};
    if (seed % 3 == 1) sizes = {1, 4, 2};
    if (seed % 3 == 2) sizes = {2, 2, 3, 1};
    auto const machine = random_servers(seed, sizes);
    for (auto const kind : spanning) {
      int const root = detail::servers_of(machine)[1].ids.back();
      auto const p = sound_plan(machine, {kind, root, "three_phase", {}});
      EXPECT_GT(p.rate, rational(0));
    }
  }
}

TEST(three_phase, three_and_five_gpus_of_two_servers_keep_their_nics_busy) {
  auto const machine = subset(machines::dgx_h100(2), {0, 1, 2, 8, 9, 10, 11, 12});
  // Three NICs of 50 join the smaller server; every byte of an all-reduce crosses once each way.
  EXPECT_EQ(sound_plan(machine, {collective::all_reduce, {}, "three_phase", {}}).rate,
            rational(150));
  EXPECT_EQ(sound_plan(machine, {collective::broadcast, 0, "three_phase", {}}).rate, rational(150));
  EXPECT_EQ(sound_plan(machine, {collective::broadcast, 8, "three_phase", {}}).rate, rational(150));
  for (auto const kind : spanning) {
    auto const p = sound_plan(machine, {kind, {}, "three_phase", {}});
    EXPECT_GE(p.rate, p.bound * rational(1, 2)) << to_text(kind);
  }
}

TEST(three_phase, gates_meet_on_their_rails) {
  // Two rails: 0 and 2 share one with 8, 10 and 12.
  auto const machine = subset(machines::dgx_a100(2), {0, 1, 2, 8, 9, 10, 11, 12});
  EXPECT_EQ(detail::by_rail(machine, {8, 9, 10, 11, 12}), (std::vector{8, 10, 12, 9, 11}));
  for (auto const kind : spanning) {
    auto const p = sound_plan(machine, {kind, {}, "three_phase", {}});
    EXPECT_GE(p.rate, p.bound * rational(5, 6)) << to_text(kind);
  }
  EXPECT_EQ(detail::rail_of(machines::dgx2(), 3), -1);  // no way out
}

TEST(three_phase, narrow_servers_are_centers_of_less) {
  using list = std::vector<rational>;
  EXPECT_EQ(detail::center_shares({rational(3), rational(5)}), (list(2, rational(1, 2))));
  EXPECT_EQ(detail::center_shares({rational(3), rational(5), rational(4)}),
            (list{rational(0), rational(2, 3), rational(1, 3)}));
  EXPECT_EQ(detail::center_shares({rational(1), rational(9), rational(1)}),
            (list{rational(0), rational(1), rational(0)}));
  EXPECT_EQ(detail::center_shares(list(4, rational(7))), list(4, rational(1, 4)));
  auto const machine = subset(machines::dgx_h100(3), {0, 1, 2, 8, 9, 10, 11, 12, 16, 17, 18, 19});
  auto const p = sound_plan(machine, {collective::all_reduce, {}, "three_phase", {}});
  EXPECT_EQ(p.rate, rational(150));  // the three NICs of the smallest
  EXPECT_EQ(p.rate, p.bound);
}

/// Servers of GPUs behind NVSwitches, which have ports of `nic` units each way, one for each GPU.
topology uneven_servers(std::vector<std::vector<std::int64_t>> const& nics) {
  topology machine;
  machine.unit = "GB/s";
  machine.nodes.push_back({1000, node_kind::switch_node, "network", -1});
  auto const join = [&](int a, int b, std::int64_t capacity) {
    machine.links.push_back({a, b, capacity, 0, link_kind::unknown});
    machine.links.push_back({b, a, capacity, 0, link_kind::unknown});
  };
  for (std::size_t s = 0; s < nics.size(); ++s) {
    int const nvswitch = static_cast<int>(machine.nodes.size());
    machine.nodes.push_back(
        {2000 + static_cast<int>(s), node_kind::switch_node, "", static_cast<int>(s)});
    for (auto const nic : nics[s]) {
      int const gpu = static_cast<int>(machine.nodes.size());
      machine.nodes.push_back({gpu, node_kind::rank, "", static_cast<int>(s)});
      join(gpu, nvswitch, 1000);
      if (nic > 0) join(gpu, 0, nic);
    }
  }
  return machine;
}

// The joint packing shares no code with the three phases. It finds the optimum of small machines.
TEST(among_servers, is_optimal_where_nics_differ) {
  std::mt19937 random(34);
  int by_prices = 0, by_cut = 0;
  for (int run = 0; run < 40; ++run) {
    std::vector<std::vector<std::int64_t>> nics(2 + random() % 4);
    for (auto& server : nics) {
      server.resize(1 + random() % 3);
      for (auto& nic : server) {
        bool const is_lost = random() % 4 == 0;
        nic = is_lost ? 0 : run % 2 == 0 ? 1 + random() % 8 : 5 + random() % 3;
      }
      server.front() += 1;  // so that each is joined to the others
    }
    auto const machine = uneven_servers(nics);
    SCOPED_TRACE(run);
    plan_request const request{collective::all_reduce, {}, "exact"};
    auto const p = plan_among_servers(machine, request);
    ASSERT_TRUE(p);
    EXPECT_EQ(check_plan(machine, *p).fault.value_or(""), "");
    EXPECT_EQ(p->rate, p->bound);
    EXPECT_EQ(p->rate, plan_joint(machine, request).rate);
    (std::holds_alternative<price_certificate>(p->proof) ? by_prices : by_cut) += 1;
  }
  EXPECT_GT(by_prices, 3);
  EXPECT_GT(by_cut, 3);
}

TEST(among_servers, a_lost_nic_costs_its_share_of_the_network) {
  for (int const servers : {9, 16}) {
    auto machine = machines::dgx_h100(servers);
    auto const whole = sound_plan(machine, {collective::all_reduce, {}, "exact", {}}).rate;
    auto const is_nic = [&](blink::link const& l) {
      return l.kind == link_kind::network &&
             std::min(machine.nodes[static_cast<std::size_t>(l.tail)].id,
                      machine.nodes[static_cast<std::size_t>(l.head)].id) == 3;
    };
    EXPECT_EQ(std::erase_if(machine.links, is_nic), 2U);
    auto const p = sound_plan(machine, {collective::all_reduce, {}, "exact", {}});
    EXPECT_EQ(p.rate, p.bound);
    EXPECT_EQ(p.rate, whole * rational(8 * servers - 1, 8 * servers));
    EXPECT_LE(p.trees.size(), 2 * p.ranks.size());
  }
}

// Each plan among servers is optimal, or there is none. Returns false for none.
bool is_optimal_or_none(topology const& machine, plan_request const& request) {
  auto const p = plan_among_servers(machine, request);
  if (!p) return false;
  EXPECT_EQ(check_plan(machine, *p).fault.value_or(""), "");
  EXPECT_EQ(p->rate, p->bound);
  EXPECT_EQ(p->rate, make_plan(machine, request).rate);
  return true;
}

// Servers of equally many ranks whose NICs differ.
TEST(among_servers, gathers_as_fast_as_the_planner_of_any_machine) {
  std::mt19937 random(35);
  int planned = 0;
  for (int run = 0; run < 40; ++run) {
    std::vector<std::vector<std::int64_t>> nics(3 + random() % 4);
    auto const ranks = 1 + random() % 4;
    for (auto& server : nics) {
      server.resize(ranks);
      for (auto& nic : server) nic = random() % 4 == 0 ? 1 + random() % 4 : 8;
    }
    auto const machine = uneven_servers(nics);
    SCOPED_TRACE(run);
    for (auto const kind :
         {collective::all_gather, collective::all_reduce, collective::broadcast}) {
      plan_request request{kind, {}, "exact"};
      if (kind == collective::broadcast) request.root = machine.nodes.back().id;
      if (is_optimal_or_none(machine, request)) ++planned;
    }
  }
  EXPECT_GT(planned, 80);
}

// Any cable at 1/4 to 3/4 of its capacity: ports of NVSwitches, NICs and their links to ranks.
topology with_slow_cables(topology machine, unsigned seed) {
  std::mt19937 random(seed);
  for (auto& l : machine.links) l.capacity *= 4;
  machine.steps_per_unit *= 4;
  for (auto& l : machine.links) {
    if (l.tail > l.head || random() % 20 != 0) continue;
    auto const quarters = static_cast<std::int64_t>(1 + random() % 3);
    for (auto& other : machine.links) {
      bool const is_same = std::minmax(other.tail, other.head) == std::minmax(l.tail, l.head);
      if (is_same) other.capacity = other.capacity * quarters / 4;
    }
  }
  return machine;
}

TEST(among_servers, gathers_at_the_optimum_where_cables_inside_are_slow) {
  int planned = 0, runs = 0;
  for (unsigned seed = 0; seed < 12; ++seed) {
    for (auto const& whole : {machines::dgx_h100(4), machines::dgx_a100(4)}) {
      auto const machine = with_slow_cables(whole, seed);
      SCOPED_TRACE(machine.name + " " + std::to_string(seed));
      ++runs;
      if (is_optimal_or_none(machine, {collective::all_gather, {}, "exact"})) ++planned;
    }
  }
  EXPECT_GT(planned, runs * 3 / 4);
}

// The bound holds against the optimum of the planner for any machine.
TEST(among_servers, ranks_with_slow_cables_are_leaves_of_an_all_reduce) {
  int near = 0, runs = 0;
  for (unsigned seed = 0; seed < 8; ++seed) {
    for (auto const& whole : {machines::dgx_h100(4), machines::dgx_a100(4)}) {
      auto const machine = with_slow_cables(whole, seed);
      SCOPED_TRACE(machine.name + " " + std::to_string(seed));
      ++runs;
      plan_request const request{collective::all_reduce, {}, "exact"};
      auto const p = detail::best_among_servers(machine, request);
      auto const best = plan_joint(machine, request);
      ASSERT_TRUE(p);
      EXPECT_TRUE(check_plan(machine, *p)) << *check_plan(machine, *p).fault;
      EXPECT_GE(p->bound, best.rate);
      EXPECT_LE(p->rate, best.bound);
      if (p->rate.to_double() > 0.995 * best.rate.to_double()) ++near;
    }
  }
  EXPECT_GT(near, runs / 2);
  for (unsigned seed = 0; seed < 3; ++seed) {
    for (auto const& whole : {machines::dgx_h100(20), machines::dgx_a100(20)}) {
      auto const machine = with_slow_cables(whole, seed);
      SCOPED_TRACE(machine.name + " " + std::to_string(seed));
      auto const p = sound_plan(machine, {collective::all_reduce, {}, "exact", {}});
      EXPECT_GE(p.rate.to_double(), 0.985 * p.bound.to_double());
      EXPECT_LE(p.trees.size(), 3 * p.ranks.size());
    }
  }
}

// The machine without the links between two nodes.
topology without_cable(topology machine, int a, int b) {
  std::erase_if(machine.links, [&](blink::link const& l) {
    return std::minmax(machine.nodes[static_cast<std::size_t>(l.tail)].id,
                       machine.nodes[static_cast<std::size_t>(l.head)].id) == std::minmax(a, b);
  });
  return machine;
}

TEST(among_servers, lost_cables_inside_cost_what_they_carried) {
  for (auto const& whole : {machines::dgx_h100(9), machines::dgx_a100(9)}) {
    int const rank = whole.nodes[11].id;
    for (auto const& l : whole.links) {
      if (whole.nodes[static_cast<std::size_t>(l.tail)].id != rank) continue;
      auto const& other = whole.nodes[static_cast<std::size_t>(l.head)];
      auto const machine = without_cable(whole, rank, other.id);
      for (auto const kind : {collective::all_gather, collective::all_reduce}) {
        SCOPED_TRACE(machine.name + " without " + other.label + " " + std::string(to_text(kind)));
        auto const p = sound_plan(machine, {kind, {}, "exact", {}});
        EXPECT_GE(p.rate.to_double(), 0.999 * p.bound.to_double());
        EXPECT_EQ(p.planner, "exact");
      }
    }
  }
}

// All cables of a rank are slow, those of its NIC too.
TEST(among_servers, a_rank_with_slow_cables_only_has_a_plan) {
  for (auto machine : {machines::dgx_h100(9), machines::dgx_a100(9)}) {
    int const rank = machine.rank_positions()[11];
    for (auto& l : machine.links) l.capacity *= 4;
    machine.steps_per_unit *= 4;
    for (auto& l : machine.links) {
      bool const is_nic = l.kind == link_kind::network;
      if (l.tail == rank || l.head == rank) l.capacity /= is_nic ? 2 : 4;
    }
    SCOPED_TRACE(machine.name);
    auto const p = sound_plan(machine, {collective::all_reduce, {}, "exact", {}});
    EXPECT_GE(p.rate.to_double(), 0.99 * p.bound.to_double());
  }
}

TEST(among_servers, slow_nics_cost_their_share_of_the_network) {
  std::mt19937 random(3);
  for (auto machine : {machines::dgx_a100(12), machines::dgx_h100(12)}) {
    for (auto& l : machine.links) {
      auto const& tail = machine.nodes[static_cast<std::size_t>(l.tail)];
      auto const& head = machine.nodes[static_cast<std::size_t>(l.head)];
      if (l.kind != link_kind::network || (tail.server >= 0) == (head.server >= 0)) continue;
      auto const nic = tail.server >= 0 ? tail.id : head.id;
      l.capacity *= 4;
      if (nic % 29 == 0) l.capacity = l.capacity * (1 + nic % 3) / 4;
    }
    for (auto& l : machine.links) {
      if (l.kind != link_kind::network) l.capacity *= 4;
    }
    machine.steps_per_unit *= 4;
    for (auto const kind :
         {collective::all_gather, collective::reduce_scatter, collective::all_reduce}) {
      SCOPED_TRACE(machine.name + " " + std::string(to_text(kind)));
      auto const p = sound_plan(machine, {kind, {}, "exact", {}});
      EXPECT_GE(p.rate.to_double(), 0.999 * p.bound.to_double());
      if (kind != collective::all_reduce) {
        EXPECT_EQ(p.rate, p.bound);
      }
      EXPECT_LE(p.trees.size(), 2 * p.ranks.size());
    }
  }
}

// A rank whose NIC is lost reaches other servers over the NICs of its neighbours, on their rails.
// The last server may lack several NICs.
TEST(among_servers, ranks_without_a_nic_take_other_rails) {
  std::mt19937 random(51);
  int planned = 0, runs = 0, broadcasts = 0;
  for (int const servers : {5, 9, 20}) {
    for (int const rails : {1, 2, 8}) {
      for (int count = 1; count <= servers / 2; count += 1 + servers / 5) {
        std::set<std::pair<int, int>> lost{{servers - 1, 7}};
        while (std::ssize(lost) < count) {
          int const nic = static_cast<int>(random() % 8);
          int const server = random() % 2 == 0
                                 ? servers - 1
                                 : static_cast<int>(random() % static_cast<unsigned>(servers));
          lost.emplace(server, nic);
        }
        auto const machine = test::rail_servers(servers, rails, {lost.begin(), lost.end()});
        SCOPED_TRACE(std::to_string(servers) + " servers, " + std::to_string(rails) + " rails, " +
                     std::to_string(count) + " lost");
        for (auto const kind : {collective::all_gather, collective::all_reduce}) {
          auto const p = plan_among_servers(machine, {kind, {}, "exact"});
          ++runs;
          if (!p) continue;
          ++planned;
          EXPECT_EQ(check_plan(machine, *p).fault.value_or(""), "");
          EXPECT_LE(p->rate, p->bound);
          EXPECT_LE(p->trees.size(), 2 * p->ranks.size());
        }
        plan_request const from_first{collective::broadcast, machine.nodes.front().id, "exact"};
        if (is_optimal_or_none(machine, from_first)) ++broadcasts;
      }
    }
  }
  // In many servers at once, each of which is full.
  std::vector<std::pair<int, int>> lost;
  for (int k = 0; k < 15; ++k) lost.emplace_back((5 * k + 1) % 64, 3 * k % 8);
  auto const machine = test::rail_servers(64, 8, lost);
  auto const p = plan_among_servers(machine, {collective::all_gather, {}, "exact"});
  ASSERT_TRUE(p);
  EXPECT_EQ(check_plan(machine, *p).fault.value_or(""), "");
  EXPECT_EQ(p->rate, p->bound);
  EXPECT_EQ(planned, runs);
  EXPECT_GT(broadcasts, runs / 2 * 3 / 4) << "of " << runs / 2;
}

// Where a server lacks half of its NICs, another planner gives the optimum.
TEST(exact, a_server_without_half_of_its_nics_is_planned_at_the_optimum) {
  auto const machine =
      test::rail_servers(20, 8, {{5, 5}, {9, 7}, {19, 1}, {19, 5}, {19, 6}, {19, 7}});
  for (auto const kind : {collective::all_gather, collective::all_reduce}) {
    auto const p = sound_plan(machine, {kind, {}, "exact", {}});
    EXPECT_EQ(p.rate, p.bound);
  }
}

// Ports of a switch differ after the loss of some links of a rank, as in a rack with dead ports.
TEST(plan_switch, ports_may_differ) {
  std::mt19937 random(17);
  int closed = 0;
  for (int const ranks : {2, 3, 5, 9, 144, 576}) {
    for (int const dead : {0, 1, 2, 8}) {
      if (dead > ranks) continue;
      topology machine;
      machine.name = std::to_string(ranks) + " ranks, " + std::to_string(dead) + " dead ports";
      SCOPED_TRACE(machine.name);
      std::vector<std::int64_t> port(static_cast<std::size_t>(ranks), 18);
      for (int k = 0; k < dead; ++k) --port[random() % port.size()];
      for (int k = 0; k <= ranks; ++k) {
        auto const kind = k == ranks ? node_kind::switch_node : node_kind::rank;
        machine.nodes.push_back({k, kind, "", 0});
        if (k == ranks) continue;
        auto const width = port[static_cast<std::size_t>(k)];
        machine.links.push_back({k, ranks, width, 0, link_kind::nvlink});
        machine.links.push_back({ranks, k, width, 0, link_kind::nvlink});
      }
      for (auto const kind : spanning) {
        if (ranks > 9 && detail::forward_collective(kind) != kind) continue;
        auto const p = sound_plan(machine, {kind, {}, "exact", {}});
        EXPECT_EQ(p.rate, p.bound);
        EXPECT_LE(std::ssize(p.trees), ranks);
      }
      if (detail::plan_star(machine, {collective::all_reduce, {}, "exact"})) ++closed;
    }
  }
  EXPECT_GE(closed, 18) << "of 21";
}

// A rank without a NIC limits the rate to its link inside. At that rate all ranks would be leaves,
// and none the root.
TEST(among_servers, ranks_that_are_all_narrow_have_a_plan) {
  for (std::int64_t const inner : {1, 2, 3}) {
    for (int const rails : {1, 4, 8}) {
      auto const machine = test::rail_servers(4, rails, {{3, 7}, {1, 2}}, inner);
      auto const p = detail::best_among_servers(machine, {collective::all_reduce, {}, "exact"});
      ASSERT_TRUE(p);
      EXPECT_EQ(check_plan(machine, *p).fault.value_or(""), "");
      for (auto const kind : spanning) sound_plan(machine, {kind, {}, "exact", {}});
    }
  }
}

TEST(among_servers, broadcasts_to_many_ranks_over_few_trees) {
  for (auto const& machine : {machines::dgx_a100(40), machines::dgx_h100(37)}) {
    for (auto const kind : {collective::broadcast, collective::reduce}) {
      auto const p = sound_plan(machine, {kind, 11, "exact", {}});
      EXPECT_EQ(p.rate, p.bound);
      EXPECT_LE(p.trees.size(), 32U);
    }
  }
}

TEST(among_servers, has_no_plan_below_its_bounds) {
  plan_request const request{collective::all_reduce, {}, "exact"};
  EXPECT_FALSE(plan_among_servers(machines::dgx1v(), request));  // one server
  auto machine = uneven_servers({{4, 4}, {4, 4}});
  for (auto& l : machine.links) l.capacity = std::min<std::int64_t>(l.capacity, 4);
  EXPECT_FALSE(plan_among_servers(machine, request));  // the links inside are too narrow
  EXPECT_EQ(sound_plan(machine, request).planner, "exact");
}

TEST(three_phase, is_sound_on_machines_of_the_table) {
  auto const folder = std::string(BLINK_TEST_DATA_DIR) + "/topologies/";
  for (auto const* name : {"dgx_a100_2box", "dgx_a100_4box", "dgx_h100_2box", "mi250_2box",
                           "ndv2_2box", "dgx_a100_simple_2box"}) {
    SCOPED_TRACE(name);
    auto const machine = read_json_file(folder + name + ".json");
    for (auto const kind : {collective::broadcast, collective::all_reduce}) {
      EXPECT_GT(sound_plan(machine, {kind, {}, "three_phase", {}}).rate, rational(0));
    }
  }
}

TEST(three_phase, refuses_one_server_and_servers_in_pieces) {
  EXPECT_THROW((void)make_plan(machines::dgx1v(), {collective::broadcast, {}, "three_phase", {}}),
               planning_error);
  // GPUs 0 and 6 of a DGX-1V share no link, only the network.
  auto machine = random_servers(0, {2, 2});
  std::erase_if(machine.links, [&](auto const& l) {
    return machine.nodes[static_cast<std::size_t>(l.tail)].server ==
           machine.nodes[static_cast<std::size_t>(l.head)].server;
  });
  try {
    (void)make_plan(machine, {collective::all_reduce, {}, "three_phase", {}});
    FAIL() << "expected planning_error";
  } catch (planning_error const& fault) {
    EXPECT_NE(std::string(fault.what()).find("inside server 0"), std::string::npos) << fault.what();
  }
}

TEST(hybrid, adds_the_rates_of_both_kinds) {
  auto const machine = machines::dgx1v_pcie();
  auto const pcie = detail::without_links(machine, link_kind::nvlink);
  for (auto const kind : spanning) {
    auto const both = sound_plan(machine, {kind, 0, "hybrid", {}});
    auto const fast = make_plan(only_links(machine, link_kind::nvlink), {kind, 0, "exact", {}});
    auto const slow = make_plan(pcie, {kind, 0, "exact", {}});
    EXPECT_EQ(both.rate, fast.rate + slow.rate) << to_text(kind);
  }
  EXPECT_THROW((void)make_plan(machines::dgx1v(), {collective::broadcast, {}, "hybrid", {}}),
               planning_error);
}

TEST(hybrid, is_sound_on_random_machines) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    auto const ranks = 2 + seed % 6;
    auto machine = test::make_random_duplex_machine(seed, ranks, 0, seed % 5, 30);
    for (auto& l : machine.links) l.kind = link_kind::nvlink;
    // A PCIe switch, or two of them, beside it.
    auto const first = static_cast<int>(machine.nodes.size());
    for (int s = 0; s < 2; ++s) machine.nodes.push_back({first + s, node_kind::switch_node, ""});
    auto const join = [&](int a, int b, std::int64_t capacity) {
      machine.links.push_back({a, b, capacity, 0, link_kind::pcie});
      machine.links.push_back({b, a, capacity, 0, link_kind::pcie});
    };
    join(first, first + 1, 1 + seed % 5);
    for (int i = 0; i < first; ++i) join(i, first + (seed % 3 == 0 ? i % 2 : 0), 2 + seed % 4);
    for (auto const kind : spanning) (void)sound_plan(machine, {kind, 0, "hybrid", {}});
  }
}

/// The formula, and what it is for: both kinds end at the same time.
TEST(hybrid, splits_so_that_both_kinds_end_together) {
  EXPECT_EQ(slow_part(100, 3, 1, 0), rational(25));
  EXPECT_EQ(slow_part(100, 3, 1, 10), rational(100, 4) - rational(10 * 3, 4));
  EXPECT_EQ(slow_part(30, 3, 1, 10), rational(0));
  auto const machine = machines::dgx1v_pcie();
  double previous = 0;
  for (std::int64_t const bytes : {2'000'000, 8'000'000, 64'000'000, 1'000'000'000}) {
    constexpr double start = 2e-5;
    auto const p = sound_plan(machine, {collective::broadcast, 0, "hybrid", {}, bytes, start});
    double fast = 0, slow = 0;
    for (auto const& t : p.trees) {
      bool const is_fast = t.broadcast.front().path.size() == 2;
      (is_fast ? fast : slow) += t.weight.to_double();
    }
    double const fast_share = fast / (fast + slow);
    double const fast_seconds = static_cast<double>(bytes) * fast_share / 150e9;
    double const slow_rate = make_plan(detail::without_links(machine, link_kind::nvlink),
                                       {collective::broadcast, 0, "exact", {}})
                                 .rate.to_double();
    double const slow_seconds =
        slow == 0 ? 0 : start + static_cast<double>(bytes) * (1 - fast_share) / (slow_rate * 1e9);
    // 2 MB take 13 us on NVLink alone: PCIe would not have started.
    if (bytes == 2'000'000) {
      EXPECT_EQ(slow, 0);
    } else {
      EXPECT_NEAR(slow_seconds, fast_seconds, 1e-3 * fast_seconds);
    }
    EXPECT_NEAR(fast_seconds, static_cast<double>(bytes) / (p.rate.to_double() * 1e9),
                1e-9 * fast_seconds);
    EXPECT_GE(p.rate.to_double(), previous);
    previous = p.rate.to_double();
  }
}

TEST(hybrid, refuses_negative_sizes) {
  auto const machine = machines::dgx1v_pcie();
  EXPECT_THROW((void)make_plan(machine, {collective::broadcast, 0, "hybrid", {}, -1, 0}),
               input_error);
  EXPECT_THROW((void)make_plan(machine, {collective::broadcast, 0, "hybrid", {}, 1, -1}),
               input_error);
  EXPECT_THROW((void)make_plan(machine, {collective::broadcast, 0, "hybrid", {}, 1, 1e300}),
               input_error);
}

TEST(ring, takes_direct_links_where_they_give_more) {
  auto const both = machines::dgx1v_pcie();
  EXPECT_EQ(sound_plan(both, {collective::broadcast, {}, "ring", {}}).rate, rational(150));
  // GPUs 0, 1 and 4 have no ring of NVLinks, but PCIe closes one.
  auto const part = subset(both, {0, 1, 4});
  EXPECT_GT(sound_plan(part, {collective::broadcast, {}, "ring", {}}).rate, rational(0));
  EXPECT_THROW(
      (void)make_plan(only_links(part, link_kind::nvlink), {collective::broadcast, {}, "ring", {}}),
      planning_error);
}

TEST(blink, broadcasts_through_switches) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    auto const machine =
        test::make_random_duplex_machine(seed, 3 + seed % 6, 1 + seed % 4, seed % 8);
    for (auto const kind : {collective::broadcast, collective::reduce}) {
      auto const p = sound_plan(machine, {kind, {}, "blink", {}});
      EXPECT_GE(p.rate, p.bound * rational(9, 10));
    }
    EXPECT_THROW((void)make_plan(machine, {collective::all_reduce, {}, "blink", {}}),
                 planning_error);
  }
  for (auto const& machine : {machines::dgx2(), machines::dgx_a100(2), machines::dgx_h100(2),
                              subset(machines::dgx_h100(2), {0, 1, 2, 8, 9, 10, 11, 12})}) {
    auto const p = sound_plan(machine, {collective::broadcast, {}, "blink", {}});
    EXPECT_GE(p.rate, p.bound * rational(95, 100)) << machine.name;
  }
}

struct speed_ups {
  double largest = 0;
  double log_sum = 0;
  int count = 0;
  void add(rational const& ratio) {
    largest = std::max(largest, ratio.to_double());
    log_sum += std::log(ratio.to_double());
    ++count;
  }
  [[nodiscard]] double mean() const { return std::exp(log_sum / count); }
};

/// Trees against what a ring library does on every DGX-1 allocation: NVLink rings where there are
/// any, else one ring through PCIe at `pcie` GB/s.
std::pair<speed_ups, speed_ups> against_rings(bool volta, std::int64_t pcie) {
  auto whole = machines::dgx1v_pcie();
  whole.steps_per_unit = 10;
  for (auto& l : whole.links) {
    if (l.kind == link_kind::nvlink) {
      l.capacity = volta ? l.capacity / 25 * 229 : 185;
    } else {
      l.capacity = pcie * 10;
    }
  }
  std::pair<speed_ups, speed_ups> result;
  for (auto const& each : test::dgx1_classes()) {
    if ((each.name.front() == 'V') != volta) continue;
    std::vector<int> ids;
    for (char const c : each.name.substr(2)) ids.push_back(c - '0');
    auto const machine = subset(whole, ids);
    auto const nvlink = only_links(machine, link_kind::nvlink);
    for (auto const kind : {collective::broadcast, collective::all_reduce}) {
      auto const trees = sound_plan(nvlink, {kind, {}, "exact", {}}).rate;
      rational rings;
      try {
        rings = sound_plan(nvlink, {kind, {}, "ring", {}}).rate;
      } catch (planning_error const&) {
        rings = sound_plan(machine, {kind, {}, "pcie_ring", {}}).rate;
      }
      (kind == collective::broadcast ? result.first : result.second).add(trees / rings);
    }
  }
  return result;
}

TEST(blink, speed_up_over_rings_on_dgx1_allocations) {
  struct row {
    bool volta;
    std::int64_t pcie;
    double broadcast_most, broadcast_mean, all_reduce_most, all_reduce_mean;
  };
  for (auto const& expected :
       {row{true, 6, 7.6, 2.16, 12.2, 3.08}, row{true, 8, 5.7, 1.90, 9.2, 2.70},
        row{true, 10, 4.6, 1.71, 7.3, 2.44}, row{false, 6, 3.1, 1.63, 4.9, 2.00},
        row{false, 8, 2.3, 1.47, 3.7, 1.81}, row{false, 10, 1.9, 1.36, 3.0, 1.67}}) {
    auto const [broadcast, all_reduce] = against_rings(expected.volta, expected.pcie);
    std::printf("%s, PCIe %2d GB/s: broadcast %4.1f / %.2f, all-reduce %4.1f / %.2f (%d classes)\n",
                expected.volta ? "DGX-1V" : "DGX-1P", static_cast<int>(expected.pcie),
                broadcast.largest, broadcast.mean(), all_reduce.largest, all_reduce.mean(),
                broadcast.count);
    EXPECT_NEAR(broadcast.largest, expected.broadcast_most, 0.051);
    EXPECT_NEAR(broadcast.mean(), expected.broadcast_mean, 0.0051);
    EXPECT_NEAR(all_reduce.largest, expected.all_reduce_most, 0.051);
    EXPECT_NEAR(all_reduce.mean(), expected.all_reduce_mean, 0.0051);
  }
}

}}  // namespace forms_test
