// SPDX-License-Identifier: Apache-2.0
// Sharing of links, and properties of every run on seeded random plans: bounds, comparisons and
// determinism.
#include <blink/planning/cost/cost_model.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/planning/plan/detail/routed_forest.hpp>
#include <blink/simulation/simulate.hpp>
#include <blink/topology/machines.hpp>
#include <blink/topology/subset.hpp>
#include <blink/topology/topology.hpp>

#include "support/random_machines.hpp"
#include "support/random_plans.hpp"
#include "support/small_machines.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

// Rooms may be compiled as one source.
namespace simulation_options_test { namespace {

using namespace blink;

constexpr double giga = 1e9;
constexpr link_sharing both_rules[] = {link_sharing::fifo, link_sharing::fair};

/// A random machine with its exact plan, whose trees share links.
test::planned_machine make_random_plan(unsigned seed) {
  auto const kinds = {collective::all_reduce, collective::broadcast, collective::reduce_scatter,
                      collective::all_gather};
  test::planned_machine result;
  result.machine = test::make_random_duplex_machine(seed, 3 + seed % 5, 1 + seed % 2, 3, 4);
  result.machine.unit = "GB/s";
  result.plan = make_plan(result.machine, {kinds.begin()[seed % 4], {}, "exact"});
  return result;
}

simulation_options bare(link_sharing sharing = link_sharing::fifo) {
  return {.start_seconds = 0, .step_seconds = 0, .sharing = sharing};
}

/// Ends of chunks by tree, phase, chunk, tree edge and link.
using crossing_key = std::tuple<std::size_t, bool, std::size_t, int, int, int, int>;
std::map<crossing_key, double> ends_of(simulation_result const& result) {
  std::map<crossing_key, double> ends;
  for (auto const& c : result.crossings) {
    ends[{c.tree, c.is_reduce, c.chunk, c.edge_from, c.edge_to, c.link_from, c.link_to}] = c.end;
  }
  return ends;
}

// --- sharing ------------------------------------------------------------------------------------

TEST(simulated_sharing, both_rules_agree_where_no_link_is_shared) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    auto const [machine, p] =
        test::make_random_tree_plan(seed, 2 + static_cast<int>(seed % 9), true, true);
    simulation_options options;
    options.window = seed % 4;
    options.noise = seed % 3 == 0 ? 0.3 : 0;
    options.reduce_bytes_per_second = seed % 2 == 0 ? 5e9 : 0;
    options.records_events = true;
    auto const fifo = simulate(machine, p, 3e6, 1e5 * (1 + seed % 7), options);
    options.sharing = link_sharing::fair;
    auto const fair = simulate(machine, p, 3e6, 1e5 * (1 + seed % 7), options);
    EXPECT_NEAR(fair.seconds, fifo.seconds, 1e-9 * fifo.seconds);
    EXPECT_EQ(fair.messages, fifo.messages);
    auto const expected = ends_of(fifo);
    auto const found = ends_of(fair);
    ASSERT_EQ(found.size(), expected.size());
    for (auto const& [key, end] : expected) EXPECT_NEAR(found.at(key), end, 1e-9 * end);
  }
}

/// Flows of different sizes from rank 0 of a star: one port of 10 GB/s is shared by all.
TEST(simulated_sharing, chunks_on_one_link_end_as_fair_shares_say) {
  auto const machine = test::star_machine(4, 10);
  plan p{collective::scatter, "by hand", "GB/s", "", {0, 1, 2, 3}, 24, 0, {}, {}};
  for (int to = 1; to < 4; ++to) {  // the weights are 1, 2 and 3
    p.trees.push_back({0, to, {}, {{0, to, {0, 4, to}}}, {0, to}});
  }
  auto options = bare(link_sharing::fair);
  options.records_events = true;
  auto const result = simulate(machine, p, 24e6, 1e9, options);  // 1, 2 and 3 MB
  std::map<int, double> end;
  for (auto const& c : result.crossings) end[c.edge_to] = c.end;
  // All three at a third until 1 MB is done; two at a half until the second is; then one alone.
  EXPECT_NEAR(end[1], 3e6 / (10 * giga), 1e-12);
  EXPECT_NEAR(end[2], 5e6 / (10 * giga), 1e-12);
  EXPECT_NEAR(end[3], 6e6 / (10 * giga), 1e-12);
  EXPECT_NEAR(result.busy_seconds.at({0, 4}), 6e6 / (10 * giga), 1e-12);
}

