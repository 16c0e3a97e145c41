// SPDX-License-Identifier: Apache-2.0
// Collectives called from within kernels, on devices whose blocks are threads: random calls in
// several channels. Kernels are captured, refused and aborted, make too few calls, or call what
// other ranks do not.

#include <blink/reducers/arithmetic.hpp>
#include <blink/reducers/order.hpp>
#include <blink/running/walk/choose_protocol.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/schedule/flow_schedules.hpp>
#include <blink/transports/cuda/calls/device_collectives.hpp>
#include <blink/transports/cuda/ranks/device_ranks.hpp>
#include <blink/transports/cuda/ranks/protocol_schedules.hpp>
#include <blink/transports/cuda/runtime/peer_memory.hpp>

#include "support/channel_case.hpp"
#include "support/collective_case.hpp"
#include "support/device_case.hpp"
#include "support/device_process.hpp"
#include "support/emulated_devices.hpp"
#include "support/expect_error.hpp"
#include "support/random_schedules.hpp"
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

// The sources of a folder may be compiled as one.
namespace device_channels_test { namespace {

using blink_test::below;
using blink_test::case_of;
using blink_test::channel_case;
using blink_test::device_case;
using blink_test::emulated_devices;
using blink_test::error_of;
using blink_test::options_in_vectors;
using chunks = blink::fixed_protocol<blink::whole_chunks>;
using all_ranks =
    blink::basic_device_ranks<emulated_devices, blink::reaching_peer_transport, chunks>;
using slot_thread_ranks =
    blink::basic_device_ranks<emulated_devices, blink::slot_peer_transport, chunks>;

/// Deadline of tests that wait for it. It is long enough for the calls before on a busy machine.
constexpr std::chrono::milliseconds short_deadline(1500);

blink::channel_options channels_of(blink::collective kind, std::size_t most,
                                   std::uint32_t channels) {
  return {.kind = kind, .most_count = most, .channels = channels};
}

/// Launches of a kernel with calls of a random kind in some channels on one to three devices.
template <class T, class Protocol, class Reducer>
std::string random_channels(std::uint64_t seed, std::uint32_t threads_each) {
  std::mt19937_64 random(seed);
  int const ranks = 2 + below(random, 3);
  emulated_devices machine({.devices = 3, .room = 4096, .threads_each = threads_each});
  std::vector<int> devices;
  for (int rank = 0; rank < ranks; ++rank) devices.push_back(below(random, 1 + below(random, 3)));
  auto options = options_in_vectors(devices);
  options.window = 1 + static_cast<std::uint32_t>(random() % 4);
  options.slot_bytes = 64 + random() % 2000;
  options.packet_slot_bytes = 1 << 15;  // all data that a task sends has to fit
  all_ranks all(machine, options);
  auto const kind = static_cast<blink::collective>(random() % 11);
  auto const source = blink::replicate_trees(blink_test::random_schedule(random, ranks, kind),
                                             1 + below(random, 2));
  std::size_t const most = 1 + random() % 700;
  auto const channels = 1 + static_cast<std::uint32_t>(below(random, 3));
  auto const made = all.prepare_channels<T, Protocol>(source, channels_of(kind, most, channels));
  auto what = case_of(kind, 0, seed);
  what.is_in_place = random() % 3 == 0 && !blink::sends_and_receives(kind) && !source.is_one_shot;
  what.offset = random() % 3;
  auto const blocks = 1 + static_cast<std::uint32_t>(random() % channels);
  for (int launch = 0; launch < 2; ++launch) {
    std::vector<std::vector<std::size_t>> counts(channels, std::vector<std::size_t>(3));
    for (auto& of_channel : counts) {
      for (auto& count : of_channel) count = random() % 4 == 0 ? most : random() % (most + 1);
    }
    channel_case<T, Reducer> now(what, source, counts, 0, ranks);
    all.launch(made, now.kernels(blocks), {.blocks = blocks, .threads = 128});
    all.wait();
    auto const wrong = now.wrong();
    if (!wrong.empty()) {
      return std::string(blink::to_text(kind)) + ", launch " + std::to_string(launch) + ": " +
             wrong;
    }
  }
  return "";
}

TEST(device_channels, random_calls_are_exact) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    EXPECT_EQ((random_channels<std::int32_t, blink::whole_chunks, blink::avg>(seed, 1)), "");
  }
}

