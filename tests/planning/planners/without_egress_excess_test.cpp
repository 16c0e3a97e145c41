// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/constraints/detail/restricted_packing.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/planning/plan/plan_file.hpp>
#include <blink/planning/planners/without_egress_excess.hpp>

#include "support/random_machines.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

// Rooms may be compiled as one source.
namespace without_egress_excess_test { namespace {

using namespace blink;

constexpr std::array kinds{collective::broadcast, collective::reduce, collective::all_gather,
                           collective::reduce_scatter};

/// A random machine whose switches have any capacities in and out.
topology unbalanced_machine(unsigned seed, unsigned ranks, unsigned switches, unsigned links) {
  auto machine = test::make_random_machine(seed, ranks, switches, links);
  std::mt19937 random(seed + 1000);
  for (auto& l : machine.links) {
    bool const out = machine.nodes[static_cast<std::size_t>(l.tail)].kind == node_kind::switch_node;
    if (random() % 3 != 0) l.capacity = 1 + static_cast<std::int64_t>(random() % (out ? 24 : 4));
  }
  return machine;
}

/// The rate of the best forwarding plan, by a linear program over all trees of routes.
rational best_rate(topology machine, collective kind, int root) {
  if (kind == collective::reduce || kind == collective::reduce_scatter) {
    machine = detail::reversed(std::move(machine));
    kind = kind == collective::reduce ? collective::broadcast : collective::all_gather;
  }
  auto const ranks = machine.rank_positions();
  detail::tree_family family;
  family.collective = kind;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    int const id = machine.nodes[static_cast<std::size_t>(ranks[i])].id;
    if (kind == collective::all_gather || id == root) family.roots.push_back(static_cast<int>(i));
  }
  auto const rate = machine.in_units(detail::restricted_packer(machine, family).rate());
  return kind == collective::all_gather ? rate * static_cast<std::int64_t>(ranks.size()) : rate;
}

TEST(without_egress_excess, is_the_best_forwarding_plan) {
  int below = 0;
  for (unsigned seed = 0; seed < 160; ++seed) {
    auto machine = unbalanced_machine(seed, 3 + seed % 3, 1 + seed % 4, 6 + seed % 4);
    auto const kind = kinds[seed % 4];
    bool const inward = kind == collective::reduce || kind == collective::reduce_scatter;
    if (inward) machine = detail::reversed(std::move(machine));
    SCOPED_TRACE("seed " + std::to_string(seed) + " " + std::string(to_text(kind)));
    int const root = machine.nodes.front().id;
    plan_request request{kind, root, "exact"};
    auto const p = make_plan(machine, request);
    EXPECT_EQ(check_plan(machine, p).fault.value_or(""), "");
    EXPECT_EQ(p.rate, best_rate(machine, kind, root));
    EXPECT_EQ(p.bound, p.rate);
    auto const cut = prove_bound(machine, kind, root).bound;
    EXPECT_LE(p.rate, cut);
    EXPECT_EQ(std::holds_alternative<price_certificate>(p.proof), p.rate < cut);
    below += p.rate < cut ? 1 : 0;
  }
  EXPECT_GE(below, 20);
}

TEST(without_egress_excess, the_best_root_has_the_highest_rate) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    auto const machine = unbalanced_machine(seed, 3 + seed % 3, 1 + seed % 3, 4 + seed % 5);
    auto const p = make_plan(machine, {collective::broadcast});
    EXPECT_EQ(check_plan(machine, p).fault.value_or(""), "");
    rational best;
    for (int const at : machine.rank_positions()) {
      int const root = machine.nodes[static_cast<std::size_t>(at)].id;
      best = std::max(best, best_rate(machine, collective::broadcast, root));
    }
    EXPECT_EQ(p.rate, best);
  }
  // Rank 0 has the highest cut, 8. But the switch must send each of its 8 twice, and 2 go between
  // the other ranks: the rate is 6.
  topology machine;
  machine.name = "fan";
  for (int i = 0; i < 3; ++i) machine.nodes.push_back({i, node_kind::rank, ""});
  machine.nodes.push_back({9, node_kind::switch_node, ""});
  machine.links = {{0, 3, 8}, {3, 1, 8}, {3, 2, 10}, {1, 2, 2}, {2, 1, 2}, {1, 0, 5}, {2, 0, 5}};
  auto const p = make_plan(machine, {collective::broadcast});
  EXPECT_EQ(prove_bound(machine, collective::broadcast, 0).bound, rational(8));
  EXPECT_EQ(make_plan(machine, {collective::broadcast, 0}).rate, rational(6));
  EXPECT_EQ(p.rate, rational(7));
  EXPECT_EQ(p.bound, rational(7));
}

