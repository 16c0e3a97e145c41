// SPDX-License-Identifier: Apache-2.0
// Protocols of communicators of GPUs: packets, and communicators that choose between packets and
// chunks call by call. Devices are emulated; blocks are threads. Results are exact compared with a
// loop. Calls are captured and replayed, held up, aborted and recovered.

#include <blink/reducers/arithmetic.hpp>
#include <blink/reducers/epilogue.hpp>
#include <blink/reducers/order.hpp>
#include <blink/running/walk/choose_protocol.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/schedule/flow_schedules.hpp>
#include <blink/transports/cuda/calls/device_collectives.hpp>
#include <blink/transports/cuda/p2p/device_exchange.hpp>
#include <blink/transports/cuda/ranks/device_ranks.hpp>
#include <blink/transports/cuda/ranks/protocol_schedules.hpp>
#include <blink/transports/cuda/runtime/peer_memory.hpp>

#include "support/collective_case.hpp"
#include "support/device_case.hpp"
#include "support/device_replays.hpp"
#include "support/emulated_devices.hpp"
#include "support/expect_error.hpp"
#include "support/random_device_calls.hpp"
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

// The sources of a folder may be compiled as one.
namespace device_protocols_test { namespace {

using blink::collective;
using blink_test::border_at;
using blink_test::case_of;
using blink_test::device_case;
using blink_test::emulated_devices;
using blink_test::protocol_launches;
using blink_test::random_device_calls;

template <class Transport, class Protocols>
using world_of = blink::basic_device_ranks<emulated_devices, Transport, Protocols>;
using chunks = blink::fixed_protocol<blink::whole_chunks>;
using packets = blink::fixed_protocol<blink::small_packets>;
using model = blink::modelled_protocol;
using packet_thread_ranks = world_of<blink::slot_peer_transport, packets>;
using choosing_ranks = world_of<blink::reaching_peer_transport, model>;

blink::device_options options_of(std::vector<int> devices) {
  auto options = blink_test::options_in_vectors(std::move(devices));
  options.packet_slot_bytes = 256;
  return options;
}

template <class Transport>
class device_packets : public testing::Test {
 protected:
  /// Large slots if tasks share blocks, small ones if not.
  template <class T, class Reducer>
  void random_calls(std::uint64_t seed, std::uint32_t threads_each, Reducer const& reduce) {
    SCOPED_TRACE(seed);
    protocol_launches launches;
    auto const all_fits = [](auto& options) { options.packet_slot_bytes = 1 << 16; };
    EXPECT_EQ((random_device_calls<world_of<Transport, packets>, T>(seed, threads_each, reduce,
                                                                    all_fits, &launches)),
              "");
    EXPECT_EQ(launches.chunks, 0);
    EXPECT_GT(launches.packets, 0);
  }
};
using links = testing::Types<blink::reaching_peer_transport, blink::slot_peer_transport>;
TYPED_TEST_SUITE(device_packets, links);

TYPED_TEST(device_packets, random_calls_are_exact) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    this->template random_calls<std::int32_t>(seed, 1, blink::avg{});
    this->template random_calls<blink_test::triple>(seed + 50, 1, blink_test::triple_reducer{});
  }
}

TYPED_TEST(device_packets, blocks_of_three_threads_are_exact) {
  for (std::uint64_t seed = 100; seed < 102; ++seed) {
    this->template random_calls<std::int32_t>(seed, 3, blink::sum{});
    this->template random_calls<blink_test::triple>(seed + 50, 3, blink_test::triple_reducer{});
  }
}

template <class Transport>
class device_choices : public testing::Test {};
TYPED_TEST_SUITE(device_choices, links);