TEST(device_channels, random_calls_by_packets_are_exact) {
  for (std::uint64_t seed = 100; seed < 120; ++seed) {
    SCOPED_TRACE(seed);
    EXPECT_EQ((random_channels<std::int32_t, blink::small_packets, blink::sum>(seed, 1)), "");
  }
}

TEST(device_channels, blocks_of_three_threads_are_exact) {
  for (std::uint64_t seed = 200; seed < 206; ++seed) {
    SCOPED_TRACE(seed);
    EXPECT_EQ((random_channels<blink_test::triple, blink::whole_chunks, blink_test::triple_reducer>(
                  seed, 3)),
              "");
    EXPECT_EQ(
        (random_channels<blink_test::triple, blink::small_packets, blink_test::triple_reducer>(seed,
                                                                                               3)),
        "");
  }
}

// A promise for any length holds for all lengths of one set of channels.
TEST(device_channels, the_order_of_shape_is_kept) {
  using reducer = decltype(blink::with_order<blink::order_promise::shape>(blink::sum{}));
  for (std::uint64_t seed = 300; seed < 306; ++seed) {
    SCOPED_TRACE(seed);
    EXPECT_EQ((random_channels<std::int32_t, blink::whole_chunks, reducer>(seed, 1)), "");
  }
}

/// An all-reduce of two ranks in two channels, with its communicator.
struct pair_of_ranks {
  using reducer = blink::sum;
  using calls = channel_case<int, reducer>;

  explicit pair_of_ranks(std::vector<int> devices = {0, 0},
                         emulated_devices::options const& what = {.devices = 2})
      : machine(what), all(machine, options_of(std::move(devices))) {}
  static blink::device_options options_of(std::vector<int> devices) {
    auto options = options_in_vectors(std::move(devices));
    options.deadline = short_deadline;
    return options;
  }
  [[nodiscard]] calls calls_of(std::vector<std::vector<std::size_t>> const& counts,
                               std::uint64_t seed = 1) const {
    return {case_of(blink::collective::all_reduce, 0, seed), source, counts, 0, 2};
  }
  /// A launch in which all calls succeed.
  std::string sum_up() {
    auto now = calls_of({{10, 20}, {30, 40}});
    all.launch(made, now.kernels(2), {.blocks = 2, .threads = 128});
    all.wait();
    return now.wrong();
  }

  blink::schedule source = blink::chain_schedule(2, 0);
  emulated_devices machine;
  all_ranks all;
  blink::prepared_channels<emulated_devices, int, blink::whole_chunks> made =
      all.prepare_channels<int>(source, channels_of(blink::collective::all_reduce, 100, 2));
};

/// Calls a channel a given number of times. Blocks of rank 0 and rank 1 may differ.
struct some_calls {
  std::array<std::uint32_t, 2> calls{};  ///< by channel, which is the block
  std::size_t count = 5;
  std::uint32_t first_channel = 0;
  int* values = nullptr;  ///< as many of each block as calls have elements

  template <class Group, class Channels>
  BLINK_HOST_DEVICE void operator()(Group const group, Channels const& own,
                                    std::uint32_t block) const {
    int* const data = values + block * count;
    for (std::uint32_t k = 0; k < calls[block]; ++k) {
      if (own.run(group, first_channel + block, data, data, count, blink::sum{}) !=
          blink::status::ok) {
        return;
      }
    }
  }
};

/// Runs such kernels on two ranks. Returns the error of `wait`.
std::string error_of_calls(pair_of_ranks& two, some_calls first, some_calls second) {
  std::vector<int> one(2 * first.count), other(2 * second.count);
  first.values = one.data();
  second.values = other.data();
  return error_of([&] {
    two.all.launch(two.made, std::vector{first, second}, {.blocks = 2, .threads = 128});
    two.all.wait();
  });
}

