// SPDX-License-Identifier: Apache-2.0
// Combining, slow ranks, and links that degrade or fail. Checked by closed formulas, and by what
// depends on the slow part. Also the errors of options.
#include <blink/simulation/simulate.hpp>
#include <blink/topology/machines.hpp>

#include "support/expect_error.hpp"
#include "support/random_plans.hpp"
#include "support/small_machines.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

// Rooms may be compiled as one source.
namespace simulated_faults_test { namespace {

using namespace blink;

constexpr double giga = 1e9;
constexpr link_sharing both_rules[] = {link_sharing::fifo, link_sharing::fair};

simulation_options bare(link_sharing sharing = link_sharing::fifo) {
  return {.start_seconds = 0, .step_seconds = 0, .sharing = sharing};
}

/// n ranks in a row with links of 10 GB/s, and a reduce along them from the last to rank 0.
test::planned_machine reduce_along_a_line(int n) {
  test::planned_machine result{machines::line(n), {}};
  result.machine.unit = "GB/s";
  for (auto& l : result.machine.links) l.capacity = 10;
  result.plan = {collective::reduce, "by hand", "GB/s", "", {}, 10, 0, {}, {}};
  tree t{0, 10, {}, {}};
  for (int i = 0; i < n; ++i) result.plan.ranks.push_back(i);
  for (int i = 1; i < n; ++i) t.reduce.push_back({i, i - 1, {i, i - 1}});
  result.plan.trees.push_back(t);
  return result;
}

// --- combining ----------------------------------------------------------------------------------

TEST(simulated_combining, a_chain_is_a_pipeline_of_sending_and_combining) {
  auto const [machine, p] = reduce_along_a_line(5);
  for (auto const sharing : both_rules) {
    for (int const chunks : {1, 4, 30}) {
      for (double const rate : {40 * giga, 10 * giga, 4 * giga}) {
        auto options = bare(sharing);
        options.window = 0;
        options.reduce_bytes_per_second = rate;
        double const send = 1e6 / (10 * giga), combine = 1e6 / rate;
        double const expected = 4 * (send + combine) + (chunks - 1) * std::max(send, combine);
        EXPECT_NEAR(simulate(machine, p, 1e6 * chunks, 1e6, options).seconds, expected,
                    1e-9 * expected);
      }
    }
  }
}

TEST(simulated_combining, a_rank_combines_its_children_in_a_row_or_in_parallel) {
  auto const star = test::star_machine(5, 10);
  plan p{collective::reduce, "by hand", "GB/s", "", {0, 1, 2, 3, 4}, 1, 0, {}, {}};
  // Each child has a tree edge over its own link, which ends at the root: no port is shared.
  topology machine = star;
  machine.links.clear();
  tree t{0, 1, {}, {}};
  for (int i = 1; i < 5; ++i) {
    machine.links.push_back({i, 0, 10, 0, link_kind::nvlink});
    t.reduce.push_back({i, 0, {i, 0}});
  }
  p.trees.push_back(t);
  auto options = bare();
  options.reduce_bytes_per_second = 5 * giga;
  options.records_events = true;
  double const send = 1e6 / (10 * giga), combine = 1e6 / (5 * giga);
  auto const in_a_row = simulate(machine, p, 1e6, 1e6, options);
  EXPECT_NEAR(in_a_row.seconds, send + 4 * combine, 1e-12);
  ASSERT_EQ(in_a_row.combinations.size(), 4U);
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(in_a_row.combinations[i].begin, in_a_row.combinations[i - 1].end);
    EXPECT_EQ(in_a_row.combinations[i].rank, 0);
  }
  options.combines_in_parallel = true;
  EXPECT_NEAR(simulate(machine, p, 1e6, 1e6, options).seconds, send + combine, 1e-12);
  // Chunks of one edge follow each other all the same.
  EXPECT_NEAR(simulate(machine, p, 3e6, 1e6, options).seconds, send + 3 * combine, 1e-12);
}

TEST(simulated_combining, a_full_window_holds_senders_back_until_chunks_are_combined) {
  auto const [machine, p] = reduce_along_a_line(2);
  auto options = bare();
  options.window = 1;
  options.reduce_bytes_per_second = 5 * giga;
  double const send = 1e6 / (10 * giga), combine = 1e6 / (5 * giga);
  EXPECT_NEAR(simulate(machine, p, 8e6, 1e6, options).seconds, 8 * (send + combine), 1e-12);
}

/// Of a ring of N ranks, each tree uses each link once in each phase. All trees move in step.
TEST(simulated_combining, a_ring_takes_two_rounds_and_combines_in_one) {
  constexpr int n = 6;
  auto machine = machines::ring(n);
  machine.unit = "GB/s";
  for (auto& l : machine.links) l.capacity = 10;
  for (auto& l : machine.links) l.latency_seconds = 3e-6;
  plan p{collective::all_reduce, "by hand", "GB/s", "", {}, n, 0, {}, {}};
  for (int root = 0; root < n; ++root) {
    p.ranks.push_back(root);
    tree t{root, 1, {}, {}};
    for (int k = 1; k < n; ++k) {
      int const from = (root + k) % n, to = (root + k + 1) % n;
      t.reduce.push_back({from, to, {from, to}});
      int const parent = (root + k - 1) % n;
      t.broadcast.push_back({parent, from, {parent, from}});
    }
    p.trees.push_back(t);
  }
  for (auto const sharing : both_rules) {
    auto options = bare(sharing);
    options.step_seconds = 2e-6;
    options.reduce_bytes_per_second = 20 * giga;
    double const part = 1e6, hop = 2e-6 + part / (10 * giga) + 3e-6;
    double const expected = 2 * (n - 1) * hop + (n - 1) * part / (20 * giga);
    EXPECT_NEAR(simulate(machine, p, n * part, part, options).seconds, expected, 1e-12);
  }
}

TEST(simulated_combining, a_window_of_all_chunks_limits_nothing) {
  auto const [machine, p] = reduce_along_a_line(4);
  auto options = bare();
  options.reduce_bytes_per_second = 3 * giga;
  options.window = 0;
  double const unlimited = simulate(machine, p, 8e6, 1e6, options).seconds;
  for (std::size_t const window : {std::size_t{8}, std::numeric_limits<std::size_t>::max()}) {
    options.window = window;
    EXPECT_EQ(simulate(machine, p, 8e6, 1e6, options).seconds, unlimited) << window;
  }
}

// --- slow ranks ---------------------------------------------------------------------------------

/// ADAPT's observation: with no window and nothing shared, one slow rank delays the chunks that
/// depend on its own, and no others.
TEST(simulated_slow_rank, delays_only_what_depends_on_it) {
  int delayed = 0, on_time = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    bool const reduces = seed % 3 != 0, spreads = seed % 3 != 1;
    int const ranks = 4 + static_cast<int>(seed % 9);
    auto const [machine, p] = test::make_random_tree_plan(seed, ranks, reduces, spreads);
    int const slow = static_cast<int>(seed % static_cast<unsigned>(ranks));
    std::map<int, int> parent;
    for (auto const& e : p.trees[0].reduce) parent[e.from] = e.to;
    for (auto const& e : p.trees[0].broadcast) parent[e.to] = e.from;
    auto const is_below = [&](int rank, int above) {
      for (;; rank = parent.at(rank)) {
        if (rank == above) return true;
        if (rank == 0) return false;
      }
    };
    auto options = bare(both_rules[seed % 2]);
    options.window = 0;
    options.step_seconds = 2e-6;
    options.records_events = true;
    auto const before = simulate(machine, p, 1e6, 1e5, options);
    options.slow_ranks = {{slow, 4, 1e-3}};
    auto const after = simulate(machine, p, 1e6, 1e5, options);
    auto const key = [](link_crossing const& c) {
      return std::tuple(c.is_reduce, c.chunk, c.edge_from, c.edge_to);
    };
    std::map<decltype(key(before.crossings[0])), double> end;
    for (auto const& c : before.crossings) end[key(c)] = c.end;
    for (auto const& c : after.crossings) {
      // A chunk towards the root depends on the sender's subtree. A chunk away from it depends on
      // the way from the root, and on all ranks if they are combined there.
      bool const depends =
          c.is_reduce ? is_below(slow, c.edge_from) : reduces || is_below(c.edge_from, slow);
      if (depends) {
        EXPECT_GE(c.end, end.at(key(c)) * (1 - 1e-12));
        delayed += c.end > end.at(key(c)) + 1e-4;
      } else {
        EXPECT_NEAR(c.end, end.at(key(c)), 1e-12 * c.end) << c.edge_from << " -> " << c.edge_to;
        ++on_time;
      }
    }
  }
  EXPECT_GT(delayed, 500);
  EXPECT_GT(on_time, 500);
}