TEST(without_egress_excess, the_search_comes_near) {
  int cases = 0, best = 0;
  rational least(1);
  for (unsigned seed = 0; seed < 160; ++seed) {
    SCOPED_TRACE(seed);
    auto const machine = unbalanced_machine(seed, 3 + seed % 3, 1 + seed % 4, 6 + seed % 4);
    plan_request const request{kinds[seed % 2 * 2], machine.nodes.front().id, "exact"};
    auto const supplies = detail::supplies_at_bound(machine, request, {});
    if (detail::can_be_split(machine, supplies)) continue;
    ++cases;
    auto const cut = detail::balanced_by_search(machine, supplies);
    ASSERT_TRUE(cut);
    auto const p = make_plan(*cut, request);
    EXPECT_EQ(check_plan(machine, p).fault.value_or("").find("capacity"), std::string::npos);
    auto const optimum = best_rate(machine, request.collective, machine.nodes.front().id);
    EXPECT_LE(p.rate, optimum);
    least = std::min(least, p.rate / optimum);
    best += p.rate == optimum ? 1 : 0;
  }
  EXPECT_GE(cases, 30);
  EXPECT_GE(2 * best, cases);
  EXPECT_GE(least, rational(1, 2));
}

TEST(without_egress_excess, balances_every_switch_and_keeps_the_rest) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    auto const machine = unbalanced_machine(seed, 4, 3, 8);
    plan_request const request{collective::all_gather, {}, "exact"};
    auto const cut = without_egress_excess(machine, request).machine;
    std::map<std::pair<int, int>, rational> before, after;
    for (auto const& l : machine.links) before[{l.tail, l.head}] += machine.in_units(l.capacity);
    for (auto const& l : cut.links) after[{l.tail, l.head}] += cut.in_units(l.capacity);
    bool changed = false;
    for (auto const& [ends, c] : before) {
      EXPECT_LE(after[ends], c);
      bool const out_of_switch =
          machine.nodes[static_cast<std::size_t>(ends.first)].kind == node_kind::switch_node;
      if (!out_of_switch) {
        EXPECT_EQ(after[ends], c);
      }
      changed = changed || after[ends] != c;
    }
    if (!changed) continue;
    std::map<int, rational> egress_excess;
    for (auto const& [ends, c] : after) {
      egress_excess[ends.first] += c;
      egress_excess[ends.second] -= c;
    }
    for (auto const& [at, more] : egress_excess) {
      if (machine.nodes[static_cast<std::size_t>(at)].kind == node_kind::switch_node) {
        EXPECT_LE(more, rational(0));
      }
    }
  }
}

/// Rank 0 sends 4 into a switch that could hand out 5 to each of three others, which are linked.
topology wide_switch() {
  topology machine;
  machine.name = "wide";
  for (int i = 0; i < 4; ++i) machine.nodes.push_back({i, node_kind::rank, ""});
  machine.nodes.push_back({9, node_kind::switch_node, "fan"});
  machine.links.push_back({0, 4, 4});
  for (int i = 1; i < 4; ++i) {
    machine.links.push_back({4, i, 5});
    machine.links.push_back({i, i % 3 + 1, 1});
    machine.links.push_back({i, 0, 3});
  }
  return machine;
}

/// Every unit for rank i comes from the switch, 4 in all, or from the one before it, 1 each: trees
/// of the rate r take at least 3 r - 3 from the switch.
TEST(without_egress_excess, a_known_loss) {
  auto const machine = wide_switch();
  plan_request request{collective::broadcast, 0, "exact"};
  try {
    (void)plan_direct(machine, request);
    FAIL() << "expected unbalanced_switch";
  } catch (unbalanced_switch const& fault) {
    std::string const text = fault.what();
    for (auto const* part : {"switch 9 (fan)", "4 GB/s in", "15 out"}) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
  }
  auto const p = make_plan(machine, request);
  EXPECT_EQ(prove_bound(machine, collective::broadcast, 0).bound, rational(4));
  EXPECT_EQ(p.bound, rational(7, 3));
  EXPECT_EQ(p.rate, rational(7, 3));
  EXPECT_EQ(check_plan(machine, p).fault.value_or(""), "");
}

TEST(without_egress_excess, reduce_names_the_switch_as_it_is) {
  auto const machine = detail::reversed(wide_switch());
  try {
    (void)detail::plan_forward(machine, {collective::reduce, 0}, plan_direct);
    FAIL() << "expected unbalanced_switch";
  } catch (unbalanced_switch const& fault) {
    std::string const text = fault.what();
    for (auto const* part : {"15 GB/s in", "4 out", "without adding up"}) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
  }
}

/// Two switches that could pass much to and fro, with little coming in.
TEST(without_egress_excess, circles_of_switches) {
  topology machine;
  machine.name = "circle";
  for (int i = 0; i < 3; ++i) machine.nodes.push_back({i, node_kind::rank, ""});
  for (int i = 3; i < 5; ++i) machine.nodes.push_back({i, node_kind::switch_node, ""});
  machine.links = {{0, 3, 2},
                   {3, 4, 1'000'000'000},
                   {4, 3, 1'000'000'000},
                   {3, 1, 1'000'000},
                   {4, 2, 7},
                   {1, 0, 5},
                   {2, 0, 5}};
  auto const p = make_plan(machine, {collective::broadcast, 0});
  EXPECT_EQ(prove_bound(machine, collective::broadcast, 0).bound, rational(2));
  EXPECT_EQ(p.bound, rational(1));  // 2 units come in, each rank needs its own
  EXPECT_EQ(p.rate, rational(1));
  EXPECT_EQ(check_plan(machine, p).fault.value_or(""), "");
}

}}  // namespace without_egress_excess_test