TEST(device_channels, a_block_that_does_not_call_is_named) {
  pair_of_ranks two;
  EXPECT_EQ(two.sum_up(), "");
  EXPECT_SAYS(error_of_calls(two, {.calls = {1, 1}}, {.calls = {1, 0}}),
              "rank 0 (device 0), all_reduce in channel 1, tree 0, chunk 0 of 1: waits for rank 1 "
              "(device 0) to send it; its kernel has made 2 calls in this channel, others 3");
  EXPECT_ERROR(two.sum_up(), "all_reduce in channel 1");  // until it recovers
  two.all.recover();
  EXPECT_EQ(two.sum_up(), "");
  EXPECT_SAYS(
      error_of_calls(two, {.calls = {3, 3}}, {.calls = {2, 3}}),
      "all_reduce in channel 0, tree 0, chunk 0 of 1: waits for rank 1 (device 0) to send it; "
      "its kernel has made 4 calls in this channel, others 5");
}

TEST(device_channels, a_kernel_that_does_not_begin_is_named) {
  pair_of_ranks two({0, 1});
  auto const a = two.machine.make_stream();
  auto const b = two.machine.make_stream();
  two.machine.hold_stream(1, b);
  auto now = two.calls_of({{10}, {20}});
  two.all.launch(two.made, now.kernels(2), {.blocks = 2}, {a, b});
  EXPECT_ERROR(two.all.wait({a, b}),
               "waits for rank 1 (device 1) to send it; its kernel has made "
               "0 calls in this channel, others 1");
  two.machine.release_stream(1, b);
  two.all.recover();
  EXPECT_EQ(two.sum_up(), "");
}

// The rank that another rank waits for may itself wait.
TEST(device_channels, who_waits_as_well_is_passed_over) {
  emulated_devices machine({.devices = 1});
  all_ranks all(machine, pair_of_ranks::options_of({0, 0, 0}));
  auto const source = blink::chain_schedule(3, 0);  // 0 <- 1 <- 2
  auto const made =
      all.prepare_channels<int>(source, channels_of(blink::collective::reduce, 10, 2));
  std::vector<int> values(30);
  // Rank 2 calls once. Rank 1 waits for its second call, and rank 0 waits for rank 1.
  std::vector<some_calls> kernels(3, some_calls{.calls = {2, 0}});
  kernels[2].calls = {1, 0};
  for (std::size_t k = 0; k < 3; ++k) kernels[k].values = values.data() + 10 * k;
  all.launch(made, kernels, {.blocks = 2});
  auto const text = error_of([&] { all.wait(); });  // from rank 0 or rank 1
  EXPECT_SAYS(text, "waits for rank 2 (device 0)");
  EXPECT_SAYS(text, "to send it; its kernel has made 1 calls in this channel, others 2");
}

TEST(device_channels, unlike_counts_are_reported) {
  pair_of_ranks two;
  EXPECT_SAYS(error_of_calls(two, {.calls = {1, 0}, .count = 100}, {.calls = {1, 0}, .count = 3}),
              "all_reduce in channel 0: ranks disagree: rank 0 (device 0) has called it with count "
              "100, rank 1 (device 0) with count 3");
  two.all.recover();
  EXPECT_SAYS(error_of_calls(two, {.calls = {0, 1}, .count = 0}, {.calls = {0, 1}, .count = 3}),
              "rank 0 (device 0) has called it with count 0, rank 1 (device 0) with count 3");
}