// Both protocols in turns, as the costs imply: in one communicator, along different schedules.
TYPED_TEST(device_choices, random_calls_are_exact) {
  protocol_launches launches;
  for (std::uint64_t seed = 200; seed < 205; ++seed) {
    SCOPED_TRACE(seed);
    auto const both = [&](auto& options) {
      options.slot_bytes += 500;  // few chunks, so that busy machines end them in time
      options.packet_slot_bytes = 100 + seed % 3 * 900;
      options.protocols = border_at(400);
    };
    std::uint32_t const threads = seed % 4 == 0 ? 3 : 1;
    EXPECT_EQ((random_device_calls<world_of<TypeParam, model>, std::int32_t>(
                  seed, threads, blink::avg{}, both, &launches)),
              "");
    EXPECT_EQ((random_device_calls<world_of<TypeParam, model>, blink_test::triple>(
                  seed + 50, threads, blink_test::triple_reducer{}, both, &launches)),
              "");
  }
  EXPECT_GT(launches.chunks, 10);
  EXPECT_GT(launches.packets, 10);
}

// One prepared schedule, whose connections of both protocols keep their state.
TYPED_TEST(device_choices, one_schedule_carries_both_around_the_border) {
  for (std::uint32_t const threads : {1U, 3U}) {
    emulated_devices machine({.devices = 2, .threads_each = threads});
    auto options = options_of({0, 0, 1});
    options.protocols = border_at(100 * sizeof(int));
    world_of<TypeParam, model> all(machine, options);
    auto const source = blink::chain_schedule(3, 1);
    for (std::size_t const count :
         std::array<std::size_t, 9>{99, 100, 1, 101, 0, 700, 99, 101, 4}) {
      SCOPED_TRACE(count);
      auto const packets_before = machine.packet_launches();
      for (auto const kind : {collective::all_reduce, collective::reduce}) {
        device_case<int> now(case_of(kind, count, count, count % 2 == 1), source);
        now.enqueue(all, blink::sum{});
        all.wait();
        EXPECT_EQ(now.wrong(blink::sum{}), "");
      }
      bool const took_packets = machine.packet_launches() > packets_before;
      EXPECT_EQ(took_packets, count < 100);
    }
    auto const edges = all.prepare(source).edges();
    ASSERT_EQ(edges.size(), 4U);
    std::size_t const elements = 99 + 100 + 1 + 101 + 700 + 99 + 101 + 4;
    for (auto const& edge : edges) {  // edges up of a leaf also carry what reduces
      EXPECT_EQ(edge.bytes, (edge.is_reduce ? 2 : 1) * elements * sizeof(int));
    }
  }
}

// A message that is longer than its window goes as chunks, whatever the costs.
TEST(device_choices, packets_have_to_fit_into_their_window) {
  emulated_devices machine({});
  auto options = options_of({0, 0});
  options.window = 2;
  options.protocols = border_at(1e9);
  choosing_ranks all(machine, options);
  std::size_t const room = 2 * 256 / 2 / sizeof(float);
  for (std::size_t const count : {room, room + 1}) {
    int const before = machine.packet_launches();
    device_case<float> now(case_of(collective::all_reduce, count, 1), blink::chain_schedule(2, 0));
    now.enqueue(all, blink::sum{});
    all.wait();
    EXPECT_EQ(now.wrong(blink::sum{}), "");
    EXPECT_EQ(machine.packet_launches() > before, count == room);
  }
}

TEST(device_choices, tasks_that_share_blocks_send_no_more_than_their_window) {
  emulated_devices machine({.room = 256});
  auto options = options_of({0, 0});
  options.window = 2;
  packet_thread_ranks all(machine, options);
  auto const call = [&](std::size_t count, blink::schedule const& source) {
    device_case<float> now(case_of(collective::all_reduce, count, 1), source);
    now.enqueue(all, blink::sum{});
    all.wait();
    return now.wrong(blink::sum{});
  };
  EXPECT_EQ(call(64, blink::chain_schedule(2, 0)), "");
  EXPECT_ERROR((void)call(65, blink::chain_schedule(2, 0)),
               "all_reduce: tree 0 carries 3 chunks of 32 elements as packets; tasks share blocks, "
               "so expected at most the window of 2");
  emulated_devices larger({});
  packet_thread_ranks alone(larger, options);  // a block for each task: any size
  device_case<float> now(case_of(collective::all_reduce, 5000, 1), blink::chain_schedule(2, 0));
  now.enqueue(alone, blink::sum{});
  alone.wait();
  EXPECT_EQ(now.wrong(blink::sum{}), "");
}

