// SPDX-License-Identifier: Apache-2.0
// Plans for the machines of the Blink paper, run like kernels on emulated devices, one for each
// GPU. Neither trees nor chunks divide the counts. Each element is compared with a serial loop.

#include <blink/core/collective.hpp>
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/planning/plan/make_schedule.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/reducers/arithmetic.hpp>
#include <blink/running/walk/choose_protocol.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/topology/machines.hpp>
#include <blink/topology/subset.hpp>
#include <blink/transports/cuda/calls/device_collectives.hpp>
#include <blink/transports/cuda/ranks/device_ranks.hpp>
#include <blink/transports/cuda/runtime/peer_memory.hpp>

#include "support/collective_case.hpp"
#include "support/device_case.hpp"
#include "support/emulated_devices.hpp"
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

// The sources of a folder may be compiled as one.
namespace device_plans_test { namespace {

using blink::collective;
using blink_test::case_of;
using blink_test::device_case;
using blink_test::emulated_devices;
using blink_test::options_in_vectors;

// Buffers that peers reach, and slots; ranks with slots choose between chunks and packets by the
// size.
using reaching_thread_ranks =
    blink::basic_device_ranks<emulated_devices, blink::reaching_peer_transport,
                              blink::fixed_protocol<blink::whole_chunks>>;
using choosing_ranks = blink::basic_device_ranks<emulated_devices, blink::slot_peer_transport>;

constexpr collective that_reduce_or_copy[] = {collective::all_reduce, collective::broadcast,
                                              collective::reduce, collective::all_gather,
                                              collective::reduce_scatter};
constexpr collective that_only_move[] = {collective::gather, collective::scatter,
                                         collective::all_to_all};

/// The schedule of a plan that has passed its check.
blink::schedule planned(blink::topology const& machine, collective kind,
                        std::string const& planner) {
  blink::plan_request request;
  request.collective = kind;
  request.planner = planner;
  auto const plan = blink::make_plan(machine, request);
  EXPECT_EQ(blink::check_plan(machine, plan).fault.value_or(""), "");
  return blink::make_schedule(machine, plan);
}

/// Makes calls along the plan on a device for each rank, with room for `blocks` blocks on each. The
/// second call with the same buffers finds connections and slots in the state after the first.
template <class Ranks>
void expect_exact(blink::schedule const& plan, collective kind, std::uint32_t blocks) {
  SCOPED_TRACE(blink::to_text(kind));
  auto const ranks = static_cast<std::size_t>(plan.rank_count);
  emulated_devices machine({.devices = plan.rank_count, .room = 128 * blocks});
  std::vector<int> devices(ranks);
  std::iota(devices.begin(), devices.end(), 0);
  auto options = options_in_vectors(devices);
  options.threads = 128;
  options.protocols = blink_test::border_at(200);
  Ranks all(machine, options);
  auto const call = [&](std::size_t count, bool is_in_place, int repeats) {
    SCOPED_TRACE(count);
    device_case<std::int32_t> now(case_of(kind, count, count + 3, is_in_place), plan);
    for (int repeat = 0; repeat < repeats; ++repeat) {
      now.enqueue(all, blink::avg{});
      all.wait();
      EXPECT_EQ(now.wrong(blink::avg{}), "");
      now.forget();
    }
  };
  call(5, false, 1);     // fewer elements than trees or ranks
  call(1009, false, 2);  // a prime: the last parts and chunks are shorter
  call(1009, true, 1);
}

template <class Kinds>
void expect_exact(blink::topology const& machine, Kinds const& kinds, std::string const& planner,
                  std::uint32_t blocks = 16) {
  SCOPED_TRACE(machine.name + ", " + planner);
  for (auto const kind : kinds) {
    auto const plan = planned(machine, kind, planner);
    ASSERT_EQ(static_cast<std::size_t>(plan.rank_count), machine.rank_positions().size());
    expect_exact<reaching_thread_ranks>(plan, kind, blocks);
    expect_exact<choosing_ranks>(plan, kind, blocks);
  }
}

TEST(device_plans, eight_gpus_of_a_dgx1) {
  auto const machine = blink::machines::dgx1v();
  expect_exact(machine, that_reduce_or_copy, "exact");
  expect_exact(machine, that_only_move, "exact");
}

// As in the paper: multiplicative weights, then few trees.
TEST(device_plans, eight_gpus_of_a_dgx1_by_few_trees) {
  constexpr collective kinds[] = {collective::all_reduce, collective::broadcast};
  expect_exact(blink::machines::dgx1v(), kinds, "blink");
}

TEST(device_plans, six_gpus_of_a_dgx1) {
  auto const machine = blink::subset(blink::machines::dgx1v(), {0, 1, 2, 3, 4, 5});
  expect_exact(machine, that_reduce_or_copy, "exact");
  expect_exact(machine, that_only_move, "exact");
}

// GPUs without a ring of NVLinks through all of them, for which only trees work.
TEST(device_plans, gpus_without_a_ring) {
  auto const machine = blink::subset(blink::machines::dgx1v(), {1, 4, 5, 7});
  EXPECT_THROW((void)planned(machine, collective::all_reduce, "ring"), blink::planning_error);
  expect_exact(machine, that_reduce_or_copy, "exact");
  expect_exact(machine, that_only_move, "exact");
}

// A tree for each of sixteen ranks, over the switch: more tasks than blocks, so tasks share blocks.
TEST(device_plans, sixteen_gpus_of_a_dgx2) {
  auto const machine = blink::machines::dgx2();
  constexpr collective in_two_hops[] = {collective::all_reduce, collective::broadcast};
  expect_exact(machine, in_two_hops, "one_hop", 4);
  expect_exact(machine, that_reduce_or_copy, "exact", 4);
  expect_exact(machine, that_only_move, "exact", 4);
}

}}  // namespace device_plans_test
