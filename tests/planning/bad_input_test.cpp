// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/constraints/restricted_plan.hpp>
#include <blink/planning/make_plan.hpp>

#include "support/brute_force.hpp"
#include "support/expect_error.hpp"
#include "support/random_machines.hpp"
#include "support/small_machines.hpp"
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Unusual machines, and wrong descriptions of machines. The answer is exact, or an error with the
// reason, for every collective and planner.

namespace {

using namespace blink;

std::vector<collective> all_collectives() {
  std::vector<collective> result;
  for (std::size_t i = 0; i < collective_names.size(); ++i) {
    result.push_back(static_cast<blink::collective>(i));
  }
  return result;
}

plan_request request_of(topology const& machine, collective kind, std::string_view planner) {
  plan_request result{kind, {}, std::string(planner)};
  if (kind != collective::permute) return result;
  auto const ranks = machine.rank_positions();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    auto const to = static_cast<std::size_t>(ranks[(i + 1) % ranks.size()]);
    result.destinations.push_back(machine.nodes[to].id);
  }
  return result;
}

/// The rate of a plan that passed the checker; nothing if the planner reports why there is none.
/// The planner must throw an error for users: an overflow is one, a broken precondition is not.
std::optional<rational> sound_rate(topology const& machine, plan_request const& request) {
  auto const where = request.planner + " " + std::string(to_text(request.collective));
  std::optional<plan> p;
  try {
    p = make_plan(machine, request);
  } catch (input_error const& reason) {
    EXPECT_GT(std::string_view(reason.what()).size(), 10U) << where;
  } catch (planning_error const& reason) {
    EXPECT_GT(std::string_view(reason.what()).size(), 10U) << where;
  } catch (overflow_error const& reason) {
    EXPECT_GT(std::string_view(reason.what()).size(), 10U) << where;
  } catch (std::exception const& reason) {
    ADD_FAILURE() << where << ": " << reason.what();
  }
  if (!p) return std::nullopt;
  EXPECT_EQ(check_plan(machine, *p).fault.value_or(""), "") << where;
  EXPECT_LE(p->rate, p->bound) << where;
  return p->rate;
}

/// By planner and collective, in the order of the tables.
std::vector<std::optional<rational>> all_rates(topology const& machine,
                                               std::size_t planners_tried) {
  std::vector<std::optional<rational>> result;
  for (std::size_t i = 0; i < planners_tried; ++i) {
    for (auto const kind : all_collectives()) {
      if (!planners[i].collectives.contains(kind)) continue;
      result.push_back(sound_rate(machine, request_of(machine, kind, planners[i].name)));
    }
  }
  return result;
}

constexpr std::size_t exact_only = 1;

topology random_machine(unsigned seed) {
  return seed % 2 == 0 ? test::make_random_duplex_machine(seed, 2 + seed % 5, seed % 4, 4)
                       : test::make_random_machine(seed, 2 + seed % 5, seed % 4, 3 + seed % 6);
}

/// Gives the links capacities from `next`; those of a full-duplex machine stay alike by pairs.
topology with_capacities(topology machine, bool duplex, auto next) {
  for (std::size_t i = 0; i < machine.links.size(); ++i) {
    machine.links[i].capacity =
        duplex && i % 2 == 1 ? machine.links[i - 1].capacity : static_cast<std::int64_t>(next());
  }
  return machine;
}

TEST(bad_input, sums_beyond64_bits_are_refused) {
  constexpr std::int64_t huge = std::int64_t{1} << 61;
  test::capacity_matrix const matrix{{0, huge, huge}, {huge, 0, huge}, {huge, huge, 0}};
  auto const machine = test::direct_machine(matrix);
  for (auto const& each : planners) {
    for (auto const kind : all_collectives()) {
      EXPECT_THROW((void)make_plan(machine, request_of(machine, kind, each.name)), input_error);
    }
  }
}