TEST(simulated_slow_rank, factor_and_delay_have_closed_forms_on_a_line) {
  auto const [machine, p] = reduce_along_a_line(4);
  auto options = bare();
  options.window = 0;
  options.step_seconds = 1e-6;
  options.reduce_bytes_per_second = 10 * giga;
  options.slow_ranks = {{2, 5, 0}};
  double const part = 1e6 / (10 * giga);
  // Rank 2 combines and steps five times as long, for one chunk.
  EXPECT_NEAR(simulate(machine, p, 1e6, 1e6, options).seconds, 3e-6 + 6 * part + 4 * part + 4e-6,
              1e-12);
  options.slow_ranks = {{3, 1, 7e-3}};  // the first in the row
  EXPECT_NEAR(simulate(machine, p, 1e6, 1e6, options).seconds, 7e-3 + 3e-6 + 6 * part, 1e-12);
}

// --- links --------------------------------------------------------------------------------------

TEST(simulated_link_change, a_rate_changes_while_a_chunk_is_on_the_link) {
  auto const [machine, p] = reduce_along_a_line(2);
  for (auto const sharing : both_rules) {
    auto options = bare(sharing);
    options.link_changes = {{1, 0, 40e-6, 0.5}, {1, 0, 100e-6, 2}};
    // 0.4 MB at full rate, 0.3 MB at half of it, 0.3 MB at twice of it
    auto const result = simulate(machine, p, 1e6, 1e6, options);
    EXPECT_NEAR(result.seconds, 100e-6 + 15e-6, 1e-12);
    // Each chunk of a quarter takes the same in total.
    EXPECT_NEAR(simulate(machine, p, 1e6, 2.5e5, options).seconds, 115e-6, 1e-12);
  }
}