/// The first chunks of a random plan end as the exact max-min rates of their routes say.
TEST(simulated_sharing, rates_are_those_of_exact_progressive_filling) {
  int shared = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    auto const machine = test::make_random_duplex_machine(seed, 4 + seed % 5, 2, 3, 6);
    detail::router route(machine);
    auto const ids = machine.rank_positions();
    plan p{collective::permute, "by hand", machine.unit, "", {}, 1, 0, {}, {}};
    for (int const at : ids) p.ranks.push_back(machine.nodes[static_cast<std::size_t>(at)].id);
    p.destinations = p.ranks;
    std::mt19937 random(seed);
    std::shuffle(p.destinations.begin(), p.destinations.end(), random);
    detail::group_loads load;
    for (std::size_t i = 0; i < p.ranks.size(); ++i) {
      if (p.destinations[i] == p.ranks[i]) continue;
      auto const edge = route(p.ranks[i], p.destinations[i]);
      detail::add_load(load, edge, static_cast<int>(p.trees.size()), 1);
      p.trees.push_back({p.ranks[i], 1, {}, {edge}, {p.ranks[i], p.destinations[i]}});
    }
    if (p.trees.empty()) continue;
    auto const exact = detail::fair_paces(load, route);
    double fastest = 0;
    for (auto const& [tree, rate] : exact) fastest = std::max(fastest, rate.to_double());
    for (auto const& [link, groups] : load) shared += groups.size() > 1;
    auto options = bare(link_sharing::fair);
    options.bytes_per_unit = giga;
    options.records_events = true;
    auto const result = simulate(machine, p, 1e6, 1e6, options);
    double const first = 1e6 / (fastest * giga);
    EXPECT_NEAR(result.crossings.front().end, first, 1e-9 * first);
    for (auto const& c : result.crossings) {  // exactly the chunks with that rate end first
      if (c.end > first * (1 + 1e-9)) continue;
      EXPECT_NEAR(exact.at(static_cast<int>(c.tree)).to_double(), fastest, 1e-9 * fastest);
    }
  }
  EXPECT_GT(shared, 50);
}

// --- order of chunks that are ready at one time -------------------------------------------------

/// An exact plan, in the chunks of the cost model.
double seconds_in_turn(topology const& machine, collective kind, double bytes, double start) {
  auto const planned = make_plan(machine, {kind, {}, "exact"});
  auto options = bare();
  options.start_seconds = start;
  options.step_seconds = 2e-6;
  auto const chunks = predict(cost_of(machine, planned), bytes).chunk_bytes;
  return simulate(machine, planned, bytes, chunks, options).seconds - start;
}

TEST(simulated_order, errors_of_rounding_do_not_decide_it) {
  auto machine = machines::mesh(3, 3);
  machine.unit = "GB/s";
  for (auto& l : machine.links) l.capacity = 25;
  double const bytes = 64 << 20;
  auto const expected = seconds_in_turn(machine, collective::all_reduce, bytes, 0);
  for (double const start : {1e-6, 5e-6, 7e-6, 1e-5, 1e-4, 1e-3}) {
    EXPECT_NEAR(seconds_in_turn(machine, collective::all_reduce, bytes, start), expected,
                1e-8 * expected)
        << start;
  }
}

// Chunks with the longest way to the root go first, as those with the longest way from it do.
TEST(simulated_order, reduce_scatter_takes_as_long_as_all_gather_where_links_are_symmetric) {
  auto const machine = subset(machines::dgx1v(), {0, 1, 2, 3, 4, 6});
  for (double const bytes : {double(1 << 20), double(64 << 20)}) {
    auto const gather = seconds_in_turn(machine, collective::all_gather, bytes, 0);
    EXPECT_NEAR(seconds_in_turn(machine, collective::reduce_scatter, bytes, 0), gather,
                0.01 * gather)
        << bytes;
  }
}

// --- bounds and comparisons on random plans -----------------------------------------------------

/// The time of one chunk along the longest way through a tree, without any waiting.
double critical_path(topology const& machine, tree const& t, double bytes,
                     simulation_options const& options) {
  auto const links = detail::links_in_seconds(machine, "", giga);
  double total = 0;
  for (bool const up : {true, false}) {
    std::map<int, std::vector<tree_edge const*>> below;
    for (auto const& e : up ? t.reduce : t.broadcast) below[up ? e.to : e.from].push_back(&e);
    auto const longest = [&](auto const& self, int at) -> double {
      double most = 0;
      for (auto const* e : below[at]) {
        double rate = std::numeric_limits<double>::infinity(), latency = 0;
        for (std::size_t i = 0; i + 1 < e->path.size(); ++i) {
          auto const& link = links.at({e->path[i], e->path[i + 1]});
          rate = std::min(rate, link.bytes_per_second);
          latency += link.latency_seconds;
        }
        double const combining =
            up && options.reduce_bytes_per_second > 0 ? bytes / options.reduce_bytes_per_second : 0;
        most = std::max(most, options.step_seconds + bytes / rate + latency + combining +
                                  self(self, up ? e->from : e->to));
      }
      return most;
    };
    total += longest(longest, t.root);
  }
  return total;
}