/// An element that does not fit into the registers of a thread.
struct large_element {
  std::array<int, 20> values{};
};
struct large_sum {
  large_element operator()(large_element a, large_element const& b) const {
    for (std::size_t k = 0; k < a.values.size(); ++k) a.values[k] += b.values[k];
    return a;
  }
};

TEST(device_choices, what_packets_do_not_carry_goes_as_chunks) {
  emulated_devices machine({});
  auto options = options_of({0, 0});
  options.protocols = border_at(1e9);
  choosing_ranks all(machine, options);
  std::vector<large_element> in(2), out(2);
  in[0].values[19] = 3;
  in[1].values[19] = 4;
  std::vector<blink::rank_buffers<large_element>> const buffers{{&in[0], &out[0], 1},
                                                                {&in[1], &out[1], 1}};
  blink::all_reduce(all, blink::chain_schedule(2, 0), buffers, large_sum{});
  all.wait();
  EXPECT_EQ(out[0].values[19], 7);
  EXPECT_EQ(out[1].values[19], 7);
  EXPECT_EQ(machine.packet_launches(), 0);
  // Reproducible for any length: the shares of the trees do not depend on the protocol.
  device_case<float> shape(case_of(collective::all_reduce, 20, 1), blink::ring_schedule(2));
  auto const reduce = blink::with_order<blink::order_promise::shape>(blink::sum{});
  shape.enqueue(all, reduce);
  all.wait();
  EXPECT_EQ(shape.wrong(reduce), "");
  EXPECT_EQ(machine.packet_launches(), 0);
}

// A fixed protocol of packets makes the same promise, in periods that fit into its slots.
TEST(device_choices, packets_keep_a_promised_order) {
  for (std::size_t const slot : {128U, 1000U}) {
    emulated_devices machine({});
    auto options = options_of({0, 0, 0});
    options.packet_slot_bytes = slot;
    packet_thread_ranks all(machine, options);
    auto const reduce = blink::with_order<blink::order_promise::shape>(blink::sum{});
    for (std::size_t const count : {7U, 900U}) {
      device_case<float> now(case_of(collective::all_reduce, count, 1), blink::ring_schedule(3));
      now.enqueue(all, reduce);
      all.wait();
      EXPECT_EQ(now.wrong(reduce), "");
    }
  }
}

// A communicator with one protocol allocates only what that protocol needs.
TEST(device_choices, memory_of_both_is_counted) {
  auto const bytes_of = [](auto const& make) {
    emulated_devices machine({.devices = 2});
    auto options = options_of({0, 0, 1, 1});
    options.slot_bytes = 1 << 14;
    options.packet_slot_bytes = 1 << 12;
    auto all = make(machine, options);
    (void)all->prepare(blink::chain_schedule(4, 0));
    std::size_t counted = 0;
    for (auto const& [device, use] : all->memory().held()) counted += use.total();
    EXPECT_EQ(counted, machine.allocated_bytes());
    return counted;
  };
  auto const with = [&]<class Protocols>(Protocols) {
    return bytes_of([](auto& machine, auto const& options) {
      return std::make_unique<world_of<blink::slot_peer_transport, Protocols>>(machine, options);
    });
  };
  std::size_t const only_chunks = with(chunks{});
  std::size_t const only_packets = with(packets{});
  std::size_t const both = with(model{});
  std::size_t const connections = 6, window = 4;
  EXPECT_EQ(only_chunks - only_packets, connections * window * ((1 << 14) - (1 << 12)));
  EXPECT_GT(both, only_chunks + connections * window * (1 << 12));
  EXPECT_LT(both, only_chunks + only_packets);  // abort flags are there once
}

// The protocol is chosen when a call is captured; positions of both kinds of connections are on
// devices.
TEST(device_choices, captured_calls_of_both_are_replayed_between_others) {
  emulated_devices machine({.devices = 2});
  auto options = options_of({0, 0, 1, 1});
  options.protocols = border_at(200);
  choosing_ranks all(machine, options);
  auto const source = blink::ring_schedule(4);
  device_case<int> small(case_of(collective::all_reduce, 100, 1), source);
  device_case<int> large(case_of(collective::all_reduce, 1000, 2), source);
  device_case<int> other(case_of(collective::all_gather, 10, 3), source);
  EXPECT_EQ(replay_between(machine, all, {&small, &large}, other,
                           {machine.make_stream(), machine.make_stream()}),
            "");
  EXPECT_GT(machine.packet_launches(), 0);
  EXPECT_GT(machine.chunk_launches(), 0);
}

