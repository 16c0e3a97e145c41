// SPDX-License-Identifier: Apache-2.0
// The host side of communicators of GPUs, on devices whose blocks are threads. Calls run along
// random schedules on one to three devices, and are captured and replayed, held up, refused,
// aborted and recovered.

#include <blink/reducers/arithmetic.hpp>
#include <blink/running/walk/choose_protocol.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/schedule/flow_schedules.hpp>
#include <blink/schedule/tuning_table.hpp>
#include <blink/transports/cuda/calls/device_collectives.hpp>
#include <blink/transports/cuda/ranks/device_ranks.hpp>
#include <blink/transports/cuda/runtime/peer_memory.hpp>

#include "support/collective_case.hpp"
#include "support/device_case.hpp"
#include "support/device_replays.hpp"
#include "support/emulated_devices.hpp"
#include "support/expect_error.hpp"
#include "support/random_device_calls.hpp"
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

// The sources of a folder may be compiled as one.
namespace device_ranks_test { namespace {

using blink_test::case_of;
using blink_test::device_case;
using blink_test::emulated_devices;
using blink_test::options_in_vectors;
using blink_test::random_device_calls;
// With chunks only. device_protocols_test.cpp tests packets, and communicators that choose.
using chunks = blink::fixed_protocol<blink::whole_chunks>;
using ranks = blink::basic_device_ranks<emulated_devices, blink::reaching_peer_transport, chunks>;
using slot_thread_ranks =
    blink::basic_device_ranks<emulated_devices, blink::slot_peer_transport, chunks>;

TEST(device_ranks, random_calls_are_exact) {
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    EXPECT_EQ((random_device_calls<ranks, std::int32_t>(seed, 1, blink::avg{})), "");
  }
}

TEST(device_ranks, random_calls_through_slots_are_exact) {
  for (std::uint64_t seed = 100; seed < 110; ++seed) {
    SCOPED_TRACE(seed);
    EXPECT_EQ((random_device_calls<slot_thread_ranks, blink_test::triple>(
                  seed, 1, blink_test::triple_reducer{})),
              "");
  }
}

TEST(device_ranks, blocks_of_three_threads_are_exact) {
  for (std::uint64_t seed = 200; seed < 204; ++seed) {
    SCOPED_TRACE(seed);
    EXPECT_EQ((random_device_calls<ranks, std::int32_t>(seed, 3, blink::avg{})), "");
  }
}

TEST(device_ranks, more_trees_than_an_argument_holds) {
  emulated_devices machine({.devices = 2, .room = 2048});
  ranks all(machine, options_in_vectors({0, 0, 0, 0, 1, 1, 1}));
  device_case<std::int32_t> now(case_of(blink::collective::all_to_all, 37, 5),
                                blink::all_to_all_schedule(7));
  for (int repeat = 0; repeat < 2; ++repeat) {
    now.enqueue(all, blink::sum{});
    all.wait();
    EXPECT_EQ(now.wrong(blink::sum{}), "");
    now.forget();
  }
}

TEST(device_ranks, captured_calls_are_replayed_between_others) {
  emulated_devices machine({.devices = 2, .room = 4096});
  ranks all(machine, options_in_vectors({0, 0, 1, 1}));
  auto const trees = blink::ring_schedule(4);
  device_case<std::int32_t> first(case_of(blink::collective::all_reduce, 1000, 1), trees);
  device_case<std::int32_t> second(case_of(blink::collective::all_gather, 77, 2), trees);
  device_case<std::int32_t> outside(case_of(blink::collective::all_reduce, 501, 3), trees);
  EXPECT_EQ(replay_between(machine, all, {&first, &second}, outside,
                           {machine.make_stream(), machine.make_stream()}),
            "");
}

TEST(device_ranks, streams_of_a_call_belong_to_one_graph) {
  emulated_devices machine({.devices = 2});
  ranks all(machine, options_in_vectors({0, 1}));
  device_case<int> now(case_of(blink::collective::all_reduce, 10, 1), blink::star_schedule(2));
  auto const a = machine.make_stream();
  auto const b = machine.make_stream();
  machine.begin_capture({a});
  EXPECT_ERROR(now.enqueue(all, blink::sum{}, {a, b}), "expected one graph for all or none");
}

// Two communicators on two devices, each of which has room for one kernel. Their streams begin in
// opposite order. Without the order of calls both would wait without end.
std::string two_communicators(bool keeps_order) {
  emulated_devices machine({.devices = 2, .room = 128 * 4, .keeps_order = keeps_order});
  auto options = options_in_vectors({0, 0, 1, 1});
  options.threads = 128;
  options.deadline = std::chrono::milliseconds(keeps_order ? 20000 : 300);
  ranks first(machine, options), second(machine, options);
  auto const trees = blink::chain_schedule(4, 0);
  device_case<int> one(case_of(blink::collective::all_reduce, 50, 1), trees);
  device_case<int> two(case_of(blink::collective::all_reduce, 60, 2), trees);
  std::vector<int> const a{machine.make_stream(), machine.make_stream()};
  std::vector<int> const b{machine.make_stream(), machine.make_stream()};
  machine.hold_stream(0, a[0]);
  machine.hold_stream(1, b[1]);
  one.enqueue(first, blink::sum{}, a);
  two.enqueue(second, blink::sum{}, b);
  // Without the order each device has begun another kernel.
  machine.wait_for_kernel(1);
  if (!keeps_order) machine.wait_for_kernel(0);
  machine.release_stream(0, a[0]);
  machine.release_stream(1, b[1]);
  try {
    first.wait(a);
    second.wait(b);
  } catch (blink::collective_error const& failure) {
    return failure.what();
  }
  return one.wrong(blink::sum{}) + two.wrong(blink::sum{});
}
TEST(device_ranks, communicators_take_turns) {
  EXPECT_EQ(two_communicators(true), "");
  EXPECT_NE(two_communicators(false).find("waits for"), std::string::npos)
      << "the test would not notice a missing order";
}

/// A communicator of two devices with a successful call, and then one that does not begin on the
/// second device.
struct held_ranks {
  explicit held_ranks(std::vector<int> const& devices)
      : all(machine, options(devices)),
        now(case_of(blink::collective::all_reduce, 100, 1),
            blink::chain_schedule(static_cast<int>(devices.size()), 0)) {
    expect_right();  // so that counts are not all zero
    now.forget();
    machine.hold_stream(1, on[1]);
    enqueue();
  }
  static blink::device_options options(std::vector<int> const& devices) {
    auto result = options_in_vectors(devices);
    result.deadline = std::chrono::milliseconds(1500);  // enough for busy machines
    return result;
  }
  void enqueue() { now.enqueue(all, blink::sum{}, on); }
  void expect_right() {
    enqueue();
    all.wait(on);
    EXPECT_EQ(now.wrong(blink::sum{}), "");
  }
  void expect_begins_anew() {
    machine.release_stream(1, on[1]);
    all.recover();
    now.forget();
    expect_right();
  }