TEST(bad_input, sums_just_below62_bits_are_exact_or_refused) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    auto machine = random_machine(seed);
    std::mt19937_64 random(seed);
    auto const share = (std::int64_t{1} << 62) / static_cast<std::int64_t>(machine.links.size());
    machine = with_capacities(std::move(machine), seed % 2 == 0,
                              [&] { return share - static_cast<std::int64_t>(random() % 1000); });
    all_rates(machine, planners.size());
  }
  // Two ranks and whole powers: nothing overflows.
  constexpr std::int64_t large = std::int64_t{1} << 58;
  auto const pair = test::direct_machine({{0, large}, {large, 0}});
  EXPECT_EQ(sound_rate(pair, {collective::broadcast, {}, "exact"}), rational(large));
  EXPECT_EQ(sound_rate(pair, {collective::all_gather, {}, "exact"}), rational(2 * large));
  EXPECT_EQ(sound_rate(pair, {collective::all_to_all, {}, "exact"}), rational(2 * large));
}

TEST(bad_input, ratios_of_a_billion_are_exact) {
  int exact = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    constexpr std::int64_t values[] = {1, 2, 1'000'000'000, 999'999'937, 1'000'000'007};
    std::mt19937 random(seed);
    auto const machine = with_capacities(random_machine(seed), seed % 2 == 0,
                                         [&] { return values[random() % std::size(values)]; });
    for (auto const kind : {collective::broadcast, collective::reduce, collective::all_gather,
                            collective::reduce_scatter, collective::gather, collective::scatter}) {
      auto const p = make_plan(machine, {kind, {}, "exact"});
      EXPECT_EQ(check_plan(machine, p).fault.value_or(""), "");
      EXPECT_EQ(p.rate, p.bound) << to_text(kind);
      ++exact;
    }
    for (auto const kind :
         {collective::all_to_all, collective::send_to_next, collective::permute}) {
      auto const p = make_plan(machine, request_of(machine, kind, "exact"));
      EXPECT_EQ(check_plan(machine, p).fault.value_or(""), "");
      EXPECT_LE(p.bound, p.rate * rational(1'000'001, 1'000'000)) << to_text(kind);
    }
    all_rates(machine, seed < 8 ? planners.size() : exact_only);
  }
  EXPECT_GT(exact, 200);  // of 240
}

TEST(bad_input, ratios_of_a_billion_against_all_cuts) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto const n = 2 + random() % 5;
    test::capacity_matrix matrix(n, std::vector<std::int64_t>(n, 0));
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        if (i != j) matrix[i][j] = random() % 2 == 0 ? 1 : 1'000'000'000;
      }
    }
    auto const machine = test::direct_machine(matrix);
    EXPECT_EQ(sound_rate(machine, {collective::all_gather, {}, "exact"}),
              test::best_all_gather(matrix));
    for (std::size_t root = 0; root < n; ++root) {
      EXPECT_EQ(sound_rate(machine, {collective::broadcast, static_cast<int>(root), "exact"}),
                test::best_broadcast(matrix, root));
    }
  }
}

TEST(bad_input, switches_without_ranks_change_nothing) {
  for (unsigned seed = 0; seed < 16; ++seed) {
    SCOPED_TRACE(seed);
    auto const machine = seed % 7 == 0 ? test::star_machine(3 + static_cast<int>(seed % 4), 5)
                                       : random_machine(seed);
    auto const rates = all_rates(machine, exact_only);
    auto const at = static_cast<int>(machine.nodes.size());
    std::vector<std::vector<blink::link>> const dead_ends{
        {},                                                          // no link at all
        {{0, at, 7}},                                                // in only
        {{at, 0, 7}},                                                // out only
        {{at, at + 1, 3}, {at + 1, at, 3}},                          // an island
        {{0, at, 9}, {at, 0, 9}, {at, at + 1, 3}, {at + 1, at, 3}},  // a branch
        {{0, at, 9}, {at, at + 1, 3}},                               // one way into nothing
    };
    for (std::size_t form = 0; form < dead_ends.size(); ++form) {
      SCOPED_TRACE(form);
      auto other = machine;
      other.nodes.push_back({1000, node_kind::switch_node, ""});
      other.nodes.push_back({1001, node_kind::switch_node, ""});
      for (auto const& l : dead_ends[form]) other.links.push_back(l);
      EXPECT_EQ(all_rates(other, exact_only), rates);
      if (seed < 2) all_rates(other, planners.size());
    }
  }
}