TEST(device_channels, calls_that_cannot_be_are_refused) {
  pair_of_ranks two;
  EXPECT_SAYS(error_of_calls(two, {.calls = {1, 0}, .count = 101}, {.calls = {1, 0}, .count = 101}),
              "all_reduce in channel 0: count 101, expected at most 100");
  two.all.recover();
  EXPECT_SAYS(error_of_calls(two, {.calls = {1, 0}, .first_channel = 7},
                             {.calls = {1, 0}, .first_channel = 7}),
              "a kernel on device 0 has called channel 7 of 2");
  two.all.recover();
  EXPECT_EQ(two.sum_up(), "");

  auto const exchanged = two.all.prepare_channels<int>(
      blink::all_to_all_schedule(2), channels_of(blink::collective::all_to_all, 3, 1));
  std::vector<int> values(12);
  std::vector<some_calls> kernels(2, some_calls{.calls = {1, 0}, .count = 3});
  for (std::size_t k = 0; k < 2; ++k) kernels[k].values = values.data() + 6 * k;
  two.all.launch(exchanged, kernels, {.blocks = 1});
  EXPECT_ERROR(two.all.wait(), "all_to_all in channel 0: the output is the input");
}

TEST(device_channels, a_missing_reducer_is_refused) {
  pair_of_ranks two;
  std::vector<int> values{1, 2};
  auto const kernel_of = [](int* value) {
    return [value](auto const group, auto const& own, std::uint32_t) {
      (void)own.run(group, 0, value, value, 1);
    };
  };
  two.all.launch(two.made, std::vector{kernel_of(&values[0]), kernel_of(&values[1])}, {});
  EXPECT_ERROR(two.all.wait(), "no reducer, expected one");
}

/// Combines elements of 4 bytes in an accumulator of 320 bytes.
struct in_many_places {
  using accumulator = std::array<float, 80>;
  [[nodiscard]] accumulator operator()(accumulator a, accumulator const& b) const {
    for (std::size_t k = 0; k < a.size(); ++k) a[k] += b[k];
    return a;
  }
  [[nodiscard]] accumulator lift(float value) const {
    accumulator result{};
    result[79] = value;
    return result;
  }
  [[nodiscard]] float finish(accumulator const& all, int) const { return all[79]; }
};
TEST(device_channels, partial_results_may_be_much_larger_than_elements) {
  emulated_devices machine({.devices = 1});
  auto options = pair_of_ranks::options_of({0, 0});
  options.slot_bytes = 1 << 14;
  all_ranks all(machine, options);
  auto const made = all.prepare_channels<float>(blink::chain_schedule(2, 0),
                                                channels_of(blink::collective::all_reduce, 1, 1));
  std::vector<float> values{3, 5};
  auto const kernel_of = [](float* value) {
    return [value](auto const group, auto const& own, std::uint32_t) {
      (void)own.run(group, 0, value, value, 1, in_many_places{});
    };
  };
  all.launch(made, std::vector{kernel_of(&values[0]), kernel_of(&values[1])}, {});
  all.wait();
  EXPECT_EQ(values, (std::vector<float>{8, 8}));
}

struct one_composition {
  blink_test::affine* data = nullptr;
  template <class Group, class Channels>
  BLINK_HOST_DEVICE void operator()(Group const group, Channels const& own, std::uint32_t) const {
    (void)own.run(group, 0, data, data, 1, blink_test::compose{});
  }
};
TEST(device_channels, reducers_that_need_an_order_are_refused_without_one) {
  emulated_devices machine({.devices = 1});
  all_ranks all(machine, pair_of_ranks::options_of({0, 0, 0}));
  auto source = blink::chain_schedule(3, 1);
  source.trees[0].reduce_parent = {2, -1, 1};  // rank 1 gets 0 and 2 together
  auto const made = all.prepare_channels<blink_test::affine>(
      source, channels_of(blink::collective::all_reduce, 1, 1));
  std::vector<blink_test::affine> data(3);
  all.launch(made, std::vector<one_composition>{{&data[0]}, {&data[1]}, {&data[2]}}, {});
  EXPECT_ERROR(all.wait(),
               "the reducer is not commutative and the schedule changes the order of ranks");
}