std::string begun_anew(packet_thread_ranks& all, device_case<int>& now,
                       packet_thread_ranks::streams const& on) {
  all.recover();
  now.enqueue(all, blink::sum{}, on);
  all.wait(on);
  return now.wrong(blink::sum{});
}

// Also in a barrier, which has no elements: it waits for all ranks.
TEST(device_packets_faults, who_never_begins_is_named_and_the_ranks_begin_again) {
  for (std::uint32_t const threads : {1U, 3U}) {
    auto const kind = threads == 1 ? collective::all_reduce : collective::barrier;
    SCOPED_TRACE(testing::Message() << to_text(kind) << ", threads " << threads);
    emulated_devices machine({.devices = 2, .threads_each = threads});
    auto options = options_of({0, 0, 1});
    options.deadline = std::chrono::milliseconds(3000);  // enough for busy machines
    options.protocols = border_at(500);
    choosing_ranks all(machine, options);
    auto const source = blink::chain_schedule(3, 0);
    device_case<int> now(case_of(kind, kind == collective::barrier ? 0 : 100, 1), source);
    device_case<int> large(case_of(collective::all_reduce, 900, 1), source);
    auto const a = machine.make_stream();
    auto const b = machine.make_stream();
    now.enqueue(all, blink::sum{}, {a, b});  // calls before, so that counts are not all zero
    large.enqueue(all, blink::sum{}, {a, b});
    all.wait({a, b});
    now.forget();
    machine.hold_stream(1, b);
    now.enqueue(all, blink::sum{}, {a, b});
    machine.synchronize(0, a);
    EXPECT_TRUE(all.has_failed());
    auto const why = blink_test::error_of([&] { all.check(); });
    EXPECT_SAYS(why, "waits for rank 2 (device 1)");
    EXPECT_SAYS(why, "to send it, whose kernel has not begun");
    EXPECT_ERROR(large.enqueue(all, blink::sum{}, {a, b}), "has not begun");
    machine.release_stream(1, b);
    all.recover();
    for (int repeat = 0; repeat < 3; ++repeat) {  // also through slots that were used before
      now.forget();
      large.forget();
      now.enqueue(all, blink::sum{}, {a, b});
      large.enqueue(all, blink::sum{}, {a, b});
      all.wait({a, b});
      EXPECT_EQ(now.wrong(blink::sum{}), "");
      EXPECT_EQ(large.wrong(blink::sum{}), "");
    }
  }
}

// Waiting for a credit is reported differently from waiting for data.
TEST(device_packets_faults, who_does_not_take_is_named) {
  emulated_devices machine({.devices = 2});
  auto options = options_of({0, 1});
  options.deadline = std::chrono::milliseconds(3000);
  packet_thread_ranks all(machine, options);
  device_case<int> now(case_of(collective::broadcast, 1000, 1), blink::chain_schedule(2, 0));
  auto const a = machine.make_stream();
  auto const b = machine.make_stream();
  machine.hold_stream(1, b);
  now.enqueue(all, blink::sum{}, {a, b});
  machine.synchronize(0, a);
  EXPECT_ERROR(all.check(),
               "rank 0 (device 0), broadcast, tree 0, chunk 4 of 32: waits for rank 1 "
               "(device 1) to take it, whose kernel has not begun");
  machine.release_stream(1, b);
  EXPECT_EQ(begun_anew(all, now, {a, b}), "");
}

TEST(device_packets_faults, an_owner_may_abort) {
  emulated_devices machine({.devices = 2});
  packet_thread_ranks all(machine, options_of({0, 1}));
  device_case<int> now(case_of(collective::all_reduce, 20, 1), blink::star_schedule(2));
  auto const a = machine.make_stream();
  auto const b = machine.make_stream();
  machine.hold_stream(1, b);
  now.enqueue(all, blink::sum{}, {a, b});
  all.abort();
  machine.synchronize(0, a);  // ends long before the deadline of 30 seconds
  EXPECT_ERROR(all.check(), "aborted by its owner");
  machine.release_stream(1, b);
  EXPECT_EQ(begun_anew(all, now, {a, b}), "");
}