TEST(bad_input, parallel_links_are_one_link) {
  for (unsigned seed = 0; seed < 14; ++seed) {
    SCOPED_TRACE(seed);
    auto const machine = seed % 7 == 0 ? test::star_machine(3 + static_cast<int>(seed % 4), 5)
                                       : random_machine(seed);
    auto split = machine;
    split.links.clear();
    for (auto l : machine.links) {
      auto const count = l.capacity;
      l.capacity = 1;
      split.links.insert(split.links.end(), static_cast<std::size_t>(count), l);
    }
    auto const tried = seed < 6 ? planners.size() : exact_only;
    EXPECT_EQ(all_rates(split, tried), all_rates(machine, tried));
  }
}

TEST(bad_input, wrong_machines_are_refused) {
  auto const good = test::direct_machine({{0, 1}, {1, 0}});
  std::vector<topology> wrong(6, good);
  wrong[0].links.push_back({1, 1, 5});  // a loop
  wrong[1].links[0].capacity = 0;
  wrong[2].links[0].capacity = -3;
  wrong[3].links[0].head = 2;                                                // no such node
  wrong[4].nodes[1].id = 0;                                                  // twice
  wrong[5].nodes[0].kind = wrong[5].nodes[1].kind = node_kind::switch_node;  // no rank
  wrong.emplace_back();
  for (auto const& machine : wrong) {
    for (auto const kind : all_collectives()) {
      for (auto const& each : planners) {
        plan_request const request{kind, {}, std::string(each.name)};
        EXPECT_THROW((void)make_plan(machine, request), input_error);
      }
      EXPECT_THROW((void)make_restricted_plan(machine, {kind}), input_error);
    }
  }
}

TEST(bad_input, one_rank_has_nothing_to_move) {
  topology machine;
  machine.nodes.push_back({5, node_kind::rank, ""});
  auto const expect_empty = [&] {
    for (auto const& each : planners) {
      for (auto const kind : all_collectives()) {
        if (!each.collectives.contains(kind)) continue;
        auto const p = make_plan(machine, request_of(machine, kind, each.name));
        EXPECT_TRUE(p.trees.empty()) << each.name << " " << to_text(kind);
        EXPECT_EQ(check_plan(machine, p).fault.value_or(""), "");
      }
    }
  };
  expect_empty();
  machine.nodes.push_back({6, node_kind::switch_node, ""});
  expect_empty();
  machine.links.push_back({0, 1, 3});
  expect_empty();
  machine.links.push_back({1, 0, 3});
  expect_empty();
  machine.nodes[1].copies = machine.nodes[1].reduces = true;
  expect_empty();
}