TEST(simulated_link_change, a_failed_link_is_named_with_tree_chunk_and_time) {
  auto const [machine, p] = reduce_along_a_line(3);
  for (auto const sharing : both_rules) {
    auto options = bare(sharing);
    // Chunk k of ten is on link 1 -> 0 from (k + 1) 10 us on, for 10 us.
    options.link_changes = {{1, 0, 45e-6, 0}};
    auto const run = [&] { (void)simulate(machine, p, 1e6, 1e5, options); };
    EXPECT_ERROR(
        run(),
        "simulate: link 1 -> 0 has failed, and chunk 3 of tree 0 on edge 1 -> 0 is lost at "
        "45.000000 us, expected a plan without this link");
    try {
      run();
    } catch (link_failure const& lost) {
      EXPECT_EQ(std::pair(lost.from, lost.to), std::pair(1, 0));
      EXPECT_EQ(lost.tree, 0U);
      EXPECT_EQ(lost.chunk, 3U);
      EXPECT_NEAR(lost.seconds, 45e-6, 1e-15);
    }
    options.link_changes = {{1, 0, 111e-6, 0}};  // after the last chunk
    EXPECT_NEAR(simulate(machine, p, 1e6, 1e5, options).seconds, 110e-6, 1e-12);
    options.link_changes = {{0, 1, 0, 0}};  // the other direction, which the plan does not use
    EXPECT_NEAR(simulate(machine, p, 1e6, 1e5, options).seconds, 110e-6, 1e-12);
    options.link_changes = {{2, 1, 0, 0}};  // before the first chunk
    EXPECT_ERROR(run(), "chunk 0 of tree 0 on edge 2 -> 1 is lost at 0.000000 us");
  }
}

TEST(simulated_link_change, of_two_failures_the_earlier_one_is_reported) {
  auto const [machine, p] = reduce_along_a_line(4);
  for (auto const sharing : both_rules) {
    auto options = bare(sharing);
    options.link_changes = {{3, 2, 95e-6, 0}, {1, 0, 55e-6, 0}};
    EXPECT_ERROR((void)simulate(machine, p, 1e6, 1e5, options), "link 1 -> 0 has failed");
  }
}

// --- errors -------------------------------------------------------------------------------------

