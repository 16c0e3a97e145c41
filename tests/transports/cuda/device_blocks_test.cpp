// SPDX-License-Identifier: Apache-2.0
// All-gather and reduce-scatter with a block of any size for each rank, on devices whose blocks are
// threads. The ranks are in one process or in several; kernels or copy engines move the data.

#include <blink/reducers/accumulate_in.hpp>
#include <blink/reducers/arithmetic.hpp>
#include <blink/running/walk/choose_protocol.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/transports/cuda/copy/copy_ranks.hpp>
#include <blink/transports/cuda/ranks/device_blocks.hpp>
#include <blink/transports/cuda/ranks/device_ranks.hpp>
#include <blink/transports/cuda/ranks/protocol_schedules.hpp>
#include <blink/transports/cuda/runtime/peer_memory.hpp>

#include "support/device_case.hpp"
#include "support/device_process.hpp"
#include "support/emulated_devices.hpp"
#include "support/expect_error.hpp"
#include "support/nccl_processes.hpp"
#include "support/random_schedules.hpp"
#include "support/unequal_case.hpp"
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

// The sources of a folder may be compiled as one.
namespace device_blocks_test { namespace {

using blink_test::below;
using blink_test::emulated_devices;
using blink_test::error_of;
using blink_test::options_in_vectors;
using blink_test::unequal_case;
using chunks = blink::fixed_protocol<blink::whole_chunks>;
using all_ranks =
    blink::basic_device_ranks<emulated_devices, blink::reaching_peer_transport, chunks>;
using slot_thread_ranks = blink::basic_device_ranks<emulated_devices, blink::slot_peer_transport>;
using copy_ranks = blink::basic_copy_ranks<emulated_devices>;
using part = blink_test::device_process<slot_thread_ranks>;

/// Runs the case on the ranks of this process. Returns an empty text if all is right.
template <class T, class Ranks, class Reducer>
std::string run(Ranks& all, blink::schedule const& source, unequal_case const& what,
                Reducer const& reduce) {
  std::vector<blink_test::unequal_buffers<T>> own;
  std::vector<blink::rank_buffers<T>> buffers;
  for (int rank = all.first_rank(); rank < all.first_rank() + all.ranks_here(); ++rank) {
    own.emplace_back(what, rank);
    buffers.push_back({own.back().input, own.back().output, what.of(rank).count});
  }
  if (what.gathers()) {
    blink::all_gather_v(all, source, buffers, what.blocks);
  } else {
    blink::reduce_scatter_v(all, source, buffers, what.blocks, reduce);
  }
  all.wait();
  std::string wrong;
  for (auto& mine : own) {
    auto const text = blink_test::what_is_wrong(what, mine, reduce);
    if (!text.empty()) wrong += "rank " + std::to_string(mine.rank) + ": " + text + "\n";
  }
  return wrong;
}

/// The same calls in every process, drawn from the seed.
template <class Ranks>
std::string random_calls(Ranks& all, std::mt19937_64& random) {
  for (int call = 0; call < 4; ++call) {
    auto const [drawn, what] = blink_test::random_unequal_case(random, all.rank_count(), 500);
    auto const source = blink::replicate_trees(drawn, 1 + below(random, 2));
    bool const is_triple = random() % 2 == 0;
    auto const wrong =
        is_triple ? run<blink_test::triple>(all, source, what, blink_test::triple_reducer{})
                  : run<std::uint8_t>(all, source, what,
                                      blink::accumulate_in<std::uint32_t>(blink::sum{}));
    if (!wrong.empty()) {
      return std::string(to_text(what.kind)) + ", call " + std::to_string(call) + ", " + wrong;
    }
  }
  return "";
}

template <class Ranks>
std::string random_calls_of_one_process(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  int const ranks = 1 + below(random, 5);
  emulated_devices machine({.devices = 3, .room = 2048});
  std::vector<int> devices;
  for (int rank = 0; rank < ranks; ++rank) devices.push_back(below(random, 1 + below(random, 3)));
  auto options = options_in_vectors(devices);
  options.window = 1 + static_cast<std::uint32_t>(random() % 4);
  options.slot_bytes = 16 + random() % 1000;
  options.packet_slot_bytes = 1 << 14;
  options.protocols = blink_test::border_at(400);
  Ranks all(machine, options);
  return random_calls(all, random);
}

TEST(device_blocks, buffers_that_are_reached) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    EXPECT_EQ(random_calls_of_one_process<all_ranks>(seed), "") << seed;
  }
}

