// SPDX-License-Identifier: Apache-2.0
// Kernels whose links are as slow as a schedule's: right results with links that blocks contend
// for, and the times of messages. Only arrivals of messages advance the clock, so nothing here
// depends on real time.

#include <blink/planning/plan/make_schedule.hpp>
#include <blink/planning/planners/plan_direct.hpp>
#include <blink/planning/planners/plan_ring.hpp>
#include <blink/reducers/arithmetic.hpp>
#include <blink/running/walk/choose_protocol.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/topology/machines.hpp>
#include <blink/topology/subset.hpp>
#include <blink/transports/cuda/calls/device_collectives.hpp>
#include <blink/transports/cuda/ranks/device_ranks.hpp>
#include <blink/transports/cuda/runtime/peer_memory.hpp>

#include "support/collective_case.hpp"
#include "support/device_case.hpp"
#include "support/device_process.hpp"
#include "support/device_replays.hpp"
#include "support/emulated_devices.hpp"
#include "support/expect_error.hpp"
#include "support/random_device_calls.hpp"
#include "support/random_schedules.hpp"
#include "support/timed_device.hpp"
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

// The sources of a folder may be compiled as one.
namespace shaped_device_test { namespace {

using blink::collective;
using blink_test::case_of;
using blink_test::device_case;
using blink_test::emulated_devices;
using blink_test::options_in_vectors;
using blink_test::timed_device;
using chunks = blink::fixed_protocol<blink::whole_chunks>;
template <class Transport>
using world_of = blink::basic_device_ranks<emulated_devices, Transport, chunks>;
using all_ranks = world_of<blink::shaped_peer_transport>;

blink::device_options timed_options() {
  blink::device_options options;
  options.slot_bytes = std::size_t{1} << 20;
  options.costs.latency_seconds = 0;
  return options;
}

/// The virtual time of a broadcast of `bytes` bytes.
std::uint64_t nanoseconds_of(blink::schedule const& source, std::size_t bytes,
                             blink::device_options const& options = timed_options()) {
  timed_device device(source, options);
  EXPECT_EQ((device.run<std::uint8_t>(case_of(collective::broadcast, bytes, 1), blink::sum{})), "");
  return device.nanoseconds();
}

/// From rank 0 to rank 1, over links of 1 and of 4 MB/s.
blink::schedule pair_over(std::vector<int> const& route) {
  auto source = blink::flat_schedule(2, 0);
  source.link_bytes_per_second = {1e6, 4e6};
  source.trees[0].broadcast_route = {{}, route};
  return source;
}

TEST(shaped_device, random_calls_are_exact) {
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    SCOPED_TRACE(seed);
    std::uint32_t const threads_each = seed % 5 == 0 ? 3 : 1;
    EXPECT_EQ((blink_test::random_device_calls<all_ranks, std::int32_t>(seed, threads_each,
                                                                        blink::avg{})),
              "");
  }
}

TEST(shaped_device, captured_calls_are_replayed_between_others) {
  emulated_devices machine({.devices = 1, .room = 4096});
  all_ranks all(machine, options_in_vectors({0, 0, 0, 0}));
  std::mt19937_64 random(1);
  auto const source = blink_test::with_random_routes(random, blink::ring_schedule(4));
  device_case<std::int32_t> first(case_of(collective::all_reduce, 1000, 1), source);
  device_case<std::int32_t> second(case_of(collective::all_gather, 77, 2), source);
  device_case<std::int32_t> outside(case_of(collective::all_reduce, 501, 3), source);
  EXPECT_EQ(replay_between(machine, all, {&first, &second}, outside, {machine.make_stream()}), "");
}

TEST(shaped_device, random_calls_in_virtual_time_are_exact_and_no_sooner_than_links_allow) {
  for (std::uint64_t seed = 0; seed < 55; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    int const ranks = 2 + blink_test::below(random, 5);
    auto const kind = static_cast<collective>(seed % blink::collective_names.size());
    auto const source =
        blink_test::with_random_routes(random, blink_test::random_schedule(random, ranks, kind));
    auto options = timed_options();
    options.window = 1 + static_cast<std::uint32_t>(random() % 4);
    options.slot_bytes = 16 + random() % 2000;
    timed_device device(source, options);
    for (int call = 0; call < 2; ++call) {
      auto const what = case_of(kind, random() % 700, seed);
      ASSERT_EQ((device.run<std::int32_t>(what, blink::avg{})), "");
      for (auto const least : device.least_nanoseconds()) EXPECT_GE(device.nanoseconds(), least);
    }
  }
}

TEST(shaped_device, a_message_takes_as_long_as_the_slowest_link_of_its_route) {
  EXPECT_EQ(nanoseconds_of(pair_over({0}), 20'000), 20'000'000U);
  EXPECT_EQ(nanoseconds_of(pair_over({1}), 20'000), 5'000'000U);
  EXPECT_EQ(nanoseconds_of(pair_over({1, 0}), 20'000), 20'000'000U);
  EXPECT_EQ(nanoseconds_of(pair_over({}), 20'000), 0U);
  EXPECT_EQ(nanoseconds_of(blink::flat_schedule(2, 0), 20'000), 0U);  // without rates
}

TEST(shaped_device, messages_over_one_link_take_turns_and_others_do_not) {
  auto source = pair_over({0});
  source.trees.push_back(source.trees[0]);  // each carries a half
  EXPECT_EQ(nanoseconds_of(source, 25'600), 25'600'000U);
  source.trees[1].broadcast_route = {{}, {1}};
  EXPECT_EQ(nanoseconds_of(source, 25'600), 12'800'000U);
  source.trees[0].broadcast_route = {{}, {0, 1}};  // reserves link 1, and is no later for it
  EXPECT_EQ(nanoseconds_of(source, 25'600), 12'800'000U);
  source.trees[0].broadcast_route = {{}, {1}};
  EXPECT_EQ(nanoseconds_of(source, 25'600), 6'400'000U);
  source.link_bytes_per_second = {2e6, 4e6};
  source.trees[0].broadcast_route = {{}, {1, 0}};
  source.trees[1].broadcast_route = {{}, {1}};
  source.trees[1].weight = 3;  // 6,400 bytes over both; 19,200 after them on the faster one
  EXPECT_EQ(nanoseconds_of(source, 25'600), 6'400'000U);
  // From one rank to two others: the link takes turns also if connections have different receivers.
  auto star = blink::flat_schedule(3, 0);
  star.link_bytes_per_second = {1e6, 1e6};
  star.trees[0].broadcast_route = {{}, {0}, {0}};
  EXPECT_EQ(nanoseconds_of(star, 10'000), 20'000'000U);
  star.trees[0].broadcast_route = {{}, {0}, {1}};
  EXPECT_EQ(nanoseconds_of(star, 10'000), 10'000'000U);
}

TEST(shaped_device, chunks_follow_each_other_as_far_as_the_window_lets_them) {
  auto source = blink::chain_schedule(3, 0);
  source.link_bytes_per_second = {1e6, 1e6};
  source.trees[0].broadcast_route = {{}, {0}, {1}};
  source.trees[0].chunk_bytes = 5'000;
  auto options = timed_options();
  EXPECT_EQ(nanoseconds_of(source, 20'000, options), 25'000'000U);  // 4 chunks, 2 steps
  options.costs.latency_seconds = 0.005;
  EXPECT_EQ(nanoseconds_of(source, 20'000, options), 35'000'000U);
  options.window = 1;  // a chunk arrives before the next one is sent
  EXPECT_EQ(nanoseconds_of(source, 20'000, options), 50'000'000U);
}

TEST(shaped_device, latency_is_of_each_message) {
  auto options = timed_options();
  options.costs.latency_seconds = 0.01;
  timed_device device(blink::chain_schedule(3, 0), options);
  for (int call = 0; call < 2; ++call) {
    EXPECT_EQ((device.run<int>(case_of(collective::all_reduce, 1, 1), blink::sum{})), "");
    EXPECT_EQ(device.nanoseconds(), 40'000'000U);  // two edges up, two down
  }
}

/// A clock that advances when a thread reads it, so that no time passes while no thread waits.
struct looked_at_clock {
  static inline std::atomic<std::uint64_t> looks = 0;
  [[nodiscard]] static std::uint64_t now() { return 10'000 * (1 + looks.fetch_add(1)); }
};

TEST(shaped_device, a_communicator_waits_for_links_and_latency) {
  emulated_devices machine({.devices = 1});
  auto options = options_in_vectors({0, 0});
  options.slot_bytes = 20'000;
  options.costs.latency_seconds = 0.005;
  world_of<blink::shaped_peer_transport_with<looked_at_clock>> all(machine, options);
  auto const before = looked_at_clock::now();
  device_case<std::uint8_t> now(case_of(collective::broadcast, 20'000, 1), pair_over({0}));
  now.enqueue(all, blink::sum{});
  all.wait();
  EXPECT_EQ(now.wrong(blink::sum{}), "");
  EXPECT_GE(looked_at_clock::now() - before, 25'000'000U);
}

// The state that a failed call has left on a link is cleared.
TEST(shaped_device, a_message_that_takes_longer_than_the_deadline_fails_the_call) {
  emulated_devices machine({.devices = 1});
  auto options = options_in_vectors({0, 0});
  options.slot_bytes = 100'000;
  options.deadline = std::chrono::milliseconds(1500);  // enough for busy machines
  all_ranks all(machine, options);
  auto source = pair_over({0});
  source.link_bytes_per_second[0] = 1e3;
  device_case<std::uint8_t> slow(case_of(collective::broadcast, 100'000, 1), source);
  slow.enqueue(all, blink::sum{});
  EXPECT_ERROR(all.wait(), "waits for rank 0 (device 0) to send it");
  all.recover();
  device_case<std::uint8_t> small(case_of(collective::broadcast, 10, 1), source);
  small.enqueue(all, blink::sum{});
  all.wait();
  EXPECT_EQ(small.wrong(blink::sum{}), "");
}

// The machine of the Blink paper's example: six of a DGX-1V's GPUs.
TEST(shaped_device, trees_beside_the_ring_are_as_predicted) {
  auto const machine = blink::subset(blink::machines::dgx1v(), {0, 1, 2, 3, 4, 5});
  constexpr std::size_t count = std::size_t{1} << 16;
  for (auto const kind : {collective::all_reduce, collective::broadcast}) {
    blink::plan_request request;
    request.collective = kind;
    // A thousandth of the rates, so that rounding of times to whole nanoseconds does not matter.
    auto const schedule_of = [&](blink::plan const& plan) {
      return blink::make_schedule(machine, plan, 1e6);
    };
    auto const rate_of = [&](blink::schedule const& source, double& predicted) {
      predicted = blink::predicted_bytes_per_second(source, kind);
      auto options = timed_options();
      options.slot_bytes = 512;  // many chunks, because the rate of a plan is for large buffers
      timed_device device(source, options);
      EXPECT_EQ((device.run<std::int32_t>(case_of(kind, count, 1), blink::sum{})), "");
      double const rate = static_cast<double>(count * sizeof(std::int32_t)) * 1e9 /
                          static_cast<double>(device.nanoseconds());
      EXPECT_LE(rate, 1.001 * predicted);  // shares of trees are rounded to lines
      EXPECT_GE(rate, 0.9 * predicted);
      return rate;
    };
    double trees_predicted = 0, ring_predicted = 0;
    double const trees =
        rate_of(schedule_of(blink::plan_direct(machine, request)), trees_predicted);
    double const ring = rate_of(schedule_of(blink::plan_ring(machine, request)), ring_predicted);
    double const predicted = trees_predicted / ring_predicted;
    if (kind == collective::all_reduce) {
      EXPECT_DOUBLE_EQ(trees_predicted, 62.5e6);
      EXPECT_DOUBLE_EQ(ring_predicted, 30e6);
    }
    EXPECT_NEAR(trees / ring / predicted, 1, 0.1) << blink::to_text(kind);
    std::string const name(blink::to_text(kind));
    RecordProperty(name + "_trees_over_promise", std::to_string(trees / trees_predicted));
    RecordProperty(name + "_ring_over_promise", std::to_string(ring / ring_predicted));
    RecordProperty(name + "_trees_over_ring", std::to_string(trees / ring));
  }
}

TEST(shaped_device, ranks_on_several_devices_are_refused) {
  emulated_devices machine({.devices = 2});
  EXPECT_ERROR(
      all_ranks(machine, options_in_vectors({0, 0, 1})),
      "shaped links expect all ranks on one device of one process, whose clock times their "
      "messages; rank 0 (device 0) and rank 2 (device 1) are not");
  EXPECT_EQ(machine.allocated_bytes(), 0U);
}

TEST(shaped_device, ranks_of_several_processes_are_refused_by_all) {
  blink_test::forked_ranks all(2);
  all.start([&](int process) {
    return blink_test::error_of([&] {
      blink_test::device_process<all_ranks> mine(all.path(), process, options_in_vectors({0}));
    });
  });
  for (auto const& end : all.finish()) {
    EXPECT_SAYS(end.text, "rank 0 (process 0, device 0) and rank 1 (process 1, device 0) are not");
  }
}

TEST(shaped_device, one_process_may_come_by_a_bootstrap) {
  blink_test::forked_ranks all(1);
  all.start([&](int process) {
    blink_test::device_process<all_ranks> mine(all.path(), process, options_in_vectors({0, 0, 0}));
    device_case<int> now(case_of(collective::all_reduce, 100, 1), blink::ring_schedule(3));
    now.enqueue(mine.all, blink::sum{});
    mine.all.wait();
    return now.wrong(blink::sum{});
  });
  for (auto const& end : all.finish()) EXPECT_EQ(end.text, "");
}

}}  // namespace shaped_device_test
