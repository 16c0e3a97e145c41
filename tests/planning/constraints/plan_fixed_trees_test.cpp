// SPDX-License-Identifier: Apache-2.0
// Unequal shares, and k trees a root.
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/constraints/plan_fixed_trees.hpp>
#include <blink/planning/planners/plan_shares.hpp>
#include <blink/topology/machines.hpp>

#include "support/random_machines.hpp"
#include "support/small_machines.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace blink;

void expect_sound(topology const& machine, plan const& p) {
  EXPECT_EQ(check_plan(machine, p).fault.value_or(""), "");
}

/// The smallest ratio of capacity leaving a node set to the shares in it, over all sets that miss a
/// rank.
rational smallest_ratio(topology const& machine, std::vector<std::int64_t> const& shares) {
  auto const ranks = machine.rank_positions();
  rational least(std::int64_t{1} << 40);
  for (unsigned set = 1; set < 1U << machine.nodes.size(); ++set) {
    auto const inside = [&](int at) { return (set >> static_cast<unsigned>(at) & 1U) != 0; };
    std::int64_t weight = 0;
    bool misses = false;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (inside(ranks[i])) {
        weight += shares[i];
      } else {
        misses = true;
      }
    }
    if (!misses || weight == 0) continue;
    std::int64_t leaving = 0;
    for (auto const& l : machine.links) {
      if (inside(l.tail) && !inside(l.head)) leaving += l.capacity;
    }
    least = std::min(least, rational(leaving, weight));
  }
  return least;
}

TEST(plan_shares, are_optimal_on_random_machines) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    unsigned const n = 2 + seed % 4;
    auto const machine = test::make_random_machine(seed, n, seed % 3, 4);
    std::mt19937 random(seed);
    std::vector<std::int64_t> shares;
    for (unsigned i = 0; i < n; ++i) shares.push_back(static_cast<std::int64_t>(random() % 5));
    if (std::ranges::count(shares, 0) == n) shares[0] = 1;
    std::int64_t all = 0;
    for (auto const s : shares) all += s;
    auto const p = plan_shares(machine, {collective::all_gather, {}, "exact"}, shares);
    expect_sound(machine, p);
    EXPECT_EQ(p.rate, smallest_ratio(machine, shares) * all);
    EXPECT_EQ(p.rate, p.bound);
    auto const back = detail::plan_forward(
        machine, {collective::reduce_scatter},
        [&](auto const& on, auto const& request) { return plan_shares(on, request, shares); });
    expect_sound(machine, back);
    EXPECT_EQ(back.rate, smallest_ratio(detail::reversed(machine), shares) * all);
  }
}

TEST(plan_shares, all_at_one_rank_is_a_broadcast) {
  auto const machine = machines::dgx1v();
  std::vector<std::int64_t> shares(8, 0);
  shares[3] = 7;
  auto const p = plan_shares(machine, {collective::all_gather, {}, "exact"}, shares);
  expect_sound(machine, p);
  EXPECT_EQ(p.rate, rational(150));
}

TEST(plan_fixed_trees, are_the_values_of_the_frontier) {
  // Shares of the optimum with k trees a root.
  auto const dgx1 = machines::dgx1v();
  plan_request const request{collective::all_gather, {}, "exact"};
  auto const frontier = tree_count_frontier(dgx1, request, 10);
  ASSERT_FALSE(frontier.empty());
  EXPECT_EQ(frontier.back().rate, rational(1200, 7));
  EXPECT_EQ(frontier.back().trees_per_root, 6);
  std::map<std::int64_t, double> share;
  for (auto const& [k, rate] : frontier) share[k] = (rate / rational(1200, 7)).to_double();
  EXPECT_NEAR(share.at(1), 0.78, 0.005);
  EXPECT_NEAR(share.at(2), 0.93, 0.005);
  EXPECT_NEAR((tree_count_frontier(machines::dgx_a100(2), request, 1).front().rate /
               prove_bound(machines::dgx_a100(2), request.collective, 0).bound)
                  .to_double(),
              0.989, 0.0005);
  auto const h100 = tree_count_frontier(machines::dgx_h100(2), request, 4);
  auto const best = prove_bound(machines::dgx_h100(2), request.collective, 0).bound;
  ASSERT_EQ(h100.size(), 2U);
  EXPECT_NEAR(ratio(h100[0].rate, best), 0.964, 0.0005);
  EXPECT_EQ(h100[1].rate, best);
}

TEST(plan_fixed_trees, are_packed_as_promised) {
  for (auto const& machine : {machines::dgx1v(), machines::dgx1p(), machines::dgx2()}) {
    for (auto const kind : {collective::all_gather, collective::reduce_scatter}) {
      for (std::int64_t k = 1; k <= 3; ++k) {
        SCOPED_TRACE(machine.name + " " + std::to_string(k));
        auto const p = detail::plan_forward(
            machine, {kind},
            [&](auto const& on, auto const& request) { return plan_fixed_trees(on, request, k); });
        expect_sound(machine, p);
        std::map<int, std::int64_t> trees;
        for (auto const& t : p.trees) ++trees[t.root];
        for (auto const& [root, count] : trees) EXPECT_LE(count, k);
      }
    }
  }
}

/// All scales at which something changes, in order: the first that fits must be the one found.
TEST(plan_fixed_trees, find_the_least_scale_on_random_machines) {
  for (unsigned seed = 0; seed < 25; ++seed) {
    SCOPED_TRACE(seed);
    unsigned const n = 2 + seed % 4;
    auto const machine = test::make_random_machine(seed, n, seed % 2, 5, 5);
    std::vector<std::int64_t> const shares(n, 1);
    auto const best =
        all_gather_rate(machine, detail::capacities_of(machine), machine.rank_positions(), shares)
            .rate_per_root;
    for (std::int64_t k = 1; k <= 4; ++k) {
      auto const found = detail::least_scale(machine, k, best, shares);
      EXPECT_TRUE(detail::trees_fit(machine, found, k, shares));
      EXPECT_GE(found, rational(k) / best);
      for (auto const& l : machine.links) {
        for (std::int64_t j = 1; rational(j, l.capacity) < found; ++j) {
          EXPECT_FALSE(detail::trees_fit(machine, rational(j, l.capacity), k, shares));
        }
      }
      auto const p = plan_fixed_trees(machine, {collective::all_gather, {}, "exact"}, k);
      expect_sound(machine, p);
      EXPECT_EQ(p.rate, rational(k) * static_cast<std::int64_t>(n) / found *
                            rational(1, machine.steps_per_unit));
    }
  }
}

}  // namespace
