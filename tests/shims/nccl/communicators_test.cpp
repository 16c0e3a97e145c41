// SPDX-License-Identifier: Apache-2.0
// Communicators: made by one thread or by many, blocking or not, split, aborted, destroyed in any
// order.

#include "program.hpp"

#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

// The sources of a folder may be compiled as one.
namespace communicators_test { namespace {

using namespace blink_test;

TEST(nccl_communicators, threads_begin_one) {
  auto const id = new_id();
  static constexpr int ranks = 4;
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&id, rank] {
      emulated_platform::device_of_thread() = 3 - rank;
      communicator* comm = nullptr;
      ASSERT_EQ(ncclCommInitRank(&comm, ranks, id, rank), result::success);
      int found[3] = {};
      EXPECT_EQ(ncclCommCount(comm, &found[0]), result::success);
      EXPECT_EQ(ncclCommUserRank(comm, &found[1]), result::success);
      EXPECT_EQ(ncclCommCuDevice(comm, &found[2]), result::success);
      EXPECT_EQ(found[0], ranks);
      EXPECT_EQ(found[1], rank);
      EXPECT_EQ(found[2], 3 - rank);
      elements<float> const data(3 - rank, 1, static_cast<float>(rank));
      EXPECT_EQ(sum_on_stream(comm, data, 1), result::success);
      devices().synchronize(3 - rank, 1);
      EXPECT_EQ(data[0], 6.0F);
      EXPECT_EQ(ncclCommFinalize(comm), result::success);
      expect_refused(sum_on_stream(comm, data, 1), result::invalid_usage, "was finalized");
      EXPECT_EQ(ncclCommDestroy(comm), result::success);
    });
  }
}

TEST(nccl_communicators, a_group_begins_one) {
  auto const id = new_id();
  communicator* comm[3] = {};
  ASSERT_EQ(ncclGroupStart(), result::success);
  for (int rank = 0; rank < 3; ++rank) {
    emulated_platform::device_of_thread() = rank;
    EXPECT_EQ(ncclCommInitRankConfig(&comm[rank], 3, id, rank, nullptr), result::success);
  }
  emulated_platform::device_of_thread() = 0;
  EXPECT_EQ(ncclGroupEnd(), result::success);
  for (auto* const one : comm) EXPECT_EQ(async_error(one), result::success);
  communicator* again = nullptr;
  expect_refused(ncclCommInitRank(&again, 3, id, 0), result::invalid_usage, "already");
  EXPECT_EQ(again, nullptr);
  for (auto* const one : comm) EXPECT_EQ(ncclCommDestroy(one), result::success);
}

TEST(nccl_communicators, one_that_does_not_block) {
  auto const id = new_id();
  auto config = not_blocking();
  communicator* comm[2] = {};
  EXPECT_EQ(ncclCommInitRankConfig(&comm[0], 2, id, 0, &config), result::in_progress);
  EXPECT_EQ(async_error(comm[0]), result::in_progress);
  elements<float> const data(0, 2, 1.5F);
  expect_refused(sum_on_stream(comm[0], data, 1), result::invalid_argument, "not complete");
  EXPECT_EQ(ncclCommInitRankConfig(&comm[1], 2, id, 1, &config), result::success);
  EXPECT_EQ(async_error(comm[0]), result::success);
  auto const call = [&](int rank) {
    return ncclAllReduce(data.data() + rank, data.data() + rank, 1, data_type::float32,
                         operation::sum, comm[rank], stream_number(rank + 1));
  };
  EXPECT_EQ(call(1), result::in_progress);
  EXPECT_EQ(async_error(comm[1]), result::in_progress);
  EXPECT_EQ(call(0), result::success);
  EXPECT_EQ(async_error(comm[1]), result::success);
  devices().synchronize(0, 1);
  devices().synchronize(0, 2);
  EXPECT_EQ(data[0], 3.0F);
  EXPECT_EQ(data[1], 3.0F);
  for (auto* const one : comm) EXPECT_EQ(ncclCommDestroy(one), result::success);
}

TEST(nccl_communicators, ranks_that_never_come) {
  with_deadline const soon("0.1");
  communicator* comm = nullptr;
  auto const id = new_id();
  expect_refused(ncclCommInitRank(&comm, 3, id, 1), result::remote_error,
                 "these have not come: 0, 2");
  EXPECT_EQ(comm, nullptr);
  expect_refused(ncclCommInitRank(&comm, 3, id, 0), result::remote_error, "have not come");
}

TEST(nccl_communicators, ranks_that_disagree_when_they_begin) {
  for (bool const same_rank : {true, false}) {
    auto const id = new_id();
    communicator* comm[2] = {};
    EXPECT_EQ(ncclGroupStart(), result::success);
    EXPECT_EQ(ncclCommInitRank(&comm[0], 2, id, 0), result::success);
    EXPECT_EQ(ncclCommInitRank(&comm[1], same_rank ? 2 : 3, id, same_rank ? 0 : 1),
              result::success);
    expect_refused(ncclGroupEnd(), result::invalid_usage,
                   same_rank ? "duplicate rank 0" : "earlier ranks have passed 2 ranks");
    EXPECT_EQ(comm[0], nullptr);
    EXPECT_EQ(comm[1], nullptr);
  }
}