  emulated_devices machine{{.devices = 2}};
  ranks all;
  device_case<int> now;
  std::vector<emulated_devices::stream> on{machine.make_stream(), machine.make_stream()};
};

TEST(device_ranks, who_never_begins_is_named_and_the_ranks_begin_again) {
  held_ranks held({0, 0, 1});
  held.machine.synchronize(0, held.on[0]);
  EXPECT_TRUE(held.all.has_failed());
  EXPECT_ERROR(
      held.all.check(),
      "waits for rank 2 (device 1) at tree 0, chunk 0 to send it, whose kernel has not begun");
  EXPECT_ERROR(held.enqueue(), "has not begun");
  held.expect_begins_anew();
}

TEST(device_ranks, a_wait_ends_though_a_stream_is_held_up) {
  held_ranks held({0, 1});
  std::string const who = "waits for rank 1 (device 1) to send it, whose kernel has not begun";
  EXPECT_ERROR(held.all.wait(held.on), who);
  EXPECT_ERROR(held.all.wait(held.on), who);
  EXPECT_ERROR(held.all.recover(),
               "recover: a call on device 1 has not ended: its stream is held up");
  EXPECT_ERROR(held.all.check(), who);  // nothing has changed
  EXPECT_FALSE(held.all.is_idle());
  held.expect_begins_anew();
  EXPECT_TRUE(held.all.is_idle());
}

// Other work in a stream may take longer than the deadline.
TEST(device_ranks, a_wait_without_a_failure_has_no_limit) {
  emulated_devices machine({.devices = 2});
  auto options = options_in_vectors({0, 1});
  options.deadline = std::chrono::milliseconds(50);
  ranks all(machine, options);
  auto const a = machine.make_stream();
  auto const b = machine.make_stream();
  bool is_done = false;
  machine.run_in_stream(1, b, [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    is_done = true;
  });
  all.wait({a, b});
  EXPECT_TRUE(is_done);
}

TEST(device_ranks, a_wait_for_a_captured_stream_is_refused) {
  emulated_devices machine({.devices = 1});
  ranks all(machine, options_in_vectors({0, 0}));
  auto const a = machine.make_stream();
  machine.begin_capture({a});
  EXPECT_ERROR(all.wait({a}), "wait: the stream of device 0 is being captured");
  (void)machine.end_capture({a});
  all.wait({a});
}

TEST(device_ranks, what_a_held_stream_may_use_outlives_the_ranks) {
  emulated_devices machine({.devices = 2});
  auto options = options_in_vectors({0, 1, 1});
  options.deadline = std::chrono::milliseconds(300);
  std::size_t before = 0;
  auto const a = machine.make_stream();
  auto const b = machine.make_stream();
  device_case<int> now(case_of(blink::collective::all_reduce, 3000, 1), blink::ring_schedule(3));
  {
    slot_thread_ranks all(machine, options);
    (void)all.prepare(blink::ring_schedule(3));
    before = machine.allocated_bytes();
    machine.hold_stream(1, b);
    now.enqueue(all, blink::sum{}, {a, b});
  }
  EXPECT_EQ(machine.allocated_bytes(), before);  // nothing was released
  machine.release_stream(1, b);
  machine.synchronize(0, a);
  machine.synchronize(1, b);  // the kernel begins now, finds the call ended, and ends
  EXPECT_NE(now.wrong(blink::sum{}), "");
  machine.release_kept_memory();
  // If streams end in time, nothing is kept.
  options.deadline = std::chrono::seconds(20);  // enough for busy machines
  {
    slot_thread_ranks all(machine, options);
    now.forget();
    now.enqueue(all, blink::sum{}, {machine.make_stream(), b});
  }
  EXPECT_EQ(now.wrong(blink::sum{}), "");
  EXPECT_EQ(machine.allocated_bytes(), 0U);
}

TEST(device_ranks, an_owner_may_abort) {
  emulated_devices machine({.devices = 2});
  ranks all(machine, options_in_vectors({0, 1}));
  device_case<int> now(case_of(blink::collective::all_reduce, 100, 1), blink::star_schedule(2));
  auto const a = machine.make_stream();
  auto const b = machine.make_stream();
  machine.hold_stream(1, b);
  now.enqueue(all, blink::sum{}, {a, b});
  all.abort();
  machine.synchronize(0, a);  // ends long before the deadline of 30 seconds
  EXPECT_ERROR(all.check(), "aborted by its owner");
  machine.release_stream(1, b);
  all.recover();
  now.enqueue(all, blink::sum{}, {a, b});
  all.wait({a, b});
  EXPECT_EQ(now.wrong(blink::sum{}), "");
}

TEST(device_ranks, a_launch_that_fails_ends_the_others) {
  emulated_devices machine({.devices = 2, .fails_launch_on = 1});
  ranks all(machine, options_in_vectors({0, 1}));
  device_case<int> now(case_of(blink::collective::all_reduce, 100, 1), blink::star_schedule(2));
  EXPECT_ERROR(now.enqueue(all, blink::sum{}), "launch failed");
  machine.synchronize(0);
  EXPECT_TRUE(all.has_failed());
}

TEST(device_ranks, bad_options_are_refused) {
  emulated_devices machine({.devices = 2, .blocks_launches = true, .unreachable = {{1, 0}}});
  EXPECT_ERROR(ranks(machine, options_in_vectors({})), "at least one rank");
  EXPECT_ERROR(ranks(machine, options_in_vectors({0, 2})),
               "rank 1 is on device 2, expected a number below 2");
  EXPECT_ERROR(ranks(machine, options_in_vectors(std::vector<int>(65, 0))),
               "65 ranks, expected at most 64");
  EXPECT_ERROR(ranks(machine, options_in_vectors({0, 1})), "CUDA_LAUNCH_BLOCKING");
  auto odd = options_in_vectors({0});
  odd.threads = 100;
  EXPECT_ERROR(ranks(machine, odd), "multiple of 32");
  emulated_devices apart({.devices = 2, .unreachable = {{1, 0}}});
  ranks all(apart, options_in_vectors({0, 1}));
  EXPECT_ERROR((void)all.prepare(blink::chain_schedule(2, 0)),
               "device 1 does not reach the memory of device 0");
}

// A task may wait for any other task, so tasks that cannot run at once would wait without end.
TEST(device_ranks, more_ranks_than_a_device_runs_blocks_are_refused) {
  emulated_devices machine({.devices = 2, .room = 256});  // two of the smallest blocks
  device_case<int> too_many(case_of(blink::collective::all_reduce, 100, 1),
                            blink::star_schedule(4));
  {
    ranks all(machine, options_in_vectors({1, 0, 0, 0}));
    for (int turn = 0; turn < 2; ++turn) {
      EXPECT_ERROR(too_many.enqueue(all, blink::sum{}),
                   "device 0 runs 2 blocks of 128 threads at once, and its 3 ranks need one each");
      EXPECT_FALSE(all.has_failed());
      all.wait();  // nothing was launched
    }
  }
  ranks all(machine, options_in_vectors({1, 0, 0, 1}));  // tasks of a rank take turns in a block
  device_case<int> enough(case_of(blink::collective::all_reduce, 100, 1), blink::star_schedule(4));
  enough.enqueue(all, blink::sum{});
  all.wait();
  EXPECT_EQ(enough.wrong(blink::sum{}), "");
}

TEST(device_ranks, memory_is_counted_before_it_is_allocated) {
  emulated_devices machine({.devices = 2});
  auto options = options_in_vectors({0, 0, 0, 1, 1, 1});
  options.slot_bytes = 1 << 16;
  options.memory_cap = 2 << 20;
  slot_thread_ranks all(machine, options);
  (void)all.prepare(blink::chain_schedule(6, 0));
  auto const before = machine.allocated_bytes();
  std::size_t counted = 0;
  for (auto const& [device, use] : all.memory().held()) counted += use.total();
  EXPECT_EQ(counted, before);
  EXPECT_ERROR((void)all.prepare(blink::star_schedule(6)), "memory_cap");
  EXPECT_EQ(machine.allocated_bytes(), before);
  std::size_t counted_then = 0;  // memory consumed for the first device was given back
  for (auto const& [device, use] : all.memory().held()) counted_then += use.total();
  EXPECT_EQ(counted_then, before);
  EXPECT_NE(to_text(all.memory()).find("device 1: "), std::string::npos);
}

TEST(device_ranks, memory_is_reported_before_it_is_allocated) {
  emulated_devices machine({.devices = 2});
  auto options = options_in_vectors({0, 1});
  std::vector<std::string> reported;
  bool is_enough = false;
  std::vector<std::size_t> held(2);
  options.on_memory = [&](std::string const& what) {
    if (is_enough) throw blink::resource_error("no more: " + what);
    EXPECT_EQ(machine.allocated_bytes(), held[0] + held[1]);  // not yet
    std::size_t const device = what.find("on device 0;") != std::string::npos ? 0 : 1;
    auto const begin = what.find(" holds ") + 7;
    held[device] = std::stoul(what.substr(begin));
    reported.push_back(what);
  };
  slot_thread_ranks all(machine, options);
  auto const reported_first = reported.size();
  (void)all.prepare(blink::chain_schedule(2, 0));
  EXPECT_EQ(reported.size(), reported_first + 2);
  EXPECT_SAYS(reported.back(), "the schedule takes ");
  EXPECT_SAYS(reported.back(), "of at most 1073741824 there");
  EXPECT_EQ(machine.allocated_bytes(), held[0] + held[1]);
  is_enough = true;
  EXPECT_ERROR((void)all.prepare(blink::star_schedule(2)), "no more: the schedule takes ");
  EXPECT_EQ(machine.allocated_bytes(), held[0] + held[1]);
}

TEST(device_ranks, bad_buffers_are_refused) {
  emulated_devices machine({.devices = 2});
  auto options = options_in_vectors({0, 0, 1});
  options.checks_places = true;
  ranks all(machine, options);
  std::vector<blink::device_allocation<emulated_devices>> memory;
  std::vector<blink::rank_buffers<float>> good;
  for (int const device : options.devices) {
    auto* const at = memory.emplace_back(machine, device, 256).get();
    good.push_back({reinterpret_cast<float*>(at), reinterpret_cast<float*>(at + 128), 20});
  }
  auto const trees = blink::star_schedule(3);
  auto const call = [&](auto const& change) {
    auto buffers = good;
    change(buffers);
    blink::all_reduce(all, trees, buffers, blink::sum{});
  };
  call([](auto&) {});
  EXPECT_ERROR(call([](auto& b) { b.pop_back(); }), "buffers of 2 ranks, expected 3");
  EXPECT_ERROR(call([](auto& b) { b[1].count = 21; }), "rank 0 has count 20, rank 1 has 21");
  EXPECT_ERROR(call([](auto& b) { b[2].input = nullptr; }), "on rank 2: the input is null");
  EXPECT_ERROR(call([](auto& b) { b[1].output = b[0].output + 1; }),
               "the output of rank 1 begins inside the output of rank 0");
  EXPECT_ERROR(call([](auto& b) { b[1].output = const_cast<float*>(b[1].input) + 1; }),
               "overlap and are not in place");
  EXPECT_ERROR(call([](auto& b) { std::swap(b[1].input, b[2].input); }),
               "on rank 1: the input is memory of device 1, expected memory of device 0");
  std::vector<float> ordinary(20);
  EXPECT_ERROR(call([&](auto& b) { b[2].output = ordinary.data(); }),
               "on rank 2: the output is memory of the host, expected memory of device 1");
  EXPECT_ERROR(call([](auto& b) {
                 b[0].input = reinterpret_cast<float const*>(
                     reinterpret_cast<std::uintptr_t>(b[0].input) + 2);
               }),
               "on rank 0: the input lies 2 bytes behind a multiple of 4");
  EXPECT_ERROR(blink::all_reduce(all, trees, good, blink::sum{}, {1}),
               "1 streams, expected one for each of 2 devices");
  EXPECT_ERROR(blink::broadcast(all, trees, good), "broadcast: tree 1");
  all.wait();
}

// Direct reads in one step for small buffers, a ring for large ones.
TEST(device_ranks, tables_say_which_schedule_for_which_size) {
  emulated_devices machine({.devices = 2});
  ranks all(machine, options_in_vectors({0, 1, 1}));
  blink::tuning_table const table{
      blink::collective::all_reduce,
      {{"one-shot", blink::one_shot_schedule(3)}, {"ring", blink::ring_schedule(3)}},
      {{0, 0, 0}, {100, 1, 64}}};
  blink::device_tuning<ranks> const algorithms(all, table);
  auto const carried = [&](std::size_t algorithm) {
    std::uint64_t bytes = 0;
    for (auto const& edge : all.prepare(table.algorithms[algorithm].source).edges())
      bytes += edge.bytes;
    return bytes;
  };
  for (std::size_t const count : {24U, 25U, 300U}) {
    auto const before = carried(0);
    device_case<int> now(case_of(blink::collective::all_reduce, count, 1), blink::star_schedule(3));
    blink::all_reduce(all, algorithms, now.buffers(), blink::sum{});
    all.wait();
    EXPECT_EQ(now.wrong(blink::sum{}), "");
    EXPECT_EQ(carried(0) > before, count * sizeof(int) < 100);
  }
  EXPECT_GT(carried(1), 0U);
  std::vector<blink::rank_buffers<int>> const none(3);
  EXPECT_ERROR(blink::broadcast(all, algorithms, none), "tuning: no table for broadcast");
}

TEST(device_ranks, edges_report_what_they_carried) {
  emulated_devices machine({.devices = 2});
  ranks all(machine, options_in_vectors({0, 1, 1}));
  auto& prepared = all.prepare(blink::chain_schedule(3, 0));
  device_case<int> now(case_of(blink::collective::all_reduce, 1000, 1),
                       prepared.prepared().source());
  now.enqueue(all, blink::sum{});
  all.wait();
  auto const edges = prepared.edges();
  ASSERT_EQ(edges.size(), 4U);
  for (auto const& edge : edges) EXPECT_EQ(edge.bytes, 4000U);
}

TEST(plan_blocks, tasks_get_blocks_of_their_own_if_there_is_room) {
  auto const room = [](std::uint32_t threads_in_all) {
    return [=](int, std::uint32_t threads) { return threads_in_all / threads; };
  };
  std::vector<blink::device_tasks> const two{{0, {4, 4}}, {1, {3}}};
  auto const wide = blink::plan_blocks(two, {512, 256, 128}, room(4096));
  EXPECT_EQ(wide.threads, 512U);
  EXPECT_EQ(wide.blocks, (std::vector<std::uint32_t>{8, 3}));
  auto const narrow = blink::plan_blocks(two, {512, 256, 128}, room(1024));
  EXPECT_EQ(narrow.threads, 128U);
  EXPECT_EQ(narrow.tasks_per_block, 1U);
  auto const shared = blink::plan_blocks(two, {512, 256, 128}, room(600));
  EXPECT_EQ(shared.threads, 128U);
  EXPECT_EQ(shared.tasks_per_block, 2U);
  EXPECT_EQ(shared.blocks, (std::vector<std::uint32_t>{4, 2}));
  EXPECT_ERROR((void)blink::plan_blocks(two, {512, 256, 128}, room(200)),
               "device 0 runs 1 blocks of 128 threads at once, and its 2 ranks need one each");
}

TEST(plan_blocks, tasks_that_only_wait_share_a_block_as_long_as_ranks_have_two) {
  auto const room = [](std::uint32_t blocks) { return [=](int, std::uint32_t) { return blocks; }; };
  std::vector<blink::device_tasks> const two{{0, {9, 4}, {8, 4}}, {1, {3}, {0}}};
  auto const plan = blink::plan_blocks(two, {128}, room(4));
  EXPECT_TRUE(plan.waits_apart);
  EXPECT_EQ(plan.tasks_per_block, 1U);
  EXPECT_EQ(plan.blocks, (std::vector<std::uint32_t>{3, 3}));
  // Tasks that move data come first to more blocks.
  EXPECT_EQ(blink::plan_blocks(two, {128}, room(3)).tasks_per_block, 1U);
  auto const tight = blink::plan_blocks(two, {128}, room(2));
  EXPECT_FALSE(tight.waits_apart);
  EXPECT_EQ(tight.tasks_per_block, 9U);
  EXPECT_EQ(tight.blocks, (std::vector<std::uint32_t>{2, 1}));
}

TEST(moves_data, is_false_for_tasks_whose_peers_do_the_work) {
  blink::tree_task here;
  blink::endpoint in, out;
  here.in = &in;
  here.out = &out;
  // A root whose input its peer reads; it has nothing to write.
  here.out_count = 1;
  out.sender_is_source = true;
  EXPECT_FALSE(blink::detail::moves_data(here, true, false));
  EXPECT_TRUE(blink::detail::moves_data(here, false, false));
  here.writes_output = true;
  EXPECT_TRUE(blink::detail::moves_data(here, true, false));
  // A rank whose output the root writes, and one that reads it from its peer.
  here.out_count = 0;
  here.in_count = 1;
  in.sender_is_source = in.receiver_keeps = true;
  EXPECT_FALSE(blink::detail::moves_data(here, true, true));
  EXPECT_TRUE(blink::detail::moves_data(here, true, false));
  // The same rank passes data on.
  here.out_count = 1;
  out = {};
  out.sender_keeps = true;
  EXPECT_TRUE(blink::detail::moves_data(here, true, true));
}

TEST(device_stall, follows_who_waits_for_whom) {
  using state = blink::device_rank_state;
  blink::stall on_one, on_two, back;
  on_one.peer = 1;
  on_one.tree = 3;
  on_one.chunk = 7;
  on_one.chunks = 9;
  on_two.peer = 2;
  on_two.sends = true;
  back.peer = 0;
  std::vector<state> const chain{{true, true, on_one}, {true, false, on_two}, {true, false, {}}};
  blink::rank_placement const placement({0, 1, 2});
  auto const cause = blink::describe_device_stall(placement, "reduce", chain, 0.5);
  EXPECT_EQ(cause.rank, 0);
  EXPECT_EQ(cause.peer, 2);
  EXPECT_EQ(cause.tree, 3);
  EXPECT_EQ(cause.chunk, 7);
  EXPECT_NE(std::string(cause.what()).find("which waits for rank 2 (device 2)"), std::string::npos);
  EXPECT_NE(std::string(cause.what()).find("makes no progress"), std::string::npos);
  auto circle = chain;
  circle[2].where = back;
  EXPECT_EQ(blink::describe_device_stall(placement, "reduce", circle, 0.5).peer, 0);
}

}}  // namespace device_ranks_test
