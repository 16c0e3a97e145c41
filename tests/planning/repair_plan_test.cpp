// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/planning/repair_plan.hpp>
#include <blink/topology/machines.hpp>
#include <blink/topology/subset.hpp>

#include "support/random_machines.hpp"
#include "support/small_machines.hpp"
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace blink;

/// Repairs, and holds the result against the checker and a fresh plan.
repaired_plan sound_repair(topology const& machine, plan const& old) {
  auto const result = repair_plan(machine, old);
  EXPECT_EQ(check_plan(machine, result.plan).fault.value_or(""), "");
  EXPECT_EQ(result.plan.rate, result.plan.bound);
  plan_request request{old.collective, {}, "exact"};
  bool const one_root =
      old.collective == collective::broadcast || old.collective == collective::reduce;
  if (one_root && !result.plan.trees.empty()) request.root = result.plan.trees.front().root;
  EXPECT_EQ(result.plan.rate, make_plan(machine, request).rate);
  auto const& d = result.difference;
  EXPECT_EQ(d.rate_before, old.rate);
  EXPECT_EQ(d.rate_after, result.plan.rate);
  EXPECT_EQ(d.kept.size() + d.reweighted.size() + d.changed.size() + d.added.size(),
            result.plan.trees.size());
  EXPECT_EQ(d.kept.size() + d.reweighted.size() + d.changed.size() + d.dropped.size(),
            old.trees.size());
  for (auto const& [before, after] : d.kept) {
    EXPECT_EQ(old.trees[before].weight, result.plan.trees[after].weight);
  }
  return result;
}

constexpr std::array kinds{collective::broadcast, collective::reduce, collective::all_gather,
                           collective::reduce_scatter, collective::all_reduce};

/// The machine with the capacity of a link (both ways if `duplex`) divided; 0: the link gone.
topology degraded(topology machine, std::size_t at, std::int64_t divisor, bool duplex) {
  auto const ends = std::pair(machine.links[at].tail, machine.links[at].head);
  auto const hit = [&](blink::link const& l) {
    return std::pair(l.tail, l.head) == ends || (duplex && std::pair(l.head, l.tail) == ends);
  };
  if (divisor == 0) {
    std::erase_if(machine.links, hit);
    return machine;
  }
  for (auto& l : machine.links) {
    if (hit(l)) l.capacity = std::max<std::int64_t>(1, l.capacity / divisor);
  }
  return machine;
}

TEST(repair_plan, every_link_of_dgx1) {
  auto const machine = machines::dgx1v();
  for (auto const kind : kinds) {
    auto const old = make_plan(machine, {kind, {}, "exact"});
    std::array<int, 3> algorithms{};
    for (std::size_t at = 0; at < machine.links.size(); at += 2) {
      for (std::int64_t const divisor : {0, 2}) {
        SCOPED_TRACE(std::string(to_text(kind)) + " link " + std::to_string(at) + " / " +
                     std::to_string(divisor));
        auto const result = sound_repair(degraded(machine, at, divisor, true), old);
        ++algorithms[static_cast<std::size_t>(result.algorithm)];
      }
    }
    if (kind != collective::all_reduce) {
      EXPECT_LE(algorithms[2], 4);
    }
  }
}

TEST(repair_plan, ranks_lost_and_added) {
  auto const machine = machines::dgx1v();
  std::vector<int> all(8);
  std::iota(all.begin(), all.end(), 0);
  int from_scratch = 0;
  for (auto const kind : kinds) {
    auto const whole = make_plan(machine, {kind, {}, "exact"});
    for (int const lost : all) {
      SCOPED_TRACE(std::string(to_text(kind)) + " rank " + std::to_string(lost));
      auto ids = all;
      std::erase(ids, lost);
      auto const part = subset(machine, ids);
      auto const fewer = sound_repair(part, whole);
      EXPECT_EQ(fewer.difference.ranks_lost, std::vector<int>{lost});
      auto const more = sound_repair(machine, make_plan(part, {kind, {}, "exact"}));
      EXPECT_EQ(more.difference.ranks_added, std::vector<int>{lost});
      if (kind == collective::all_reduce) continue;
      from_scratch += (fewer.algorithm == repair_algorithm::from_scratch) +
                      (more.algorithm == repair_algorithm::from_scratch);
    }
  }
  EXPECT_LE(from_scratch, 6);  // of 64
}

TEST(repair_plan, random_machines_with_switches) {
  int cases = 0, from_scratch = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    auto const machine = test::make_random_duplex_machine(seed, 4 + seed % 4, seed % 3, 8);
    auto const kind = kinds[seed % 4];
    auto const old = make_plan(machine, {kind, {}, "exact"});
    auto const changed = degraded(machine, random() % machine.links.size(),
                                  static_cast<int>(random() % 3), seed % 2 == 0);
    SCOPED_TRACE("seed " + std::to_string(seed));
    try {
      auto const result = sound_repair(changed, old);
      ++cases;
      from_scratch += result.algorithm == repair_algorithm::from_scratch;
    } catch (planning_error const&) {  // the link was a bridge
      EXPECT_THROW((void)make_plan(changed, {kind, {}, "exact"}), planning_error);
    }
  }
  EXPECT_GE(cases, 30);
  EXPECT_LE(10 * from_scratch, 2 * cases);
}