TEST(device_channels, what_cannot_be_prepared_is_refused) {
  pair_of_ranks two;
  EXPECT_ERROR((void)two.all.prepare_channels<int>(
                   blink::chain_schedule(3, 0), channels_of(blink::collective::all_reduce, 1, 1)),
               "3 ranks");
  EXPECT_ERROR((void)two.all.prepare_channels<int>(
                   two.source, channels_of(blink::collective::all_to_all, 1, 1)),
               "all_to_all");
  EXPECT_ERROR((void)two.all.prepare_channels<int>(
                   two.source, channels_of(blink::collective::all_reduce, 1, 0)),
               "channels out of range, expected >= 1");
  using large = std::array<double, 100>;
  EXPECT_ERROR((void)two.all.prepare_channels<large>(
                   two.source, channels_of(blink::collective::broadcast, 1, 1)),
               "elements have 800 bytes, expected at most those of a slot, 512");
  EXPECT_ERROR((void)(two.all.prepare_channels<int, blink::small_packets>(
                   two.source, channels_of(blink::collective::all_reduce, 1 << 20, 1))),
               "bytes as packets, expected at most");
  EXPECT_ERROR((void)two.all.prepare_channels<int>(
                   two.source, channels_of(blink::collective::all_reduce, std::size_t{1} << 62, 1)),
               "most_count out of range, expected <= 2^40");
}

TEST(device_channels, memory_is_counted_before_it_is_allocated) {
  emulated_devices machine({.devices = 1});
  auto options = pair_of_ranks::options_of({0, 0});
  options.slot_bytes = 1 << 12;
  options.memory_cap = 1 << 20;
  all_ranks all(machine, options);
  auto const before = machine.allocated_bytes();
  auto const source = blink::chain_schedule(2, 0);
  auto const wanted = [](std::uint32_t channels) {
    return channels_of(blink::collective::all_reduce, 1 << 20, channels);
  };
  EXPECT_ERROR((void)all.prepare_channels<int>(source, wanted(1000)), "channels needs ");
  EXPECT_EQ(machine.allocated_bytes(), before);
  EXPECT_EQ(all.memory().held().at(0).total(), before);
  (void)all.prepare_channels<int>(source, wanted(10));
  EXPECT_EQ(all.memory().held().at(0).total(), machine.allocated_bytes());
  EXPECT_GE(machine.allocated_bytes(), before + 10 * 2 * 4 * options.slot_bytes / 4);
}

struct large_kernel {
  std::array<char, 1000> bytes{};
  template <class Group, class Channels>
  void operator()(Group const, Channels const&, std::uint32_t) const {}
};

TEST(device_channels, launches_that_cannot_run_at_once_are_refused) {
  pair_of_ranks two({0, 1}, {.devices = 2, .room = 512});
  auto now = two.calls_of({{10}, {20}});
  EXPECT_ERROR(
      two.all.launch(two.made, now.kernels(5), {.blocks = 5}),
      "device 0 runs 4 blocks of 128 threads of this kernel at once, expected 5: 5 for each of "
      "its 1 ranks");
  EXPECT_ERROR(two.all.launch(two.made, now.kernels(2), {.blocks = 2, .threads = 512}),
               "device 0 runs 1 blocks of 512 threads of this kernel at once, expected 2");
  EXPECT_ERROR(two.all.launch(two.made, now.kernels(1), {.blocks = 0}),
               "blocks out of range, expected >= 1");
  pair_of_ranks on_one;
  EXPECT_ERROR(on_one.all.launch(on_one.made, now.kernels(1), {.blocks = 1U << 31}),
               "at once, expected 4294967296");
  EXPECT_ERROR(two.all.launch(two.made, now.kernels(1), {.threads = 48}), "multiple of 32");
  auto kernels = now.kernels(1);
  kernels.pop_back();
  EXPECT_ERROR(two.all.launch(two.made, kernels, {}),
               "1 kernels, expected one for each of 2 ranks");
  pair_of_ranks others;
  EXPECT_ERROR(others.all.launch(two.made, now.kernels(1), {}), "channels of another communicator");
  EXPECT_EQ(two.sum_up(), "");

  emulated_devices machine({.devices = 1});
  all_ranks five(machine, pair_of_ranks::options_of({0, 0, 0, 0, 0}));
  auto const made = five.prepare_channels<int>(blink::chain_schedule(5, 0),
                                               channels_of(blink::collective::broadcast, 1, 1));
  EXPECT_ERROR(
      five.launch(made, std::vector<large_kernel>(5), {}),
      "the kernels of the 5 ranks of device 0 have 1000 bytes each, expected at most 3 ranks");
}

