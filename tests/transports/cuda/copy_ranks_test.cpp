// SPDX-License-Identifier: Apache-2.0
// Collectives by copy engines, on devices whose streams are threads. Random schedules run on one to
// three devices, captured and replayed, one call after the other without waiting.

#include <blink/reducers/accumulate_in.hpp>
#include <blink/reducers/arithmetic.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/transports/cuda/calls/device_collectives.hpp>
#include <blink/transports/cuda/copy/copy_ranks.hpp>

#include "support/collective_case.hpp"
#include "support/device_case.hpp"
#include "support/emulated_devices.hpp"
#include "support/expect_error.hpp"
#include "support/random_device_calls.hpp"
#include "support/random_schedules.hpp"
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

// The sources of a folder may be compiled as one.
namespace copy_ranks_test { namespace {

using blink_test::below;
using blink_test::collective_case;
using blink_test::device_case;
using blink_test::emulated_devices;
using all_ranks = blink::basic_copy_ranks<emulated_devices>;

blink::device_options options_of(std::vector<int> devices) {
  blink::device_options options;
  options.devices = std::move(devices);
  options.checks_places = false;
  options.slot_bytes = 512;
  return options;
}

template <class T, class Reducer>
std::string random_case(std::uint64_t seed, Reducer const& reduce) {
  std::mt19937_64 random(seed);
  int const ranks = 1 + below(random, 5);
  emulated_devices machine({.devices = 3, .threads_each = seed % 20 == 5 ? 3U : 1U});
  std::vector<int> devices;
  for (int rank = 0; rank < ranks; ++rank) devices.push_back(below(random, 1 + below(random, 3)));
  auto options = options_of(devices);
  options.window = 1 + static_cast<std::uint32_t>(random() % 4);
  options.slot_bytes = 16 + random() % 2000;
  all_ranks all(machine, options);
  return blink_test::random_calls_in_a_row<T>(
      all, random, ranks, reduce,
      [](auto const& what, auto const& source) { return device_case<T>(what, source); });
}

TEST(copy_ranks, random_calls_are_exact) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    EXPECT_EQ((random_case<std::int32_t>(seed, blink::avg{})), "");
  }
}

// Partial results on links have another size than elements.
TEST(copy_ranks, random_calls_with_wider_sums_are_exact) {
  for (std::uint64_t seed = 100; seed < 110; ++seed) {
    SCOPED_TRACE(seed);
    EXPECT_EQ((random_case<std::uint8_t>(seed, blink::accumulate_in<std::uint32_t>(blink::sum{}))),
              "");
  }
}

TEST(copy_ranks, captured_calls_are_replayed) {
  emulated_devices machine({.devices = 2});
  all_ranks all(machine, options_of({0, 0, 1, 1}));
  collective_case what;
  what.count = 1000;
  device_case<std::int32_t> captured(what, blink::ring_schedule(4));
  what.seed = 9;
  device_case<std::int32_t> outside(what, blink::star_schedule(4));
  auto const a = machine.make_stream();
  auto const b = machine.make_stream();
  machine.begin_capture({a, b});
  captured.enqueue(all, blink::sum{}, {a, b});
  auto const graph = machine.end_capture({a, b});
  for (int replay = 0; replay < 3; ++replay) {
    captured.forget();
    outside.forget();
    machine.replay(graph);
    all.wait({a, b});
    EXPECT_EQ(captured.wrong(blink::sum{}), "");
    outside.enqueue(all, blink::sum{}, {a, b});
    all.wait({a, b});
    EXPECT_EQ(outside.wrong(blink::sum{}), "");
  }
}

// Data that is only forwarded goes directly to its destination, by copies alone.
TEST(copy_ranks, broadcasts_need_no_kernel_and_no_slot) {
  emulated_devices machine({.devices = 4});
  auto options = options_of({0, 1, 2, 3});
  options.slot_bytes = 4096;
  all_ranks all(machine, options);
  auto source = blink::chain_schedule(4, 0);
  source.trees[0].chunk_bytes = 1024;
  collective_case what;
  what.kind = blink::collective::broadcast;
  what.count = 1024;  // floats: four chunks
  device_case<float> now(what, source);
  now.enqueue(all, blink::sum{});
  all.wait();
  EXPECT_EQ(now.wrong(blink::sum{}), "");
  EXPECT_EQ(machine.combines(), 0);
  EXPECT_EQ(machine.copies(), 4 * (3 + 1));  // three edges, and the root's own output
}

/// Records the sources of copies between devices.
class remembering_devices : public emulated_devices {
 public:
  using emulated_devices::emulated_devices;
  blink::device_order<remembering_devices>& order() { return order_; }
  void copy_between(int to_device, void* to, int from_device, void const* from, std::size_t bytes,
                    stream on) {
    if (to_device != from_device) copied.push_back(static_cast<std::byte const*>(from));
    emulated_devices::copy_between(to_device, to, from_device, from, bytes, on);
  }