TEST(device_choices, bad_costs_are_refused) {
  emulated_devices machine({});
  auto options = options_of({0});
  options.protocols.bytes_per_second = 0;
  EXPECT_ERROR(choosing_ranks(machine, options),
               "bytes_per_second of protocols out of range, expected > 0");
  options = options_of({0});
  options.protocols.packet_seconds = -1;
  EXPECT_ERROR(choosing_ranks(machine, options),
               "seconds of protocols out of range, expected >= 0");
  options = options_of({0});
  options.packet_slot_bytes = 0;
  EXPECT_ERROR(choosing_ranks(machine, options), "packet_slot_bytes out of range, expected >= 1");
}

/// The threads of a group share the elements; each is doubled once.
struct doubling {
  template <class Group, class T>
  BLINK_HOST_DEVICE void operator()(Group const& group, T* results, std::uint64_t,
                                    std::size_t count) const {
    for (std::size_t k = group.thread_rank(); k < count; k += group.size()) results[k] *= 2;
  }
};

template <class Ranks>
void expect_doubled_sums(std::size_t count) {
  SCOPED_TRACE(count);
  constexpr int ranks = 3;
  emulated_devices machine({.devices = 2, .room = 4096, .threads_each = 3});
  auto options = options_of({0, 0, 1});
  options.slot_bytes = 512;
  Ranks all(machine, options);
  std::vector<std::vector<std::int32_t>> in, out(ranks, std::vector<std::int32_t>(count, -1));
  std::vector<blink::rank_buffers<std::int32_t>> buffers;
  for (int rank = 0; rank < ranks; ++rank) {
    in.emplace_back();
    for (std::size_t k = 0; k < count; ++k) {
      in.back().push_back(static_cast<std::int32_t>(k) + 100 * rank);
    }
    buffers.push_back({in.back().data(), out[static_cast<std::size_t>(rank)].data(), count});
  }
  auto const reduce = blink::with_epilogue(blink::sum{}, doubling{});
  for (auto const& source : {blink::star_schedule(ranks), blink::chain_schedule(ranks, 1)}) {
    for (auto& one : out) one.assign(count, -1);
    blink::all_reduce(all, source, buffers, reduce);
    all.wait();
    for (auto const& one : out) {
      for (std::size_t k = 0; k < count; ++k) {
        ASSERT_EQ(one[k], 2 * (3 * static_cast<std::int32_t>(k) + 300)) << k;
      }
    }
  }
}
TEST(device_choices, epilogues_see_every_result_once) {
  for (std::size_t const count : {1U, 77U, 3000U}) {
    expect_doubled_sums<packet_thread_ranks>(count);
    expect_doubled_sums<world_of<blink::slot_peer_transport, chunks>>(count);
    expect_doubled_sums<world_of<blink::slot_peer_transport, model>>(count);
  }
}

TEST(device_choices, exchanges_go_by_their_size) {
  emulated_devices machine({});
  auto options = options_of({0, 0});
  options.protocols = border_at(100);
  choosing_ranks all(machine, options);
  std::vector<char> out(300), in(300);
  for (std::size_t k = 0; k < out.size(); ++k) out[k] = static_cast<char>(k % 100);
  for (std::size_t const bytes : {40U, 300U}) {
    std::vector<blink::transfers> list(2);
    list[0].send(1, out.data(), bytes);
    list[1].receive(0, in.data(), bytes);
    blink::exchange(all, blink::all_to_all_schedule(2), list);
    all.wait();
    for (std::size_t k = 0; k < bytes; ++k) EXPECT_EQ(in[k], out[k]);
    EXPECT_GT(machine.packet_launches(), 0);
    EXPECT_EQ(machine.chunk_launches() > 0, bytes == 300);
  }
}

}}  // namespace device_protocols_test