TEST(device_channels, a_refused_launch_ends_the_others) {
  pair_of_ranks two({0, 1}, {.devices = 2, .fails_launch_on = 1});
  auto now = two.calls_of({{10}, {20}});
  auto const begin = std::chrono::steady_clock::now();
  EXPECT_ERROR(two.all.launch(two.made, now.kernels(2), {.blocks = 2}), "launch failed");
  two.machine.synchronize(0);
  EXPECT_TRUE(two.all.has_failed());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

TEST(device_channels, an_abort_ends_kernels_that_wait) {
  emulated_devices machine({.devices = 2});
  auto options = options_in_vectors({0, 1});
  options.deadline = std::chrono::minutes(5);  // it does not end them
  all_ranks all(machine, options);
  auto const source = blink::chain_schedule(2, 0);
  auto const made =
      all.prepare_channels<int>(source, channels_of(blink::collective::all_reduce, 100, 2));
  channel_case<int, blink::sum> now(case_of(blink::collective::all_reduce, 0, 1), source,
                                    {{10, 20}, {30, 40}}, 0, 2);
  auto const a = machine.make_stream();
  auto const b = machine.make_stream();
  machine.hold_stream(1, b);
  all.launch(made, now.kernels(2), {.blocks = 2}, {a, b});
  machine.wait_for_kernel(0);
  all.abort();
  machine.synchronize(0, a);
  EXPECT_ERROR(all.check(), "aborted by its owner");
  machine.release_stream(1, b);
  all.recover();
  now.forget();
  all.launch(made, now.kernels(2), {.blocks = 2}, {a, b});
  all.wait({a, b});
  EXPECT_EQ(now.wrong(), "");
}

TEST(device_channels, captured_launches_are_replayed_between_others) {
  pair_of_ranks two({0, 1});
  std::vector<int> const on{two.machine.make_stream(), two.machine.make_stream()};
  auto captured = two.calls_of({{10, 100, 7}, {30, 40, 50}}, 1);
  auto outside = two.calls_of({{99, 3}, {0, 1}}, 2);
  two.machine.begin_capture(on);
  two.all.launch(two.made, captured.kernels(2), {.blocks = 2}, on);
  auto const graph = two.machine.end_capture(on);
  EXPECT_NE(captured.wrong(), "") << "a captured launch has run";
  for (int replay = 0; replay < 4; ++replay) {
    captured.forget();
    outside.forget();
    two.machine.replay(graph);
    two.all.wait(on);
    EXPECT_EQ(captured.wrong(), "");
    two.all.launch(two.made, outside.kernels(1), {}, on);
    two.all.wait(on);
    EXPECT_EQ(outside.wrong(), "");
  }
}

// Two communicators on devices with room for one kernel each; their streams begin in opposite
// order.
TEST(device_channels, launches_and_calls_take_turns) {
  emulated_devices machine({.devices = 2, .room = 256});
  auto options = options_in_vectors({0, 1});
  options.threads = 128;
  options.deadline = std::chrono::seconds(20);
  all_ranks first(machine, options), second(machine, options);
  auto const source = blink::chain_schedule(2, 0);
  auto const made =
      first.prepare_channels<int>(source, channels_of(blink::collective::all_reduce, 100, 2));
  channel_case<int, blink::sum> one(case_of(blink::collective::all_reduce, 0, 1), source,
                                    {{10, 20}, {30, 40}}, 0, 2);
  device_case<int> two(case_of(blink::collective::all_reduce, 60, 2), source);
  std::vector<int> const a{machine.make_stream(), machine.make_stream()};
  std::vector<int> const b{machine.make_stream(), machine.make_stream()};
  machine.hold_stream(0, a[0]);
  machine.hold_stream(1, b[1]);
  first.launch(made, one.kernels(2), {.blocks = 2}, a);
  two.enqueue(second, blink::sum{}, b);
  machine.wait_for_kernel(1);
  machine.release_stream(0, a[0]);
  machine.release_stream(1, b[1]);
  first.wait(a);
  second.wait(b);
  EXPECT_EQ(one.wrong() + two.wrong(blink::sum{}), "");
}

/// Each part of a block has its own channel, and calls more often than the part before it.
template <std::uint32_t Warps>
struct parts_that_call {
  int* values = nullptr;  ///< `count` elements of each channel
  std::size_t count = 0;

  template <class Group, class Channels>
  BLINK_HOST_DEVICE void operator()(Group const block_group, Channels const& own,
                                    std::uint32_t block) const {
    auto const group = part_of<Warps>(block_group);
    std::uint32_t const channel = block * group.count() + group.index();
    int* const data = values + channel * count;
    for (std::uint32_t call = 0; call <= channel; ++call) {
      if (own.run(group, channel, data, data, count, blink::sum{}) != blink::status::ok) return;
    }
  }
};

// After k + 1 sums over three ranks in place, all have 3^k times the first sum.
template <std::uint32_t Warps, class Protocol>
void reduce_by_parts(std::uint32_t block_threads, std::size_t count) {
  SCOPED_TRACE(testing::Message() << Warps << " of " << block_threads << ", count " << count);
  emulated_devices machine({.devices = 2, .room = 4096, .threads_each = block_threads});
  all_ranks all(machine, options_in_vectors({0, 1, 0}));
  std::uint32_t const blocks = 2, channels = blocks * (block_threads / Warps);
  auto const made = all.prepare_channels<int, Protocol>(
      blink::ring_schedule(3), channels_of(blink::collective::all_reduce, count, channels));
  for (int launch = 0; launch < 2; ++launch) {
    std::vector<std::vector<int>> values(3, std::vector<int>(channels * count));
    std::vector<parts_that_call<Warps>> kernels;
    for (std::size_t rank = 0; rank < 3; ++rank) {
      for (std::size_t k = 0; k < values[rank].size(); ++k) {
        values[rank][k] = static_cast<int>(k + rank);
      }
      kernels.push_back({values[rank].data(), count});
    }
    all.launch(made, kernels, {.blocks = blocks});
    all.wait();
    for (auto const& own : values) {
      for (std::size_t k = 0; k < own.size(); ++k) {
        int expected = 3 * static_cast<int>(k) + 3;
        for (std::size_t call = 0; call < k / count; ++call) expected *= 3;
        ASSERT_EQ(own[k], expected) << "channel " << k / count;
      }
    }
  }
}
TEST(device_channels, parts_of_blocks_have_channels_of_their_own) {
  reduce_by_parts<1, blink::whole_chunks>(3, 70);
  reduce_by_parts<2, blink::whole_chunks>(4, 333);
  reduce_by_parts<2, blink::small_packets>(4, 70);
}

TEST(device_channels, kernels_may_be_lambdas) {
  pair_of_ranks two;
  std::vector<int> values{1, 2};
  auto const kernel_of = [](int* value) {
    return [value](auto const group, auto const& own, std::uint32_t) {
      (void)own.run(group, 1, value, value, 1, blink::sum{});
    };
  };
  two.all.launch(two.made, std::vector{kernel_of(&values[0]), kernel_of(&values[1])}, {});
  two.all.wait();
  EXPECT_EQ(values, (std::vector<int>{3, 3}));
}

// --- several processes ---

using part = blink_test::device_process<slot_thread_ranks>;

std::vector<std::string> run(int processes, auto const& body) {
  auto options = options_in_vectors({0, 1});
  options.deadline = std::chrono::seconds(20);
  return blink_test::run_device_processes<part>(processes, options, body);
}

TEST(device_channels, processes_reduce_from_their_kernels) {
  for (auto const &text : run(2, [](part& mine, int) -> std::string {
         auto const source = blink::ring_schedule(4);
         auto const kind = blink::collective::all_reduce;
         auto const made = mine.all.prepare_channels<int>(source, channels_of(kind, 200, 3));
         for (std::uint64_t seed = 0; seed < 3; ++seed) {
           channel_case<int, blink::sum> now(case_of(kind, 0, seed), source,
                                             {{10, 200}, {7, 0}, {100, 1}}, mine.all.first_rank(),
                                             mine.all.ranks_here());
           mine.all.launch(made, now.kernels(2), {.blocks = 2});
           mine.all.wait();
           auto const wrong = now.wrong();
           if (!wrong.empty()) return wrong;
         }
         return "right";
       })) {
    EXPECT_EQ(text, "right");
  }
}

TEST(device_channels, processes_agree_about_channels_and_launches) {
  for (auto const &text : run(2, [](part& mine, int process) {
         return error_of([&] {
           (void)mine.all.prepare_channels<int>(
               blink::ring_schedule(4),
               channels_of(blink::collective::all_reduce, process == 0 ? 7 : 8, 1));
         });
       })) {
    EXPECT_SAYS(text, "differ between processes");
  }
  auto const texts = run(2, [](part& mine, int process) {
    auto const source = blink::ring_schedule(4);
    auto const made =
        mine.all.prepare_channels<int>(source, channels_of(blink::collective::all_reduce, 9, 2));
    channel_case<int, blink::sum> now(case_of(blink::collective::all_reduce, 0, 1), source,
                                      {{5}, {6}}, mine.all.first_rank(), mine.all.ranks_here());
    auto const blocks = static_cast<std::uint32_t>(1 + process);
    return error_of([&] {
      mine.all.launch(made, now.kernels(blocks), {.blocks = blocks});
      mine.all.wait();
    });
  });
  for (auto const& text : texts) EXPECT_SAYS(text, "count");
}

TEST(device_channels, processes_that_launch_with_other_channels_are_reported) {
  auto const texts = run(2, [](part& mine, int process) {
    auto const source = blink::ring_schedule(4);
    auto const wanted = channels_of(blink::collective::all_reduce, 9, 2);
    auto const first = mine.all.prepare_channels<int>(source, wanted);
    auto const second = mine.all.prepare_channels<int>(source, wanted);
    channel_case<int, blink::sum> now(case_of(blink::collective::all_reduce, 0, 1), source,
                                      {{5}, {6}}, mine.all.first_rank(), mine.all.ranks_here());
    return error_of([&] {
      mine.all.launch(process == 0 ? first : second, now.kernels(1), {});
      mine.all.wait();
    });
  });
  for (auto const& text : texts) EXPECT_SAYS(text, "channels 1, ");
}

TEST(device_channels, a_process_whose_kernel_does_not_call_is_named) {
  auto options = options_in_vectors({0});
  options.deadline = short_deadline;
  auto const texts =
      blink_test::run_device_processes<part>(2, options, [](part& mine, int process) {
        auto const source = blink::chain_schedule(2, 0);
        auto const made = mine.all.prepare_channels<int>(
            source, channels_of(blink::collective::all_reduce, 9, 2));
        std::vector<int> values(10);
        some_calls kernel{.calls = {1, 1}, .values = values.data()};
        if (process == 1) kernel.calls = {1, 0};
        mine.all.launch(made, std::vector{kernel}, {.blocks = 2});
        return error_of([&] {
          mine.all.wait();
          while (process == 1) mine.all.check();  // its own kernel has ended well
        });
      });
  for (auto const& text : texts) {
    EXPECT_SAYS(text,
                "all_reduce in channel 1, tree 0, chunk 0 of 1: waits for rank 1 (process 1, "
                "device 0) to send it; its kernel has not made this call");
  }
}

}}  // namespace device_channels_test