  std::vector<std::byte const*> copied;  // source addresses

 private:
  blink::device_order<remembering_devices> order_;
};

// Trees of different weights have chunks of different sizes. Each link carries the next chunk of
// all trees in turn.
TEST(copy_ranks, trees_take_turns_on_a_link) {
  remembering_devices machine({.devices = 2});
  auto options = options_of({0, 1});
  options.slot_bytes = 4096;
  blink::basic_copy_ranks<remembering_devices> all(machine, options);
  auto source = blink::chain_schedule(2, 0);
  source.trees.resize(3, source.trees[0]);
  source.trees[2].weight *= 2;
  for (auto& tree : source.trees)
    tree.chunk_bytes = tree.weight == source.trees[0].weight ? 256 : 512;
  collective_case what;
  what.kind = blink::collective::broadcast;
  what.count = 2048;  // floats: eight chunks of each tree
  device_case<float> now(what, source);
  now.enqueue(all, blink::sum{});
  all.wait();
  EXPECT_EQ(now.wrong(blink::sum{}), "");
  auto const& copied = machine.copied;
  ASSERT_EQ(copied.size(), 24U);
  auto const tree_of = [&](std::size_t k) {
    auto const quarter = (copied[k] - copied[0]) / (2048 * 4 / 4);
    return std::min<std::ptrdiff_t>(quarter, 2);
  };
  for (std::size_t k = 0; k < copied.size(); ++k) {
    EXPECT_EQ(tree_of(k), static_cast<std::ptrdiff_t>(k % 3)) << k;
  }
}

TEST(copy_ranks, tasks_stand_behind_those_that_feed_them) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    int const ranks = 1 + below(random, 9);
    auto const source = blink_test::random_schedule(random, ranks, blink::collective::all_reduce);
    blink::connection_tables const tables(source, {});
    auto const order = blink::tasks_in_order(tables, ranks, blink::collective::all_reduce);
    std::size_t tasks = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      tasks += tables.tasks(rank, blink::collective::all_reduce).count;
    }
    EXPECT_EQ(order.size(), tasks);
    std::vector<bool> is_fed(tables.connection_count(), false);
    for (auto const& at : order) {
      for (std::uint32_t k = 0; k < at.here->in_count; ++k) {
        EXPECT_TRUE(is_fed[at.here->in[k].connection]);
      }
      for (std::uint32_t k = 0; k < at.here->out_count; ++k) {
        is_fed[at.here->out[k].connection] = true;
      }
    }
  }
}

TEST(copy_ranks, what_a_held_stream_may_use_outlives_the_ranks) {
  emulated_devices machine({.devices = 2});
  auto options = options_of({0, 1, 1});
  options.deadline = std::chrono::milliseconds(300);
  auto const source = blink::ring_schedule(3);
  device_case<int> now(blink_test::case_of(blink::collective::all_reduce, 3000, 1), source);
  auto const a = machine.make_stream();
  auto const b = machine.make_stream();
  std::size_t before = 0;
  {
    all_ranks all(machine, options);
    (void)all.prepare(source);
    before = machine.allocated_bytes();
    machine.hold_stream(1, b);
    now.enqueue(all, blink::sum{}, {a, b});
  }
  EXPECT_GT(before, 0U);
  EXPECT_EQ(machine.allocated_bytes(), before);  // nothing was released
  machine.release_stream(1, b);
  machine.synchronize(0, a);
  machine.synchronize(1, b);  // after all copies
  EXPECT_EQ(now.wrong(blink::sum{}), "");
  machine.release_kept_memory();
}

TEST(copy_ranks, bad_calls_are_refused) {
  emulated_devices machine({.devices = 2});
  EXPECT_THROW(all_ranks(machine, options_of({})), blink::precondition_error);
  EXPECT_THROW(all_ranks(machine, options_of({2})), blink::precondition_error);
  all_ranks all(machine, options_of({0, 1}));
  std::vector<float> memory(40);
  std::vector<blink::rank_buffers<float>> buffers{{memory.data(), memory.data() + 10, 10},
                                                  {memory.data() + 20, memory.data() + 30, 9}};
  EXPECT_ERROR(blink::all_reduce(all, blink::star_schedule(2), buffers, blink::sum{}),
               "rank 0 has count 10, rank 1 has 9");
  buffers[1].count = 10;
  EXPECT_ERROR(blink::all_reduce(all, blink::star_schedule(3), buffers, blink::sum{}),
               "for 3 ranks, expected the communicator's 2");
  emulated_devices large({.devices = 1});
  all_ranks many(large, options_of(std::vector<int>(50, 0)));
  EXPECT_ERROR((void)many.prepare(blink::flat_schedule(50, 0)), "children in tree 0");
}

}}  // namespace copy_ranks_test