TEST(repair_plan, random_ranks_lost_and_added) {
  int cases = 0, from_scratch = 0;
  for (unsigned seed = 0; seed < 48; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto const machine = test::make_random_duplex_machine(seed, 5 + seed % 4, seed % 3, 10);
    auto const kind = kinds[seed % 5];
    std::vector<int> ids;
    for (int const at : machine.rank_positions()) {
      ids.push_back(machine.nodes[static_cast<std::size_t>(at)].id);
    }
    int const lost = ids.at(seed % ids.size());
    std::erase(ids, lost);
    auto const fewer = subset(machine, ids);
    try {
      auto const small = make_plan(fewer, {kind, {}, "exact"});
      auto const shrunk = sound_repair(fewer, make_plan(machine, {kind, {}, "exact"}));
      auto const grown = sound_repair(machine, small);
      EXPECT_EQ(shrunk.difference.ranks_lost, std::vector<int>{lost});
      EXPECT_EQ(grown.difference.ranks_added, std::vector<int>{lost});
      if (kind == collective::all_reduce) continue;
      cases += 2;
      from_scratch += (shrunk.algorithm == repair_algorithm::from_scratch) +
                      (grown.algorithm == repair_algorithm::from_scratch);
    } catch (planning_error const&) {  // the rank was a bridge
    }
  }
  EXPECT_GE(cases, 30);
  EXPECT_LE(2 * from_scratch, cases);
}

/// A plan that lost some rate to switches with an egress excess may lose some again.
// A fresh plan of many ranks takes less time than keeping old trees.
TEST(repair_plan, of_many_ranks_is_a_fresh_plan) {
  auto const before = machines::dgx_h100(9);
  auto after = before;
  std::size_t const links = after.links.size();
  std::erase_if(after.links, [&](blink::link const& l) {
    return l.kind == link_kind::network &&
           std::min(after.nodes[static_cast<std::size_t>(l.tail)].id,
                    after.nodes[static_cast<std::size_t>(l.head)].id) == 11;
  });
  ASSERT_EQ(after.links.size(), links - 2);
  for (auto const kind : {collective::broadcast, collective::reduce, collective::all_reduce,
                          collective::all_gather, collective::reduce_scatter}) {
    SCOPED_TRACE(to_text(kind));
    auto const old = make_plan(before, {kind});
    auto const repaired = repair_plan(after, old);
    EXPECT_EQ(check_plan(after, repaired.plan).fault.value_or(""), "");
    EXPECT_EQ(repaired.plan.rate, repaired.plan.bound);
    plan_request fresh{kind};
    if (has_one_root(kind)) fresh.root = old.trees.front().root;
    EXPECT_EQ(repaired.plan.rate, make_plan(after, fresh).rate);
  }
}

TEST(repair_plan, of_a_plan_without_egress_excess) {
  topology machine;
  machine.name = "fan";
  for (int i = 0; i < 3; ++i) machine.nodes.push_back({i, node_kind::rank, ""});
  machine.nodes.push_back({9, node_kind::switch_node, ""});
  machine.links = {{0, 3, 4}, {3, 1, 4}, {3, 2, 5}, {1, 2, 1}, {2, 1, 1}, {1, 0, 3}, {2, 0, 3}};
  plan_request request{collective::broadcast, 0, "exact"};
  auto const old = make_plan(machine, request);
  EXPECT_EQ(old.rate, rational(3));
  machine.links[0].capacity = 3;
  auto const result = repair_plan(machine, old);
  EXPECT_EQ(check_plan(machine, result.plan).fault.value_or(""), "");
  EXPECT_EQ(result.plan.bound, rational(5, 2));
  EXPECT_EQ(result.plan.rate, rational(5, 2));
}

TEST(repair_plan, nothing_changed_keeps_everything) {
  for (auto const& machine : {machines::dgx1v(), machines::dgx_a100(2)}) {
    for (auto const kind : kinds) {
      if (kind == collective::all_reduce && machine.nodes.size() > 8) continue;  // takes seconds
      auto const old = make_plan(machine, {kind, {}, "exact"});
      auto const result = sound_repair(machine, old);
      SCOPED_TRACE(machine.name + " " + std::string(to_text(kind)));
      if (result.algorithm == repair_algorithm::from_scratch) continue;
      EXPECT_TRUE(result.difference.links_left.empty());
      EXPECT_EQ(result.difference.kept.size() + result.difference.reweighted.size(),
                result.plan.trees.size());
    }
  }
}