TEST(device_blocks, over_nccl) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    blink_test::emulated_fabric fabric(3);
    auto const texts =
        blink_test::run_nccl_processes(fabric, {2, 1}, [&](blink_test::nccl_process& mine) {
          std::mt19937_64 random(seed);
          auto options = blink_test::nccl_options_in_vectors();
          options.slot_bytes = 500;
          return random_calls(mine.make_ranks(options), random);
        });
    EXPECT_EQ(texts, std::vector<std::string>(2)) << seed;
  }
}

TEST(device_blocks, chunks_and_packets_through_slots) {
  for (std::uint64_t seed = 100; seed < 112; ++seed) {
    EXPECT_EQ(random_calls_of_one_process<slot_thread_ranks>(seed), "") << seed;
  }
}

TEST(device_blocks, copy_engines) {
  for (std::uint64_t seed = 200; seed < 212; ++seed) {
    EXPECT_EQ(random_calls_of_one_process<copy_ranks>(seed), "") << seed;
  }
}

TEST(device_blocks, several_processes) {
  for (std::uint64_t seed = 300; seed < 304; ++seed) {
    auto options = options_in_vectors({0, 1});
    options.deadline = std::chrono::seconds(20);
    options.packet_slot_bytes = 1 << 14;
    options.protocols = blink_test::border_at(400);
    auto const texts =
        blink_test::run_device_processes<part>(2, options, [&](part& mine, int) -> std::string {
          std::mt19937_64 random(seed);
          return random_calls(mine.all, random);
        });
    EXPECT_EQ(texts, (std::vector<std::string>{"", ""})) << seed;
  }
}

TEST(device_blocks, other_sizes_are_named_in_all_processes) {
  auto options = options_in_vectors({0});
  options.deadline = std::chrono::seconds(20);
  auto const texts = blink_test::run_device_processes<part>(
      2, options, [](part& mine, int process) -> std::string {
        std::size_t const own = process == 0 ? 4 : 5;
        unequal_case const what{
            blink::collective::all_gather,
            blink::consecutive_blocks({process == 0 ? own : 5U, process == 0 ? 5U : 4U})};
        return error_of(
            [&] { (void)run<int>(mine.all, blink::star_schedule(2), what, blink::sum{}); });
      });
  for (auto const& text : texts) EXPECT_SAYS(text, "other sizes of blocks than process");
}

TEST(device_blocks, bad_blocks_and_buffers_are_refused) {
  emulated_devices machine({.devices = 2});
  all_ranks all(machine, options_in_vectors({0, 0, 1}));
  auto source = blink::star_schedule(3);
  std::vector<int> memory(100);
  int* const at = memory.data();
  std::vector<blink::block> const blocks{{0, 4}, {4, 6}, {10, 0}};
  std::vector<blink::rank_buffers<int>> const good{
      {at, at + 20, 4}, {at + 4, at + 40, 6}, {nullptr, at + 60, 0}};
  auto const call = [&](auto const& change) {
    auto buffers = good;
    change(buffers);
    blink::all_gather_v(all, source, buffers, blocks);
    all.wait();
  };
  call([](auto&) {});
  EXPECT_ERROR(call([](auto& b) { b.pop_back(); }), "buffers of 2 ranks, expected 3");
  EXPECT_ERROR(call([](auto& b) { b[1].count = 4; }),
               "on rank 1: count 4, expected that of its block, 6");
  EXPECT_ERROR(call([](auto& b) { b[0].input = nullptr; }), "on rank 0: the input is null");
  EXPECT_ERROR(call([&](auto& b) { b[2].output = at + 49; }),
               "the output of rank 2 begins inside the output of rank 1");
  EXPECT_ERROR(call([&](auto& b) { b[1].input = b[1].output + 3; }), "overlap");
  EXPECT_ERROR(blink::all_gather_v(all, source, good, {{0, 4}, {3, 6}, {9, 0}}),
               "blocks of ranks 0 and 1 overlap");
  EXPECT_ERROR(blink::all_gather_v(all, source, good, {{0, 4}}), "1 blocks, expected one for each");
  std::erase_if(source.trees, [](auto const& tree) { return tree.root == 1; });
  source.shares = {1, 0, 1};
  EXPECT_ERROR(call([](auto&) {}), "all_gather: the block of rank 1 has elements, expected none");
  std::vector<blink::rank_buffers<int>> const equal{
      {at, at + 20, 4}, {at, at + 40, 4}, {at, at + 60, 4}};
  EXPECT_ERROR(blink::all_gather(all, source, equal), "the block of rank 1 has elements");
}

}}  // namespace device_blocks_test
