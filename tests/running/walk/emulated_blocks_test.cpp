// SPDX-License-Identifier: Apache-2.0
// Kernels without a GPU. Emulated blocks of one and of three threads run every collective, protocol
// and several types, exact against a loop. They also run under ThreadSanitizer. For all reducers
// see `reducer_conformance.hpp`, for all addresses `device_chunks_test.cpp`.

#include "support/emulated_blocks.hpp"

#include <blink/collectives.hpp>
#include <blink/reducers/accumulate_in.hpp>
#include <blink/reducers/epilogue.hpp>

#include "support/random_schedules.hpp"
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

// A folder may be compiled as one source.
namespace emulated_blocks_test { namespace {

using blink_test::collective_case;
using blink_test::emulated_device;
using blink_test::emulation;

constexpr std::array kinds{blink::collective::broadcast,    blink::collective::reduce,
                           blink::collective::all_reduce,   blink::collective::reduce_scatter,
                           blink::collective::all_gather,   blink::collective::gather,
                           blink::collective::scatter,      blink::collective::all_to_all,
                           blink::collective::send_to_next, blink::collective::permute,
                           blink::collective::barrier};

template <class Transport, class Protocol>
struct way {
  using transport = Transport;
  using protocol = Protocol;
};

template <class Way>
class emulated_blocks : public testing::Test {
 protected:
  template <class T, class Reducer>
  void some_cases(blink::collective kind, std::uint32_t threads, Reducer const& reduce,
                  std::uint32_t part_threads = 0) {
    constexpr bool has_packets = std::is_same_v<typename Way::protocol, blink::small_packets>;
    std::uint64_t const seed = static_cast<std::uint64_t>(kind) * 8 + threads + sizeof(T);
    std::mt19937_64 random(seed);
    int const ranks = 2 + blink_test::below(random, 2);
    auto const source = blink_test::random_schedule(random, ranks, kind);
    emulation how;
    how.block_threads = threads;
    how.part_threads = part_threads;
    how.window = 1 + static_cast<std::uint32_t>(random() % 3);
    how.slot_bytes = has_packets ? 256 : 128;
    emulated_device<typename Way::transport, typename Way::protocol> device(source, how);
    for (std::size_t const count : {std::size_t{random() % 200}, std::size_t{37}}) {
      SCOPED_TRACE(testing::Message() << to_text(kind) << ", " << ranks << " ranks, count " << count
                                      << ", seed " << seed << ", threads " << how.block_threads);
      collective_case const what{kind, count, false, seed % 4, seed + count};
      ASSERT_EQ(device.template run<T>(what, reduce), "");
    }
  }
};

using ways = testing::Types<way<blink::slot_peer_transport, blink::whole_chunks>,
                            way<blink::reaching_peer_transport, blink::whole_chunks>,
                            way<blink::slot_peer_transport, blink::small_packets>>;
TYPED_TEST_SUITE(emulated_blocks, ways);

/// Sums of bytes in 64 bits that cross connections in 16: three sizes, none of them a packet's.
struct byte_sum {
  std::int64_t lift(std::uint8_t value, blink::element_place const& place) const {
    return value + static_cast<std::int64_t>(place.index % 7) + place.rank;
  }
  std::int64_t operator()(std::int64_t a, std::int64_t b) const { return a + b; }
  std::int16_t send(std::int64_t total) const { return static_cast<std::int16_t>(total); }
  std::int64_t recv(std::int16_t sent) const { return sent; }
  std::uint8_t finish(std::int64_t total, int) const { return static_cast<std::uint8_t>(total); }
};

TYPED_TEST(emulated_blocks, every_collective_on_random_schedules) {
  for (auto const kind : kinds) {
    for (std::uint32_t const threads : {1U, 3U}) {
      this->template some_cases<float>(kind, threads, blink::sum{});
    }
  }
}

TYPED_TEST(emulated_blocks, elements_and_partial_results_of_any_size) {
  for (auto const kind : kinds) {
    if (!blink::has_reduce_phase(kind)) continue;
    for (std::uint32_t const threads : {1U, 3U}) {
      this->template some_cases<std::uint8_t>(kind, threads, byte_sum{});
      this->template some_cases<blink_test::triple>(kind, threads, blink_test::triple_reducer{});
    }
  }
}

// Several tasks share a block, each walked by separate threads, as in `walk_warps_kernel`.
TYPED_TEST(emulated_blocks, parts_of_blocks_walk_tasks_of_their_own) {
  for (auto const kind : kinds) {
    this->template some_cases<float>(kind, 3, blink::sum{}, 1);
    this->template some_cases<float>(kind, 4, blink::sum{}, 2);
    if (!blink::has_reduce_phase(kind)) continue;
    this->template some_cases<std::uint8_t>(kind, 4, byte_sum{}, 2);
    this->template some_cases<blink_test::triple>(kind, 6, blink_test::triple_reducer{}, 2);
  }
}

/// Keeps the elements that it receives, and counts each.
struct keep {
  int* seen;
  float* kept;
  template <class Group>
  void operator()(Group const group, float const* results, std::uint64_t index,
                  std::size_t count) const {
    for (std::size_t k = group.thread_rank(); k < count; k += group.size()) {
      ++seen[index + k];
      kept[index + k] += results[k];
    }
  }
};

// The epilogue gets every element of every rank's result once, when it is complete.
TYPED_TEST(emulated_blocks, epilogues_see_every_result_once) {
  constexpr std::size_t count = 133;
  auto const source = blink::binomial_schedule(3, 1);
  for (std::uint32_t const threads : {1U, 3U}) {
    emulation how;
    how.block_threads = threads;
    emulated_device<typename TypeParam::transport, typename TypeParam::protocol> device(source,
                                                                                        how);
    std::array<int, count> seen{};
    std::array<float, count> kept{};
    collective_case const what{blink::collective::reduce, count, false, 0, 5};
    auto const reduce = blink::with_epilogue(blink::sum{}, keep{seen.data(), kept.data()});
    ASSERT_EQ(device.template run<float>(what, reduce), "");
    for (std::size_t k = 0; k < count; ++k) {
      EXPECT_EQ(seen[k], 1);
      EXPECT_EQ(kept[k], blink_test::expected_element<float>(what, 3, 1, 1, k, blink::sum{}));
    }
  }
}

// Also where small inputs would be eager payloads instead of taking trees.
TEST(epilogues, run_on_communicators_whatever_the_size) {
  auto const source = blink::star_schedule(3);
  for (std::size_t const count : {std::size_t{5}, std::size_t{5000}}) {
    blink::thread_ranks all_threads(3);
    all_threads.run([&](auto& comm) {
      std::vector<float> const in(count, static_cast<float>(comm.rank() + 1));
      std::vector<float> out(count);
      std::vector<int> seen(count);
      std::vector<float> kept(count);
      blink::all_reduce(comm, source, in.data(), out.data(), count,
                        blink::with_epilogue(blink::sum{}, keep{seen.data(), kept.data()}));
      EXPECT_EQ(seen, std::vector<int>(count, 1));
      EXPECT_EQ(kept, std::vector<float>(count, 6));
    });
  }
}

// One step by direct reads, and two: the same walk along other schedules.
TEST(emulated_peers, one_shot_and_two_shot) {
  for (std::uint32_t const threads : {1U, 3U}) {
    for (auto const& source : {blink::one_shot_schedule(3), blink::star_schedule(3)}) {
      emulation how;
      how.block_threads = threads;
      emulated_device<blink::reaching_peer_transport> device(source, how);
      for (std::size_t const count : std::array<std::size_t, 3>{0, 5, 333}) {
        EXPECT_EQ(
            device.run<int>({blink::collective::all_reduce, count, false, 1, count}, blink::sum{}),
            "");
      }
    }
  }
}

// The flags of packets wrap after 2^32 messages, and slots are filled in between.
TEST(emulated_packets, flags_go_round) {
  auto const source = blink::chain_schedule(3, 1);
  for (std::uint64_t const first : {(std::uint64_t{1} << 32) - 4, (std::uint64_t{1} << 30) - 4}) {
    emulation how;
    how.block_threads = 3;
    how.first_message = first;
    emulated_device<blink::slot_peer_transport, blink::small_packets> device(source, how);
    for (std::size_t const count : std::array<std::size_t, 8>{64, 3, 64, 1, 64, 2, 64, 64}) {
      EXPECT_EQ(
          device.run<float>({blink::collective::all_reduce, count, false, 0, count}, blink::sum{}),
          "");
    }
    // After 2^30 messages every word of every slot has been written.
    auto const& tables = device.prepared().tables();
    for (std::uint32_t connection = 0; connection < tables.connection_count(); ++connection) {
      auto const* const words =
          reinterpret_cast<blink::packet const*>(tables.connections()[connection].slots);
      std::size_t const count = how.window * tables.layout().slot_bytes / sizeof(blink::packet);
      for (std::size_t k = 0; k < count; ++k) EXPECT_NE(words[k], 0U);
    }
  }
}

// A block that never starts: all other blocks end and report it.
TEST(emulated_peers, a_missing_block_ends_the_call) {
  for (std::uint32_t const threads : {1U, 3U}) {
    emulation how;
    how.block_threads = threads;
    how.deadline_nanoseconds = 50'000'000;
    how.missing_block = 1;
    collective_case const what{blink::collective::all_reduce, 100, false, 0, 1};
    auto const source = blink::chain_schedule(3, 1);
    emulated_device<blink::slot_peer_transport> chunks(source, how);
    EXPECT_NE(chunks.run<float>(what, blink::sum{}), "");
    emulated_device<blink::slot_peer_transport, blink::small_packets> packets(source, how);
    EXPECT_NE(packets.run<float>(what, blink::sum{}), "");
  }
}

}}  // namespace emulated_blocks_test
