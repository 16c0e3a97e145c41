// SPDX-License-Identifier: Apache-2.0
// Streams: ranks on one device have separate streams, calls are ordered after earlier work in all
//          of them, graphs hold calls.

#include "program.hpp"

#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

// The sources of a folder may be compiled as one.
namespace streams_test { namespace {

using namespace blink_test;

struct three_ranks {
  program all{{0, 0, 1}};
  elements<float> a{0, 2, 1.0F}, b{0, 2, 2.0F}, c{1, 2, 3.0F};
  [[nodiscard]] float* data(std::size_t rank) const {
    return rank == 0 ? a.data() : rank == 1 ? b.data() : c.data();
  }
  /// The first elements are added; the second one goes from rank 2 to rank 0.
  [[nodiscard]] result call() const {
    return all.by_one_thread([&](std::size_t rank) {
      auto* const comm = all.comm[rank];
      auto const stream = program::stream(rank);
      if (rank == 0) (void)ncclRecv(data(0) + 1, 1, data_type::float32, 2, comm, stream);
      if (rank == 2) (void)ncclSend(data(2) + 1, 1, data_type::float32, 0, comm, stream);
      return ncclAllReduce(data(rank), data(rank), 1, data_type::float32, operation::sum, comm,
                           stream);
    });
  }
};

TEST(nccl_streams, calls_run_behind_what_is_in_the_streams_of_all_ranks) {
  for (int const held : {1, 2, 3}) {
    three_ranks const ranks;
    int const device = held == 3 ? 1 : 0;
    devices().hold_stream(device, held);
    EXPECT_EQ(ranks.call(), result::success);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(ranks.data(static_cast<std::size_t>(held) - 1)[0], static_cast<float>(held));
    devices().release_stream(device, held);
    ranks.all.synchronize();
    for (std::size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks.data(rank)[0], 6.0F);
    EXPECT_EQ(ranks.data(0)[1], 3.0F);
  }
}

TEST(nccl_streams, what_follows_in_the_stream_of_a_rank_sees_the_result) {
  for (std::size_t const rank : {0U, 1U, 2U}) {
    three_ranks const ranks;
    int const held = rank == 2 ? 1 : 3;
    int const device = held == 3 ? 1 : 0;
    devices().hold_stream(device, held);
    EXPECT_EQ(ranks.call(), result::success);
    std::jthread const later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      devices().release_stream(device, held);
    });
    devices().synchronize(ranks.all.device[rank], static_cast<int>(rank) + 1);
    EXPECT_EQ(ranks.data(rank)[0], 6.0F);
    if (rank == 0) {
      EXPECT_EQ(ranks.data(0)[1], 3.0F);
    }
  }
}

TEST(nccl_streams, captured_calls_are_replayed) {
  three_ranks const ranks;
  EXPECT_EQ(ranks.call(), result::success);  // prepared schedules stay
  ranks.all.synchronize();
  devices().begin_capture({1, 2, 3});
  EXPECT_EQ(ranks.call(), result::success);
  auto const graph = devices().end_capture({1, 2, 3});
  EXPECT_EQ(ranks.data(0)[0], 6.0F);
  ranks.data(2)[1] = 5.0F;
  for (float const expected : {18.0F, 54.0F}) {
    devices().replay(graph);
    for (int device : {0, 1}) devices().synchronize(device);
    for (std::size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks.data(rank)[0], expected);
    EXPECT_EQ(ranks.data(0)[1], 5.0F);
  }
}

TEST(nccl_streams, streams_of_two_graphs_are_refused) {
  three_ranks const ranks;
  devices().begin_capture({1});
  devices().begin_capture({2, 3});
  expect_refused(ranks.call(), result::invalid_usage, "expected one graph for all");
  (void)devices().end_capture({1});
  (void)devices().end_capture({2, 3});
  EXPECT_EQ(ranks.call(), result::success);
  ranks.all.synchronize();
  EXPECT_EQ(ranks.data(1)[0], 6.0F);
}

}}  // namespace streams_test
