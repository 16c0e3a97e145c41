// SPDX-License-Identifier: Apache-2.0
// Plans with unequal shares, run. Every link carries the planned load if segments are in proportion
// to the shares, and results are exact for segments of any size.

#include <blink/collectives/all_gather_v.hpp>
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/planning/plan/make_schedule.hpp>
#include <blink/schedule/block.hpp>
#include <blink/schedule/schedule_blocks.hpp>
#include <blink/transports/host/slots.hpp>
#include <blink/transports/host/threads.hpp>

#include "support/random_machines.hpp"
#include "support/small_machines.hpp"
#include "support/unequal_case.hpp"
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

// Rooms may be compiled as one source.
namespace run_shares_test { namespace {

using blink::collective;
using blink::rational;
using blink_test::run_unequal;
using blink_test::unequal_case;

/// The plan for shares by rank, with so many trees a root; 0: any number.
blink::plan planned_shares(blink::topology const& machine, collective kind,
                           std::vector<std::int64_t> const& shares, int trees_per_root = 0) {
  blink::plan_request request{kind};
  for (std::size_t i = 0; i < shares.size(); ++i) {
    auto const at = static_cast<std::size_t>(machine.rank_positions()[i]);
    request.constraints.shares[machine.nodes[at].id] = shares[i];
  }
  if (trees_per_root > 0) request.constraints.trees_per_root = trees_per_root;
  return blink::make_plan(machine, request);
}

/// The load of each link in the plan, by node ids.
std::map<std::pair<int, int>, rational> loads_of(blink::plan const& planned) {
  std::map<std::pair<int, int>, rational> result;
  for (auto const& t : planned.trees) {
    for (auto const* phase : {&t.reduce, &t.broadcast}) {
      for (auto const& edge : *phase) {
        for (std::size_t i = 0; i + 1 < edge.path.size(); ++i) {
          result[{edge.path[i], edge.path[i + 1]}] += t.weight;
        }
      }
    }
  }
  return result;
}

/// Blocks whose parts are whole lines for each tree; empty if that takes much memory.
std::vector<std::size_t> exact_counts(blink::schedule const& plan, std::size_t lines) {
  std::vector<std::size_t> result(static_cast<std::size_t>(plan.rank_count), 0);
  for (auto const& tree : plan.trees) {
    auto const root = static_cast<std::size_t>(tree.root);
    constexpr std::size_t line = blink::part_alignment_bytes / sizeof(std::int32_t);
    if (plan.shares[root] > 0) result[root] += static_cast<std::size_t>(tree.weight) * line * lines;
  }
  return std::accumulate(result.begin(), result.end(), std::size_t{0}) < 400'000
             ? result
             : std::vector<std::size_t>{};
}

/// Measures a run with blocks in proportion to the shares. Returns whether it did.
template <class Ranks>
bool expect_planned_loads(blink::topology const& machine, blink::plan const& planned,
                          std::uint64_t seed) {
  auto const plan = blink::make_schedule(machine, planned, 1e9);
  auto const counts = exact_counts(plan, 1 + seed % 2);
  if (counts.empty()) return false;
  for (std::size_t rank = 1; rank < counts.size(); ++rank) {
    EXPECT_EQ(counts[0] * plan.shares[rank], counts[rank] * plan.shares[0]);
  }
  Ranks all_threads(plan.rank_count);
  unequal_case const what{planned.collective, blink::consecutive_blocks(counts), seed % 3 == 0, 0,
                          seed};
  EXPECT_EQ(blink::proportional_blocks(what.end(), plan.shares), what.blocks);
  EXPECT_EQ(run_unequal<std::int32_t>(all_threads, plan, what, blink::sum{}), "");

  auto& prepared = all_threads.prepare(plan);
  bool const reduces = planned.collective == collective::reduce_scatter;
  for (auto const& edge : prepared.edges()) {
    auto const& tree = plan.trees[static_cast<std::size_t>(edge.tree)];
    bool const has_data = plan.shares[static_cast<std::size_t>(tree.root)] > 0;
    EXPECT_EQ(edge.is_reduce, reduces);
    EXPECT_EQ(edge.bytes,
              has_data ? tree.weight * blink::part_alignment_bytes * (1 + seed % 2) : 0);
  }
  // Links are numbered as the machine lists them.
  auto const loads = loads_of(planned);
  auto const carried = prepared.link_bytes();
  auto const bytes = static_cast<std::int64_t>(what.end() * sizeof(std::int32_t));
  std::map<std::pair<int, int>, std::size_t> number;
  for (auto const& each : machine.links) {
    number.emplace(std::pair(machine.nodes[static_cast<std::size_t>(each.tail)].id,
                             machine.nodes[static_cast<std::size_t>(each.head)].id),
                   number.size());
  }
  EXPECT_EQ(number.size(), carried.size());
  for (auto const& [ends, at] : number) {
    auto const found = loads.find(ends);
    rational const load = found == loads.end() ? rational(0) : found->second;
    EXPECT_EQ(rational(static_cast<std::int64_t>(carried[at])) * planned.rate, load * bytes)
        << ends.first << " -> " << ends.second;
  }
  double const promised = planned.rate.to_double() * 1e9;
  EXPECT_NEAR(predicted_bytes_per_second(plan, planned.collective) / promised, 1, 1e-9);
  return true;
}

/// Blocks of any sizes, also of ranks with the share 0.
template <class Ranks>
void expect_exact(blink::topology const& machine, blink::plan const& planned, std::uint64_t seed) {
  auto const plan = blink::make_schedule(machine, planned, 1e9);
  std::mt19937_64 random(seed);
  Ranks all_threads(plan.rank_count);
  for (int call = 0; call < 3; ++call) {
    unequal_case const what{planned.collective,
                            blink_test::random_blocks(random, plan.rank_count, 3000),
                            random() % 2 == 0, random() % 3, random()};
    EXPECT_EQ(run_unequal<std::int32_t>(all_threads, plan, what, blink::sum{}), "");
  }
}

/// By rank; at least one is not 0, and they are not all equal.
std::vector<std::int64_t> random_shares(std::mt19937_64& random, std::size_t ranks) {
  std::vector<std::int64_t> result(ranks, 0);
  for (auto& share : result) {
    share = random() % 4 == 0 ? 0 : 1 + static_cast<std::int64_t>(random() % 5);
  }
  auto const whose = random() % ranks;
  result[whose] = 1 + result[(whose + 1) % ranks];
  return result;
}

TEST(run_shares, random_plans_load_links_as_promised) {
  int measured = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    unsigned const ranks = 2 + static_cast<unsigned>(seed % 5);
    auto const machine = blink::test::make_random_machine(static_cast<unsigned>(seed), ranks,
                                                          static_cast<unsigned>(seed % 3), 10);
    blink::plan_request request;
    request.collective = seed % 2 == 0 ? collective::all_gather : collective::reduce_scatter;
    auto const planned = planned_shares(machine, request.collective, random_shares(random, ranks));
    ASSERT_EQ(blink::check_plan(machine, planned).fault.value_or("sound"), "sound");
    ASSERT_FALSE(planned.shares.empty());
    measured += expect_planned_loads<blink::thread_ranks>(machine, planned, seed) ? 1 : 0;
    (void)expect_planned_loads<blink::basic_thread_ranks<blink::slot_transport>>(machine, planned,
                                                                                 seed);
    expect_exact<blink::basic_thread_ranks<blink::slot_transport>>(machine, planned, seed);
  }
  EXPECT_GT(measured, 20);
}

// Six of a DGX-1V's GPUs, as users plan them.
TEST(run_shares, a_dgx1v) {
  auto const machine = blink::test::direct_machine(blink::test::dgx1v_matrix(25));
  for (auto const kind : {collective::all_gather, collective::reduce_scatter}) {
    auto const planned = planned_shares(machine, kind, {4, 1, 2, 1, 0, 3, 1, 2});
    EXPECT_TRUE(expect_planned_loads<blink::thread_ranks>(machine, planned, 1));
    expect_exact<blink::thread_ranks>(machine, planned, 2);
    auto const few = planned_shares(machine, kind, {4, 1, 2, 1, 0, 3, 1, 2}, 1);
    expect_exact<blink::thread_ranks>(machine, few, 3);
  }
}

// A rank with the share 0 gets a tree without forbidden links, over forwarding ranks.
TEST(run_shares, ranks_without_a_share_get_a_tree) {
  auto const machine =
      blink::test::direct_machine({{0, 2, 0, 2}, {2, 0, 1, 2}, {0, 1, 0, 1}, {2, 2, 1, 0}});
  for (auto const kind : {collective::all_gather, collective::reduce_scatter}) {
    blink::plan_request request;
    request.collective = kind;
    auto& options = request.constraints;
    options.shares = {{0, 3}, {1, 0}, {3, 2}};
    options.forwarding_ranks = {2};
    options.forbidden_links = {{1, 0}, {0, 1}};
    auto const planned = blink::make_plan(machine, request);
    ASSERT_EQ(planned.ranks, (std::vector<int>{0, 1, 3}));
    auto const plan = blink::make_schedule(machine, planned, 1e9);
    ASSERT_EQ(plan.trees.size(), planned.trees.size() + 1);
    auto const& added = plan.trees.back();
    auto const& parents =
        kind == collective::all_gather ? added.broadcast_parent : added.reduce_parent;
    EXPECT_EQ(added.root, 1);
    EXPECT_EQ(parents, (std::vector<int>{2, -1, 1}));  // 1 -> 3 -> 0: 0 is not reached otherwise
    expect_exact<blink::thread_ranks>(machine, planned, 5);
  }
}

// Rank 2 only receives, so that nothing can be gathered from it. The error comes before any rank
// enters the call.
TEST(run_shares, who_cannot_send_has_no_elements) {
  auto const machine = blink::test::direct_machine({{0, 2, 1}, {2, 0, 1}, {0, 0, 0}});
  blink::plan_request request;
  request.collective = collective::all_gather;
  auto const planned = planned_shares(machine, request.collective, {2, 1, 0});
  EXPECT_TRUE(expect_planned_loads<blink::thread_ranks>(machine, planned, 4));
  auto const plan = blink::make_schedule(machine, planned, 1e9);
  EXPECT_EQ(plan.trees.size(), planned.trees.size());
  blink::thread_ranks all_threads(3);
  all_threads.run([&](auto& comm) {
    std::vector<int> const in(4, 1);
    std::vector<int> out(12);
    EXPECT_THROW(blink::all_gather_v(comm, plan, in.data(), out.data(),
                                     blink::consecutive_blocks({4, 4, 4})),
                 blink::precondition_error);
  });
}

}}  // namespace run_shares_test
