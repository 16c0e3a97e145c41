// SPDX-License-Identifier: Apache-2.0
#include <blink/packing/groups/group_packing.hpp>
#include <blink/planning/check/check_groups.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/planning/plan/groups_file.hpp>
#include <blink/planning/plan/make_schedule.hpp>
#include <blink/planning/plan_groups.hpp>
#include <blink/topology/machines.hpp>

#include "support/random_machines.hpp"
#include "support/small_machines.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <vector>

// Rooms may be compiled as one source.
namespace plan_groups_test { namespace {

using namespace blink;

groups_plan sound_groups(topology const& machine, std::vector<group_request> const& groups) {
  auto found = plan_groups(machine, groups);
  EXPECT_EQ(check_groups(machine, found).fault.value_or(""), "");
  EXPECT_EQ(found.plans.size(), groups.size());
  return found;
}

std::vector<int> ids_of_ranks(topology const& machine) {
  std::vector<int> result;
  for (int const at : machine.rank_positions()) {
    result.push_back(machine.nodes[static_cast<std::size_t>(at)].id);
  }
  return result;
}

constexpr collective kinds[] = {
    collective::broadcast,  collective::reduce,         collective::all_reduce,
    collective::all_gather, collective::reduce_scatter, collective::gather,
    collective::scatter,    collective::all_to_all,     collective::send_to_next};

topology random_machine(unsigned seed, unsigned largest = 6) {
  return seed % 2 == 0 ? test::make_random_machine(seed, 3 + seed % 5, seed % 4, 8, largest)
                       : test::make_random_duplex_machine(seed, 3 + seed % 5, seed % 3, 4, largest);
}

// The planners of one collective share no search with the planner of groups.
TEST(plan_groups, one_group_of_all_ranks_is_the_plan_of_the_machine) {
  for (unsigned seed = 0; seed < 24; ++seed) {
    auto const machine = random_machine(seed, seed % 3 == 0 ? 1'000'000 : 6);
    for (auto const kind : kinds) {
      SCOPED_TRACE(std::to_string(seed) + " " + std::string(to_text(kind)));
      auto const ranks = ids_of_ranks(machine);
      std::optional<int> root;
      if (has_root(kind)) root = ranks.back();
      auto const whole = make_plan(machine, {kind, root});
      auto const found = sound_groups(machine, {{kind, ranks, root}});
      EXPECT_EQ(found.plans[0].rate, whole.rate);
      ASSERT_EQ(found.levels.size(), 1U);
      EXPECT_EQ(found.levels[0].bound, whole.rate);
      EXPECT_TRUE(found.forwarding_ranks.empty());
    }
  }
}

TEST(plan_groups, one_group_of_some_ranks_is_the_plan_where_the_others_forward) {
  for (unsigned seed = 0; seed < 24; ++seed) {
    auto const machine = random_machine(seed);
    auto const ranks = ids_of_ranks(machine);
    std::vector<int> const some(ranks.begin(), ranks.begin() + 2 + seed % 2);
    std::vector<int> const others(ranks.begin() + 2 + seed % 2, ranks.end());
    for (auto const kind : {collective::broadcast, collective::all_reduce, collective::all_gather,
                            collective::reduce_scatter, collective::all_to_all}) {
      SCOPED_TRACE(std::to_string(seed) + " " + std::string(to_text(kind)));
      plan_request alone{kind};
      if (has_one_root(kind)) alone.root = some.front();
      alone.constraints.forwarding_ranks = others;
      auto const found = sound_groups(machine, {{kind, some}});
      EXPECT_EQ(found.plans[0].rate, make_plan(machine, alone).rate);
      EXPECT_EQ(found.forwarding_ranks, others);
    }
  }
}

// Equal rate and bound in each level prove that no other plan of the groups is fairer.
TEST(plan_groups, several_groups_reach_the_bound_of_each_level) {
  std::mt19937 random(5);
  std::size_t levels = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    // Later levels with many digits may need larger numbers than 64 bits hold.
    bool const has_many_digits = seed % 4 == 0;
    auto const machine = random_machine(seed, has_many_digits ? 1'000'000 : seed % 3 ? 6 : 1000);
    auto ranks = ids_of_ranks(machine);
    std::shuffle(ranks.begin(), ranks.end(), random);
    std::vector<group_request> groups;
    for (auto from = ranks.begin(); from != ranks.end();) {
      auto const count =
          std::min<std::ptrdiff_t>(1 + static_cast<int>(random() % 3), ranks.end() - from);
      groups.push_back({kinds[random() % std::size(kinds)], {from, from + count}});
      from += count;
    }
    auto const found = sound_groups(machine, groups);
    levels = std::max(levels, found.levels.size());
    for (auto const& level : found.levels) {
      EXPECT_GE(level.rate.to_double(), 0.999 * level.bound.to_double());
      if (!has_many_digits) {
        EXPECT_EQ(level.rate, level.bound);
      }
    }
    for (std::size_t g = 0; g < groups.size(); ++g) {
      EXPECT_EQ(found.plans[g].ranks, groups[g].ranks);
      EXPECT_EQ(found.plans[g].trees.empty(), groups[g].ranks.size() == 1);
    }
  }
  EXPECT_GE(levels, 3U);
}

// Half of a DGX-1V reaches more with the other half's help. Both halves together do not.
TEST(plan_groups, others_forward) {
  auto const machine = machines::dgx1v();
  auto const alone = sound_groups(machine, {{collective::all_to_all, {0, 1, 2, 3}}});
  auto const both = sound_groups(
      machine, {{collective::all_to_all, {0, 1, 2, 3}}, {collective::all_to_all, {4, 5, 6, 7}}});
  EXPECT_GT(alone.plans[0].rate, both.plans[0].rate);
  EXPECT_EQ(both.plans[0].rate, both.plans[1].rate);
  EXPECT_EQ(both.levels.size(), 1U);
  EXPECT_FALSE(alone.plans[0].forwarding_ranks.empty());
}

// Two pairs share a line of three links; the third pair has a link of its own. The rates of the two
// are equal, and the third takes all that its link has.
TEST(plan_groups, rates_are_fair) {
  topology machine;
  for (int i = 0; i < 8; ++i) machine.nodes.push_back({i, node_kind::rank, ""});
  auto const join = [&](int a, int b, std::int64_t c) {
    machine.links.push_back({a, b, c});
    machine.links.push_back({b, a, c});
  };
  join(0, 4, 10);
  join(1, 4, 10);
  join(4, 5, 6);  // shared
  join(5, 2, 10);
  join(5, 3, 10);
  join(6, 7, 9);
  auto const found = sound_groups(machine, {{collective::broadcast, {0, 2}},
                                            {collective::broadcast, {1, 3}},
                                            {collective::all_reduce, {6, 7}}});
  EXPECT_EQ(found.plans[0].rate, rational(3));
  EXPECT_EQ(found.plans[1].rate, rational(3));
  EXPECT_EQ(found.plans[2].rate, rational(9));
  ASSERT_EQ(found.levels.size(), 2U);
  EXPECT_EQ(found.levels[0].groups, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(found.levels[1].groups, (std::vector<std::size_t>{2}));
  EXPECT_EQ(found.forwarding_ranks, (std::vector<int>{4, 5}));
}

TEST(plan_groups, faults_are_found) {
  auto const machine = machines::dgx1v();
  auto const found = sound_groups(machine, {{collective::all_gather, {0, 1, 2}},
                                            {collective::all_reduce, {3, 4}},
                                            {collective::all_to_all, {5, 6, 7}}});
  auto const fault_of = [&](auto const& change) {
    auto changed = found;
    change(changed);
    return check_groups(machine, changed).fault.value_or("sound");
  };
  auto const doubled = [](plan& p) {
    for (auto& t : p.trees) t.weight *= 2;
    p.rate *= 2;
  };
  EXPECT_NE(fault_of([&](groups_plan& g) { doubled(g.plans[0]); }), "sound");
  EXPECT_NE(fault_of([](groups_plan& g) { g.plans[1].rate += 1; }), "sound");
  EXPECT_NE(fault_of([](groups_plan& g) { g.plans[1].ranks = {3, 5}; }), "sound");
  EXPECT_NE(fault_of([](groups_plan& g) { g.levels[0].bound += 1; }), "sound");
  EXPECT_NE(fault_of([](groups_plan& g) { g.levels[0].rate += 1; }), "sound");
  EXPECT_NE(fault_of([](groups_plan& g) { g.levels[0].groups.clear(); }), "sound");
  EXPECT_NE(fault_of([](groups_plan& g) { g.levels.pop_back(); }), "sound");
  EXPECT_NE(fault_of([](groups_plan& g) { g.levels.push_back(g.levels[0]); }), "sound");
  EXPECT_NE(fault_of([](groups_plan& g) { g.forwarding_ranks = {0}; }), "sound");
  EXPECT_NE(fault_of([](groups_plan& g) { g.levels[0].proof.prices.pop_back(); }), "sound");
  EXPECT_NE(fault_of([](groups_plan& g) { g.levels[0].proof.prices[0].price = -1; }), "sound");
  for (auto& level : found.levels) {
    for (std::size_t i = 0; i < level.proof.prices.size(); ++i) {
      // A higher price proves no lower bound, and a lower one no bound that low.
      EXPECT_NE(fault_of([&](groups_plan& g) {
                  g.levels[static_cast<std::size_t>(&level - found.levels.data())]
                      .proof.prices[i]
                      .price *= 2;
                }),
                "sound");
    }
  }
}

// The plan of a group is a plan like any other.
TEST(plan_groups, plans_have_schedules) {
  auto const machine = machines::dgx1v();
  auto const found = sound_groups(machine, {{collective::all_gather, {0, 5, 2}},
                                            {collective::all_reduce, {3, 4}},
                                            {collective::all_to_all, {1, 6, 7}}});
  for (auto const& p : found.plans) {
    auto const schedule = make_schedule(machine, p);
    EXPECT_EQ(schedule.rank_count, static_cast<int>(p.ranks.size()));
    validate(schedule);
  }
}

TEST(plan_groups, files_keep_everything) {
  auto const machine = machines::dgx1v();
  auto const found = sound_groups(machine, {{collective::all_gather, {0, 1, 2}},
                                            {collective::all_to_all, {3, 4}},
                                            {collective::reduce, {5}}});
  auto const text = write_groups(found);
  auto const again = read_groups(text, "g");
  EXPECT_EQ(write_groups(again), text);
  EXPECT_EQ(check_groups(machine, again).fault.value_or(""), "");
  EXPECT_THROW((void)read_groups("{", "g"), input_error);
  EXPECT_THROW((void)read_groups(R"({"blink_groups": 2})", "g"), input_error);
  EXPECT_THROW((void)read_groups(R"({"blink_groups": 1, "forwarding_ranks": []})", "g"),
               input_error);
  auto broken = text;
  broken.replace(broken.find("\"prices\""), 8, "\"cut\"   ");
  EXPECT_THROW((void)read_groups(broken, "g"), input_error);
}

// Beyond the largest program, the mean of cheapest choices comes near the bound.
TEST(plan_groups, budgets_and_limits_leave_a_plan_and_its_gap) {
  arc_list ring{8, {}};
  for (int i = 0; i < 8; ++i) {
    ring.arcs.push_back({i, (i + 1) % 8});
    ring.arcs.push_back({(i + 1) % 8, i});
  }
  std::vector<std::int64_t> const capacity(16, 6);
  std::vector<group_demand> const groups{{group_shape::tree_pairs, {0, 2, 4, 6}, {{-1}}, 1},
                                         {group_shape::tree_pairs, {1, 3, 5}, {{-1}}, 1}};
  group_packing_options options;
  options.max_rows = 1;
  for (auto const& level : pack_groups(ring, capacity, groups, options).levels) {
    EXPECT_LE(level.rate, level.bound);
    EXPECT_GT(level.rate.to_double(), 0.97 * level.bound.to_double());
  }
  auto const machine = machines::torus({4, 4});
  std::vector<group_request> const halves{{collective::all_gather, {0, 1, 2, 3, 4, 5, 6, 7}},
                                          {collective::all_reduce, {8, 9, 10, 11, 12, 13, 14, 15}}};
  for (double const seconds : {1e-9, 1e-3, 1e-2}) {
    work_budget hasty;
    hasty.seconds = seconds;
    auto const found = plan_groups(machine, halves, hasty);
    EXPECT_EQ(check_groups(machine, found).fault.value_or(""), "");
    for (auto const& p : found.plans) EXPECT_GT(p.rate, rational(0));
  }
  EXPECT_THROW((void)plan_groups(machine, halves, {0, 1}), input_error);
}

TEST(plan_groups, says_what_is_wrong) {
  auto const machine = machines::dgx1v();
  auto const error_of = [](topology const& on, std::vector<group_request> const& groups) {
    try {
      (void)plan_groups(on, groups);
      return std::string("no error");
    } catch (error const& e) {
      return std::string(e.what());
    }
  };
  EXPECT_EQ(error_of(machine, {}), "groups: found none, expected at least one");
  EXPECT_EQ(error_of(machine, {{collective::all_reduce, {}}}),
            "group 0: found no rank, expected at least one");
  EXPECT_EQ(error_of(machine, {{collective::all_reduce, {0, 1}}, {collective::reduce, {2, 1}}}),
            "group 1: rank 1 is also in group 0, expected groups without common ranks");
  EXPECT_EQ(error_of(machine, {{collective::all_reduce, {0, 0}}}),
            "group 0: rank 0 is also in group 0, expected groups without common ranks");
  EXPECT_EQ(error_of(machine, {{collective::all_reduce, {0, 8}}}),
            "group 0: 8 is not a rank, expected ranks");
  EXPECT_EQ(error_of(machine, {{collective::broadcast, {0, 1}, 2}}),
            "group 0: found the root 2, expected one of its ranks");
  EXPECT_EQ(error_of(machine, {{collective::all_reduce, {0, 1}, 0}}),
            "group 0: found the root 0, expected none, as all_reduce has no root");
  EXPECT_EQ(error_of(machine, {{collective::barrier, {0, 1}}}),
            "group 0: found barrier, expected a collective that moves data, and no permute");
  auto copying = test::star_machine(3, 1);
  copying.nodes.back().copies = true;
  EXPECT_EQ(error_of(copying, {{collective::all_reduce, {0, 1}}}),
            "groups: switch 3 copies or reduces, expected switches that forward only");
  auto one_way = test::direct_machine({{0, 1}, {0, 0}});
  EXPECT_EQ(error_of(one_way, {{collective::all_reduce, {0, 1}}}),
            "group 0: no route leads from rank 1 to rank 0");
  EXPECT_EQ(error_of(one_way, {{collective::broadcast, {0, 1}}}), "no error");
  EXPECT_EQ(error_of(one_way, {{collective::reduce, {0, 1}}}),
            "group 0: no route leads from rank 1 to rank 0");
}

TEST(plan_groups, parts_of_a_torus) {
  auto const machine = machines::torus({4, 4});
  std::vector<group_request> rows;
  for (int i = 0; i < 16; i += 4) {
    rows.push_back({collective::all_reduce, {i, i + 1, i + 2, i + 3}});
  }
  auto const found = sound_groups(machine, rows);
  ASSERT_EQ(found.levels.size(), 1U);
  EXPECT_EQ(found.levels[0].rate, found.levels[0].bound);
  EXPECT_EQ(found.levels[0].groups.size(), 4U);
}

}}  // namespace plan_groups_test