TEST(simulated_options, out_of_range_are_named) {
  auto const [machine, p] = reduce_along_a_line(3);
  double const nan = std::numeric_limits<double>::quiet_NaN();
  double const infinite = std::numeric_limits<double>::infinity();
  auto const error_with = [&](auto const& change) {
    simulation_options options;
    change(options);
    return blink_test::error_of([&] { (void)simulate(machine, p, 1e6, 1e5, options); });
  };
  using options_t = simulation_options;
  for (double const wrong : {nan, infinite, -1.0}) {
    EXPECT_SAYS(error_with([&](options_t& o) { o.start_seconds = wrong; }), "start_seconds is");
    EXPECT_SAYS(error_with([&](options_t& o) { o.step_seconds = wrong; }), "step_seconds is");
    EXPECT_SAYS(error_with([&](options_t& o) { o.bytes_per_unit = wrong; }), "bytes_per_unit is");
    EXPECT_SAYS(error_with([&](options_t& o) { o.noise = wrong; }), "noise is");
    EXPECT_SAYS(error_with([&](options_t& o) { o.reduce_bytes_per_second = wrong; }),
                "reduce_bytes_per_second is");
    EXPECT_SAYS(error_with([&](options_t& o) { o.slow_ranks = {{1, wrong, 0}}; }),
                "the factor of a slow rank is");
    EXPECT_SAYS(error_with([&](options_t& o) { o.slow_ranks = {{1, 1, wrong}}; }),
                "late_seconds is");
    EXPECT_SAYS(error_with([&](options_t& o) { o.link_changes = {{1, 0, wrong, 1}}; }),
                "the time of a link's change is");
    EXPECT_SAYS(error_with([&](options_t& o) { o.link_changes = {{1, 0, 0, wrong}}; }),
                "the factor of a link's change is");
  }
  EXPECT_SAYS(error_with([](options_t& o) { o.slow_ranks = {{1, 0.5, 0}}; }), "at least 1");
  EXPECT_SAYS(error_with([](options_t& o) { o.slow_ranks = {{7, 2, 0}}; }),
              "rank 7 is slow, expected a rank of the plan");
  EXPECT_SAYS(error_with([](options_t& o) { o.slow_ranks = {{1, 2, 0}, {1, 3, 0}}; }),
              "slow twice");
  EXPECT_SAYS(error_with([](options_t& o) { o.link_changes = {{0, 2, 0, 0.5}}; }),
              "link 0 -> 2 changes, expected a link that the plan may use");
  EXPECT_SAYS(error_with([](options_t& o) { o.link_changes = {{1, 0, 1, 0.5}, {1, 0, 1, 2}}; }),
              "link 1 -> 0 changes twice at 1.000000 s");
  EXPECT_SAYS(error_with([](options_t& o) { o.link_changes = {{1, 0, 1, 0}, {1, 0, 2, 1}}; }),
              "expected no change after it failed");
  EXPECT_SAYS(error_with([](options_t& o) { o.link_changes = {{1, 0, 0, 1e308}}; }),
              "the rate of a changed link is");
}

TEST(simulated_options, numbers_that_do_not_fit_are_refused) {
  auto const [machine, p] = reduce_along_a_line(3);
  double const nan = std::numeric_limits<double>::quiet_NaN();
  for (double const bytes : {nan, -1.0, 0x1p63, std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW((void)simulate(machine, p, bytes, 1e5), precondition_error) << bytes;
  }
  for (double const chunk : {nan, -1.0, 0.0}) {
    EXPECT_THROW((void)simulate(machine, p, 1e6, chunk), precondition_error) << chunk;
  }
  EXPECT_THROW((void)simulate(machine, p, 1e18, 1e-300), input_error);
  simulation_options slow;
  slow.bytes_per_unit = 1e-300;
  for (auto const sharing : both_rules) {
    slow.sharing = sharing;
    EXPECT_ERROR((void)simulate(machine, p, 1e18, 1e18, slow), "longer than any number of seconds");
    simulation_options noisy;
    noisy.sharing = sharing;
    noisy.noise = 1e308;
    noisy.step_seconds = 1e3;
    EXPECT_ERROR((void)simulate(machine, p, 1e6, 1e5, noisy), "longer than any number of seconds");
  }
  auto barrier = p;
  barrier.collective = collective::barrier;
  EXPECT_ERROR((void)simulate(machine, barrier, 1e6, 1e5), "a barrier");
}

TEST(simulated_options, no_bytes_and_one_rank_take_the_start_and_steps_alone) {
  auto const [machine, p] = reduce_along_a_line(3);
  EXPECT_NEAR(simulate(machine, p, 0, 1e5).seconds, 5e-6 + 2 * 2e-6, 1e-12);
  plan alone{collective::all_reduce, "by hand", "GB/s", "", {0}, 0, 0, {}, {}};
  auto const result = simulate(machine, alone, 1e6, 1e5);
  EXPECT_EQ(result.seconds, 5e-6);
  EXPECT_EQ(result.messages, 0);
}

}}  // namespace simulated_faults_test