TEST(simulated_bounds, load_and_critical_path_bound_every_run_from_below) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    auto const [machine, p] = make_random_plan(seed);
    for (auto const sharing : both_rules) {
      simulation_options options;
      options.sharing = sharing;
      options.window = seed % 5;
      options.noise = seed % 3 == 0 ? 0.2 : 0;
      options.reduce_bytes_per_second = seed % 2 == 0 ? 8e9 : 0;
      options.records_events = true;
      double const bytes = 1e4 * static_cast<double>(1 + seed * seed), chunk = bytes / 7.5;
      auto const result = simulate(machine, p, bytes, chunk, options);
      std::map<std::pair<int, int>, double> load;
      for (auto const& c : result.crossings) load[{c.link_from, c.link_to}] += c.bytes;
      auto const links = detail::links_in_seconds(machine, "", giga);
      for (auto const& [ends, amount] : load) {
        double const alone = amount / links.at(ends).bytes_per_second;
        EXPECT_GE(result.seconds * (1 + 1e-9), options.start_seconds + alone);
        EXPECT_GE(result.busy_seconds.at(ends) * (1 + 1e-9), alone);
        if (options.noise == 0) {
          EXPECT_NEAR(result.busy_seconds.at(ends), alone, 1e-9 * alone);
        }
      }
      for (auto const& t : p.trees) {
        double const part = bytes * ratio(t.weight, p.rate);
        double const first = part / std::ceil(part / chunk);
        EXPECT_GE(result.seconds * (1 + 1e-9),
                  options.start_seconds + critical_path(machine, t, first, options));
      }
    }
  }
}

TEST(simulated_bounds, fifo_links_carry_one_chunk_at_a_time_and_all_bytes) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    auto const [machine, p] = make_random_plan(seed);
    simulation_options options;
    options.records_events = true;
    auto const result = simulate(machine, p, 2e6, 1e5, options);
    std::map<std::pair<int, int>, std::vector<link_crossing>> of_link;
    for (auto const& c : result.crossings) of_link[{c.link_from, c.link_to}].push_back(c);
    for (auto const& [ends, crossings] : of_link) {
      double busy = 0;
      for (std::size_t i = 0; i < crossings.size(); ++i) {
        busy += crossings[i].end - crossings[i].begin;
        if (i > 0) {
          EXPECT_GE(crossings[i].begin, crossings[i - 1].end);
        }
      }
      EXPECT_NEAR(result.busy_seconds.at(ends), busy, 1e-9 * busy);
    }
  }
}

TEST(simulated_bounds, equal_arguments_give_equal_events_and_seeds_matter) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    auto const [machine, p] = make_random_plan(seed);
    for (auto const sharing : both_rules) {
      simulation_options options;
      options.sharing = sharing;
      options.noise = 0.5;
      options.seed = seed;
      options.reduce_bytes_per_second = 1e10;
      options.records_events = true;
      auto const one = simulate(machine, p, 1e6, 1e5, options);
      auto const two = simulate(machine, p, 1e6, 1e5, options);
      EXPECT_EQ(one.seconds, two.seconds);
      EXPECT_EQ(one.crossings, two.crossings);
      EXPECT_EQ(one.combinations, two.combinations);
      options.seed += 1;
      EXPECT_NE(simulate(machine, p, 1e6, 1e5, options).seconds, one.seconds);
    }
  }
}

/// On one tree whose edges share no links, nothing overtakes. So more work nowhere ends earlier.
TEST(simulated_bounds, more_work_never_ends_earlier_on_one_tree) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    auto [machine, p] =
        test::make_random_tree_plan(seed, 3 + static_cast<int>(seed % 8), true, true);
    simulation_options options;
    options.window = seed % 3;
    options.reduce_bytes_per_second = 2e10;
    options.combines_in_parallel = true;
    options.sharing = both_rules[seed % 2];
    auto const seconds = [&](simulation_options const& o, double bytes = 1e6) {
      return simulate(machine, p, bytes, bytes / 8, o).seconds;
    };
    double const before = seconds(options) * (1 - 1e-12);
    auto worse = options;
    worse.noise = 0.1;
    EXPECT_GE(seconds(worse), before);
    worse = options;
    worse.slow_ranks = {{static_cast<int>(seed % 3), 3, 1e-5}};
    EXPECT_GE(seconds(worse), before);
    worse = options;
    worse.link_changes = {{p.trees[0].reduce[0].from, p.trees[0].reduce[0].to, 2e-5, 0.5}};
    EXPECT_GE(seconds(worse), before);
    worse = options;
    worse.reduce_bytes_per_second /= 2;
    EXPECT_GE(seconds(worse), before);
    EXPECT_GE(seconds(options, 1.1e6), before);
    for (auto& l : machine.links) l.latency_seconds += 1e-6;
    EXPECT_GE(seconds(options), before);
  }
}

}}  // namespace simulation_options_test