TEST(repair_plan, a_faster_link_is_used) {
  auto machine = test::direct_machine({{0, 1, 1}, {1, 0, 1}, {1, 1, 0}});
  auto const old = make_plan(machine, {collective::all_gather, {}, "exact"});
  for (auto& l : machine.links) l.capacity *= 3;
  EXPECT_EQ(sound_repair(machine, old).plan.rate, old.rate * 3);
}

TEST(repair_plan, keeps_shares_forwarding_ranks_and_forbidden_links) {
  auto const machine = machines::dgx1v();
  plan_request request{collective::all_gather};
  request.constraints.shares = {{0, 3}};
  auto const old = make_plan(machine, request);
  auto const changed = degraded(machine, 4, 2, true);
  auto const result = repair_plan(changed, old);
  EXPECT_EQ(check_plan(changed, result.plan).fault.value_or(""), "");
  EXPECT_EQ(result.plan.shares, old.shares);
  EXPECT_EQ(result.plan.rate, result.plan.bound);
  auto without = machine;
  std::erase_if(without.links, [](blink::link const& l) { return l.tail == 0 && l.head == 3; });
  auto hinted = make_plan(without, {collective::broadcast, 0, "exact"});
  hinted.forbidden_links = {{0, 3}};
  auto const again = repair_plan(changed, hinted);
  EXPECT_EQ(check_plan(changed, again.plan).fault.value_or(""), "");
  EXPECT_EQ(again.plan.forbidden_links, hinted.forbidden_links);
  EXPECT_EQ(again.plan.rate, again.plan.bound);
}

TEST(repair_plan, an_old_plan_with_a_fault_is_refused) {
  auto const machine =
      test::direct_machine({{0, 1, 1, 1}, {1, 0, 1, 1}, {1, 1, 0, 1}, {1, 1, 1, 0}});
  auto const fault_of = [&](plan const& old) -> std::string {
    try {
      (void)repair_plan(machine, old);
    } catch (input_error const& fault) {
      return fault.what();
    }
    return "repaired";
  };
  for (auto const kind : kinds) {
    SCOPED_TRACE(std::string(to_text(kind)));
    auto const sound = make_plan(machine, {kind});
    EXPECT_EQ(fault_of(sound), "repaired");
    auto old = sound;
    // Two ranks wait for each other.
    auto const root = old.trees[0].root;
    std::vector<int> rest;
    for (int const rank : old.ranks) {
      if (rank != root) rest.push_back(rank);
    }
    auto const [a, b, c] = std::array{rest[0], rest[1], rest[2]};
    bool const up = has_reduce_phase(kind);
    auto& phase = up ? old.trees[0].reduce : old.trees[0].broadcast;
    phase = {{a, b, {a, b}}, {b, a, {b, a}}};
    phase.push_back(up ? tree_edge{c, root, {c, root}} : tree_edge{root, c, {root, c}});
    EXPECT_NE(fault_of(old).find("repair: the old plan is not sound: tree 0: rank"),
              std::string::npos);
    old = sound;
    old.rate += 1;
    EXPECT_NE(fault_of(old).find("the plan claims a rate of"), std::string::npos);
    old = sound;
    (up ? old.trees[0].reduce : old.trees[0].broadcast)[0].path.clear();
    EXPECT_NE(fault_of(old).find("does not lead from one end to the other"), std::string::npos);
  }
}

TEST(plan_difference, names_what_changed) {
  auto const tree_of = [](std::vector<std::pair<int, int>> const& edges, std::int64_t weight) {
    tree t{0, weight, {}, {}};
    for (auto const& [from, to] : edges) t.broadcast.push_back({from, to, {from, to}});
    return t;
  };
  plan before, after;
  before.ranks = {0, 1, 2, 3};
  after.ranks = {0, 1, 2, 4};
  before.trees = {tree_of({{0, 1}, {1, 2}}, 1), tree_of({{0, 2}, {2, 1}}, 1),
                  tree_of({{0, 1}, {0, 2}}, 1)};
  after.trees = {tree_of({{1, 2}, {0, 1}}, 1), tree_of({{0, 2}, {2, 1}}, 2),
                 tree_of({{0, 1}, {0, 3}}, 1)};
  auto const d = difference(before, after);
  EXPECT_EQ(d.kept.size(), 1U);
  EXPECT_EQ(d.reweighted.size(), 1U);
  EXPECT_EQ(d.changed.size(), 1U);
  EXPECT_TRUE(d.dropped.empty() && d.added.empty());
  EXPECT_EQ(d.links_taken, (std::vector<std::pair<int, int>>{{0, 3}}));
  EXPECT_EQ(d.ranks_lost, std::vector<int>{3});
  EXPECT_EQ(d.ranks_added, std::vector<int>{4});
}

}  // namespace