TEST(nccl_communicators, ids_of_other_processes_are_refused) {
  communicator* comm = nullptr;
  unique_id id{};
  expect_refused(ncclCommInitRank(&comm, 2, id, 0), result::invalid_usage, "never set");
  id = new_id();
  id.bytes[40] = static_cast<char>(id.bytes[40] ^ 1);
  expect_refused(ncclCommInitRank(&comm, 2, id, 0), result::invalid_usage, "BLINK_NCCL_FALLBACK");
}

TEST(nccl_communicators, split_by_color_and_key) {
  program const all({0, 1, 2, 3, 0});
  std::vector<communicator*> part(5);
  auto const split = [&](std::size_t rank) {
    int const color = rank == 2 ? no_color : static_cast<int>(rank % 2);
    return ncclCommSplit(all.comm[rank], color, -static_cast<int>(rank), &part[rank], nullptr);
  };
  EXPECT_EQ(all.by_threads(split), std::vector<result>(5, result::success));
  EXPECT_EQ(part[2], nullptr);
  int const expected_rank[5] = {1, 1, -1, 0, 0};
  for (std::size_t rank : {0U, 4U, 1U, 3U}) {
    int found = -1, count = 0;
    EXPECT_EQ(ncclCommUserRank(part[rank], &found), result::success);
    EXPECT_EQ(ncclCommCount(part[rank], &count), result::success);
    EXPECT_EQ(found, expected_rank[rank]);
    EXPECT_EQ(count, 2);
  }
  elements<float> const a(0, 1, 1), b(0, 1, 10);
  EXPECT_EQ(ncclGroupStart(), result::success);
  EXPECT_EQ(sum_on_stream(part[0], a, 1), result::success);
  EXPECT_EQ(sum_on_stream(part[4], b, 2), result::success);
  EXPECT_EQ(ncclGroupEnd(), result::success);
  devices().synchronize(0, 1);
  devices().synchronize(0, 2);
  EXPECT_EQ(a[0], 11.0F);
  EXPECT_EQ(b[0], 11.0F);
  for (std::size_t rank : {0U, 1U, 3U, 4U}) {
    EXPECT_EQ(ncclCommDestroy(part[rank]), result::success);
  }
}

TEST(nccl_communicators, a_rank_that_never_calls) {
  with_deadline const soon("0.1");
  program const all({0, 1, 2});
  elements<float> const data(0, 1);
  expect_refused(sum_on_stream(all.comm[0], data, 1), result::remote_error,
                 "rank 0 waits in ncclAllReduce of 1 float32, sum; rank 1 has not called; rank 2 "
                 "has not called");
  for (auto* const one : all.comm) EXPECT_EQ(async_error(one), result::remote_error);
  expect_refused(sum_on_stream(all.comm[1], data, 1), result::remote_error, "no progress");
}

TEST(nccl_communicators, abort_while_a_rank_never_calls) {
  program all({0, 1});
  elements<float> const data(0, 1);
  {
    std::jthread const waits([&] {
      expect_refused(sum_on_stream(all.comm[0], data, 1), result::remote_error,
                     "rank 1 has aborted the communicator");
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(ncclCommAbort(all.comm[1]), result::success);
  }
  EXPECT_EQ(async_error(all.comm[0]), result::remote_error);
  EXPECT_NE(std::string(ncclGetLastError(all.comm[0])).find("aborted"), std::string::npos);
  int count = 0;
  expect_refused(ncclCommCount(all.comm[1], &count), result::invalid_argument, "destroyed");
  EXPECT_EQ(ncclCommAbort(all.comm[0]), result::success);
  all.comm.clear();
  all.device.clear();
}

TEST(nccl_communicators, a_kernel_that_waits_is_aborted) {
  program all({0, 1});
  elements<float> const a(0, 1, 1), b(1, 1, 2);
  devices().hold_stream(1, 2);  // the kernel on device 0 waits for the kernel after it
  EXPECT_EQ(all.by_one_thread([&](std::size_t rank) {
    return sum_on_stream(all.comm[rank], rank == 0 ? a : b, static_cast<int>(rank) + 1);
  }),
            result::success);
  devices().wait_for_kernel(0);
  EXPECT_EQ(ncclCommAbort(all.comm[0]), result::success);
  devices().synchronize(0, 1);  // the kernel ends
  EXPECT_EQ(async_error(all.comm[1]), result::remote_error);
  devices().release_stream(1, 2);
  EXPECT_EQ(ncclCommAbort(all.comm[1]), result::success);
  all.comm.clear();
  all.device.clear();
}

TEST(nccl_communicators, calls_that_need_a_rank_that_is_gone) {
  program all({0, 1, 2});
  elements<float> const data(0, 1), other(1, 1);
  EXPECT_EQ(ncclCommDestroy(all.comm[2]), result::success);
  expect_refused(sum_on_stream(all.comm[0], data, 1), result::invalid_usage,
                 "rank 2 has destroyed its communicator");
  all.comm.pop_back();
  all.device.pop_back();
  EXPECT_EQ(all.by_one_thread([&](std::size_t rank) {  // these two ranks do not need the third one
    return rank == 0
               ? ncclSend(data.data(), 1, data_type::float32, 1, all.comm[0], program::stream(0))
               : ncclRecv(other.data(), 1, data_type::float32, 0, all.comm[1], program::stream(1));
  }),
            result::success);
  all.synchronize();
}

}}  // namespace communicators_test