TEST(bad_input, unreachable_ranks_are_named) {
  auto const apart = test::direct_machine({{0, 1, 0, 0}, {1, 0, 0, 0}, {0, 0, 0, 1}, {0, 0, 1, 0}});
  auto const nothing = test::direct_machine({{0, 0}, {0, 0}});
  auto into_switch = test::star_machine(3, 4);
  std::erase_if(into_switch.links, [](blink::link const& l) { return l.tail == 3; });
  auto one_deaf = test::star_machine(3, 4);
  std::erase_if(one_deaf.links, [](blink::link const& l) { return l.tail == 3 && l.head == 1; });
  for (topology const* machine :
       {&apart, &nothing, &std::as_const(into_switch), &std::as_const(one_deaf)}) {
    for (auto const& each : planners) {
      for (auto const kind : all_collectives()) {
        if (!each.collectives.contains(kind)) continue;
        // Towards a root, or from the deaf one, some of these exist.
        if (machine == &one_deaf && !has_equal_roots(kind) && kind != collective::all_reduce &&
            kind != collective::all_to_all && kind != collective::permute) {
          (void)sound_rate(*machine, request_of(*machine, kind, each.name));
          continue;
        }
        EXPECT_THROW((void)make_plan(*machine, request_of(*machine, kind, each.name)),
                     planning_error)
            << each.name << " " << to_text(kind);
      }
    }
  }
  // A chain one way: from its first rank, and to its last.
  auto const chain = test::direct_machine({{0, 1, 0}, {0, 0, 1}, {0, 0, 0}});
  for (int root = 0; root < 3; ++root) {
    for (auto const kind :
         {collective::broadcast, collective::scatter, collective::reduce, collective::gather}) {
      bool const outward = kind == collective::broadcast || kind == collective::scatter;
      auto const rate = sound_rate(chain, {kind, root, "exact"});
      EXPECT_EQ(rate.has_value(), root == (outward ? 0 : 2)) << to_text(kind) << root;
    }
  }
  // Holes anywhere: whatever is planned is sound.
  for (unsigned seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    auto machine = random_machine(seed);
    std::mt19937 random(seed);
    std::erase_if(machine.links, [&](blink::link const&) { return random() % 3 == 0; });
    all_rates(machine, seed < 10 ? planners.size() : exact_only);
  }
}

TEST(bad_input, hints_that_contradict_are_refused) {
  auto const machine = test::direct_machine(test::dgx1v_matrix(1));
  for (auto const kind : all_collectives()) {
    SCOPED_TRACE(to_text(kind));
    auto request = request_of(machine, kind, "exact");
    auto const refused = [&](plan_constraints const& options) {
      request.constraints = options;
      EXPECT_THROW((void)make_plan(machine, request), input_error);
    };
    plan_constraints options;
    options.forbidden_links = options.required_links = {{0, 1}};
    refused(options);
    options = {};
    options.required_links = {{0, 5}};  // no link
    refused(options);
    options = {};
    options.forwarding_ranks = {0, 1, 2, 3, 4, 5, 6, 7};
    refused(options);
    options = {};
    options.forwarding_ranks = {99};
    refused(options);
    options = {};
    options.max_trees = 0;
    refused(options);
    options = {};
    options.trees_per_root = 2;
    options.weight_unit = rational(1);
    refused(options);
    options = {};
    options.weight_unit = rational(-1);
    refused(options);
    options = {};
    options.symmetries = {{{0, 1}}};  // 0 and 1 both go to 1
    refused(options);
    options = {};
    options.forwarding_ranks = {3};
    options.shares = {{3, 2}};
    refused(options);
    // All links of a rank forbidden: it cannot be reached.
    options = {};
    for (int other = 1; other < 8; ++other) {
      if (test::dgx1v_matrix(1)[0][static_cast<std::size_t>(other)] == 0) continue;
      options.forbidden_links.emplace_back(0, other);
      options.forbidden_links.emplace_back(other, 0);
    }
    request.constraints = options;
    EXPECT_THROW((void)make_plan(machine, request), planning_error);
  }
}

TEST(bad_input, wrong_requests_are_refused) {
  auto const machine = test::star_machine(3, 4);
  for (auto const kind : all_collectives()) {
    for (int const root : {3, 99, -1}) {  // the switch, no node
      EXPECT_THROW((void)make_plan(machine, {kind, root, "exact"}), input_error);
    }
    EXPECT_THROW((void)make_plan(machine, {kind, {}, "magic"}), input_error);
  }
}

TEST(bad_input, more_ranks_than_a_plan_may_have_are_refused) {
  topology machine;
  machine.nodes.push_back({0, node_kind::switch_node, "switch"});
  for (int id = 1; id <= 16'385; ++id) {
    machine.nodes.push_back({id, node_kind::rank, "rank"});
    machine.links.push_back({0, id, 1});
    machine.links.push_back({id, 0, 1});
  }
  for (auto const* planner : {"exact", "one_hop"}) {
    EXPECT_ERROR((void)make_plan(machine, request_of(machine, collective::broadcast, planner)),
                 "16385 ranks, expected at most 16384");
  }
}

}  // namespace
