// SPDX-License-Identifier: Apache-2.0
// Communicators made from others: revoked ones that are split or shrunk, shrunk ones, grown ones.

#include "program.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

// The sources of a folder may be compiled as one.
namespace derived_test { namespace {

using namespace blink_test;
using texts = std::vector<std::string>;

std::vector<result> good(std::size_t count) {
  return std::vector<result>(count, result::success);
}
/// The sum of 1, 10, 100, ... over communicators on these devices, as each rank finds it.
std::vector<float> sums(std::vector<communicator*> const& comm, std::vector<int> const& device) {
  std::vector<std::unique_ptr<elements<float>>> data;
  float value = 1;
  for (int const one : device) {
    data.push_back(std::make_unique<elements<float>>(one, 1, value));
    value *= 10;
  }
  EXPECT_EQ(ncclGroupStart(), result::success);
  for (std::size_t k = 0; k < comm.size(); ++k) {
    EXPECT_EQ(sum_on_stream(comm[k], *data[k], static_cast<int>(k % 3) + 1), result::success);
  }
  EXPECT_EQ(ncclGroupEnd(), result::success) << ncclGetLastError(nullptr);
  std::vector<float> found;
  for (std::size_t k = 0; k < comm.size(); ++k) {
    devices().synchronize(device[k], static_cast<int>(k % 3) + 1);
    found.push_back((*data[k])[0]);
  }
  return found;
}
void destroy(std::vector<communicator*> const& list) {
  for (auto* const one : list) EXPECT_EQ(ncclCommDestroy(one), result::success);
}
/// Shrinks by ranks that are not excluded, each in its thread. Returns their communicators.
std::vector<communicator*> shrink(program const& all, std::vector<int> excluded, int flags = 0) {
  std::vector<std::size_t> rest;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (std::count(excluded.begin(), excluded.end(), static_cast<int>(rank)) == 0) {
      rest.push_back(rank);
    }
  }
  std::vector<communicator*> by_rank(all.size());
  EXPECT_EQ(by_threads_of(rest,
                          [&](std::size_t rank) {
                            auto list = excluded;
                            return ncclCommShrink(all.comm[rank], list.data(),
                                                  static_cast<int>(list.size()), &by_rank[rank],
                                                  nullptr, flags);
                          }),
            good(rest.size()));
  std::vector<communicator*> made;
  for (auto const rank : rest) made.push_back(by_rank[rank]);
  return made;
}

// --- shrink ---

TEST(nccl_derived, shrunk_ranks_keep_their_order_and_devices) {
  program const all({3, 1, 2, 0, 1});
  for (int round = 0; round < 2; ++round) {  // the same ranks again
    auto const made = shrink(all, {3, 1});
    ASSERT_EQ(made.size(), 3U);
    EXPECT_EQ((texts{place_in(made[0]), place_in(made[1]), place_in(made[2])}),
              (texts{"0 of 3", "1 of 3", "2 of 3"}));
    int device = -1;
    EXPECT_EQ(ncclCommCuDevice(made[1], &device), result::success);
    EXPECT_EQ(device, 2);
    EXPECT_EQ(sums(made, {3, 2, 1}), std::vector<float>(3, 111));
    destroy(made);
  }
  auto const others = shrink(all, {0});  // with a rank that took no part before
  EXPECT_EQ(sums(others, {1, 2, 0, 1}), std::vector<float>(4, 1111));
  destroy(others);
  EXPECT_EQ(sums(all.comm, all.device), std::vector<float>(5, 11111)) << "the parent goes on";
}

TEST(nccl_derived, one_thread_shrinks_in_a_group) {
  program const all({0, 1, 2});
  std::vector<communicator*> made(2);
  int excluded[] = {0};
  EXPECT_EQ(ncclGroupStart(), result::success);
  for (std::size_t k = 0; k < 2; ++k) {
    EXPECT_EQ(ncclCommShrink(all.comm[k + 1], excluded, 1, &made[k], nullptr, 0), result::success);
  }
  EXPECT_EQ(ncclGroupEnd(), result::success) << ncclGetLastError(nullptr);
  EXPECT_EQ(sums(made, {1, 2}), std::vector<float>(2, 11));
  destroy(made);
}

TEST(nccl_derived, one_that_does_not_block_is_shrunk_without_waiting) {
  program const all({0, 1, 2});
  std::vector<communicator*> made(2);
  auto config = not_blocking();
  int excluded[] = {1};
  EXPECT_EQ(ncclCommShrink(all.comm[0], excluded, 1, &made[0], &config, 0), result::in_progress);
  EXPECT_EQ(async_error(made[0]), result::in_progress);
  EXPECT_EQ(ncclCommShrink(all.comm[2], excluded, 1, &made[1], &config, 0), result::success);
  EXPECT_EQ(async_error(made[0]), result::success);
  EXPECT_EQ(place_in(made[1]), "1 of 2");
  destroy(made);
}

TEST(nccl_derived, a_shrink_with_abort_ends_calls_that_wait) {
  program const all({0, 1, 2});
  elements<float> const data(0, 1);
  std::jthread const waits([&] {
    expect_refused(sum_on_stream(all.comm[0], data, 1), result::remote_error,
                   "has shrunk and ended the communicator");
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  auto const made = shrink(all, {1}, shrink_aborts);
  EXPECT_EQ(sums(made, {0, 2}), std::vector<float>(2, 11));
  destroy(made);
  EXPECT_EQ(async_error(all.comm[1]), result::remote_error);
}

TEST(nccl_derived, ranks_that_do_not_shrink_are_named) {
  with_deadline const soon("0.1");
  program const all({0, 1, 2});
  communicator* made = nullptr;
  int excluded[] = {1};
  expect_refused(ncclCommShrink(all.comm[2], excluded, 1, &made, nullptr, 0), result::remote_error,
                 "of 2 ranks these have not come: 0");
  EXPECT_EQ(made, nullptr);
}

TEST(nccl_derived, arguments_of_a_shrink) {
  program const all({0, 1});
  communicator* made = nullptr;
  auto const call = [&](std::vector<int> list, int flags = 0) {
    return ncclCommShrink(all.comm[0], list.data(), static_cast<int>(list.size()), &made, nullptr,
                          flags);
  };
  auto const invalid = result::invalid_argument;
  expect_refused(call({}), invalid, "the list of excluded ranks is empty");
  expect_refused(ncclCommShrink(all.comm[0], nullptr, 1, &made, nullptr, 0), invalid, "is empty");
  expect_refused(call({2}), invalid, "excluded rank 2 of 2 ranks");
  expect_refused(call({-1}), invalid, "excluded rank -1");
  expect_refused(call({1, 1}), invalid, "excluded rank 1 is listed twice");
  expect_refused(call({0}), invalid, "excluded rank 0 is the calling rank");
  expect_refused(call({1}, 2), invalid, "flags 2, expected 0 or 1");
  int one[] = {1};
  expect_refused(ncclCommShrink(all.comm[0], one, 1, nullptr, nullptr, 0), invalid, "is null");
  EXPECT_EQ(call({1}), result::success);
  EXPECT_EQ(place_in(made), "0 of 1");
  EXPECT_EQ(ncclCommDestroy(made), result::success);
}

// --- revoke ---

TEST(nccl_derived, a_revoked_communicator_takes_no_calls) {
  program const all({0, 1});
  elements<float> const data(0, 1);
  expect_refused(ncclCommRevoke(all.comm[0], 1), result::invalid_argument, "flags 1, expected 0");
  EXPECT_EQ(ncclCommRevoke(nullptr, 0), result::success);
  EXPECT_EQ(ncclCommRevoke(all.comm[0], 0), result::success);
  EXPECT_EQ(async_error(all.comm[0]), result::success) << "it has nothing more to do";
  expect_refused(sum_on_stream(all.comm[0], data, 1), result::invalid_usage,
                 "the communicator was revoked, expected ncclCommShrink");
  expect_refused(ncclCommRevoke(all.comm[0], 0), result::invalid_argument, "was revoked already");
  expect_refused(ncclCommFinalize(all.comm[0]), result::invalid_usage, "was revoked");
  EXPECT_EQ(async_error(all.comm[1]), result::remote_error);
  expect_refused(sum_on_stream(all.comm[1], data, 1), result::remote_error,
                 "rank 0 has revoked the communicator");
  EXPECT_EQ(ncclCommRevoke(all.comm[1], 0), result::success);
  EXPECT_EQ(async_error(all.comm[1]), result::success);
}

TEST(nccl_derived, a_revoked_communicator_is_shrunk_and_split) {
  program const all({0, 1, 2, 0});
  EXPECT_EQ(all.by_threads([&](std::size_t rank) { return ncclCommRevoke(all.comm[rank], 0); }),
            good(4));
  auto const less = shrink(all, {2});
  EXPECT_EQ(sums(less, {0, 1, 0}), std::vector<float>(3, 111));
  destroy(less);
  for (int round = 0; round < 2; ++round) {
    std::vector<communicator*> part(4);
    auto const split = [&](std::size_t rank) {
      int const color = rank == 1 ? no_color : 7;
      return ncclCommSplit(all.comm[rank], color, -static_cast<int>(rank), &part[rank], nullptr);
    };
    if (round == 0) {
      EXPECT_EQ(all.by_threads(split), good(4));
    } else {
      EXPECT_EQ(all.by_one_thread(split), result::success) << ncclGetLastError(nullptr);
    }
    EXPECT_EQ(part[1], nullptr);
    EXPECT_EQ((texts{place_in(part[3]), place_in(part[2]), place_in(part[0])}),
              (texts{"0 of 3", "1 of 3", "2 of 3"}));
    EXPECT_EQ(sums({part[3], part[2], part[0]}, {0, 2, 0}), std::vector<float>(3, 111));
    destroy({part[0], part[2], part[3]});
  }
}

TEST(nccl_derived, a_revoke_ends_a_call_that_waits) {
  program const all({0, 1});
  elements<float> const data(0, 1);
  std::jthread const waits([&] {
    expect_refused(sum_on_stream(all.comm[0], data, 1), result::remote_error,
                   "rank 1 has revoked the communicator");
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(ncclCommRevoke(all.comm[1], 0), result::success);
}

TEST(nccl_derived, a_revoke_waits_for_kernels_until_the_deadline) {
  with_deadline const soon("0.3");
  program const all({0, 1});
  elements<float> const a(0, 1, 1), b(1, 1, 2);
  devices().hold_stream(1, 2);  // the kernel on device 0 waits for the one behind it
  EXPECT_EQ(all.by_one_thread([&](std::size_t rank) {
    return sum_on_stream(all.comm[rank], rank == 0 ? a : b, static_cast<int>(rank) + 1);
  }),
            result::success);
  devices().wait_for_kernel(0);
  expect_refused(ncclCommRevoke(all.comm[0], 0), result::remote_error, "streams are held up");
  devices().synchronize(0, 1);  // this kernel has ended
  EXPECT_EQ(async_error(all.comm[0]), result::in_progress);
  devices().release_stream(1, 2);
  EXPECT_EQ(ncclCommRevoke(all.comm[1], 0), result::success);
  EXPECT_EQ(async_error(all.comm[0]), result::success);
}

TEST(nccl_derived, one_that_does_not_block_is_revoked_without_waiting) {
  auto const id = new_id();
  auto config = not_blocking();
  std::vector<communicator*> comm(2);
  elements<float> const data(0, 2);
  EXPECT_EQ(ncclCommInitRankConfig(&comm[0], 2, id, 0, &config), result::in_progress);
  expect_refused(ncclCommRevoke(comm[0], 0), result::invalid_argument, "not complete yet");
  EXPECT_EQ(ncclCommInitRankConfig(&comm[1], 2, id, 1, &config), result::success);
  EXPECT_EQ(sum_on_stream(comm[1], data, 2), result::in_progress);
  EXPECT_EQ(ncclCommRevoke(comm[1], 0), result::success) << "the call had not begun";
  EXPECT_EQ(async_error(comm[1]), result::success);
  destroy(comm);
}

// --- grow ---

/// Grows a communicator by threads, with new ranks on device 3. Returns the new communicators by
/// rank.
std::vector<communicator*> grow(program const& all, int to, unique_id const& id,
                                unique_id const* of_root) {
  std::vector<communicator*> made(static_cast<std::size_t>(to));
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < made.size(); ++rank) {
      threads.emplace_back([&, rank] {
        bool const is_new = rank >= all.size();
        if (is_new) emulated_platform::device_of_thread() = 3;
        EXPECT_EQ(ncclCommGrow(is_new ? nullptr : all.comm[rank], to,
                               is_new      ? &id
                               : rank == 0 ? of_root
                                           : nullptr,
                               is_new ? static_cast<int>(rank) : -1, &made[rank], nullptr),
                  result::success)
            << ncclGetLastError(nullptr);
      });
    }
  }
  return made;
}

TEST(nccl_derived, ranks_are_added) {
  program const all({1, 0});
  for (int round = 0; round < 2; ++round) {
    unique_id id{};
    ASSERT_EQ(ncclCommGetUniqueId(all.comm[static_cast<std::size_t>(round)], &id), result::success);
    unique_id again{};
    expect_refused(ncclCommGetUniqueId(all.comm[0], &again), result::invalid_usage,
                   "was not used, expected ncclCommGrow first");
    auto const made = grow(all, 4, id, round == 0 ? &id : nullptr);
    EXPECT_EQ(place_in(made[0]), "0 of 4");
    EXPECT_EQ(place_in(made[3]), "3 of 4");
    EXPECT_EQ(sums(made, {1, 0, 3, 3}), std::vector<float>(4, 1111));
    destroy(made);
  }
  EXPECT_EQ(sums(all.comm, all.device), std::vector<float>(2, 11)) << "the parent goes on";
}

TEST(nccl_derived, ranks_are_added_in_a_group_before_the_id_is_asked_for) {
  program const all({0, 1});
  std::vector<communicator*> made(3);
  auto config = not_blocking();
  EXPECT_EQ(ncclCommGrow(all.comm[1], 3, nullptr, -1, &made[1], &config), result::in_progress);
  unique_id id{};
  ASSERT_EQ(ncclCommGetUniqueId(all.comm[0], &id), result::success);
  EXPECT_EQ(ncclGroupStart(), result::success);
  EXPECT_EQ(ncclCommGrow(all.comm[0], 3, &id, -1, &made[0], nullptr), result::success);
  EXPECT_EQ(ncclCommGrow(nullptr, 3, &id, 2, &made[2], nullptr), result::success);
  EXPECT_EQ(ncclGroupEnd(), result::success) << ncclGetLastError(nullptr);
  EXPECT_EQ(async_error(made[1]), result::success);
  EXPECT_EQ(sums(made, {0, 1, 0}), std::vector<float>(3, 111));
  destroy(made);
}

TEST(nccl_derived, arguments_of_a_growth) {
  program const all({0, 1});
  communicator* made = nullptr;
  auto const id = new_id();
  auto const invalid = result::invalid_argument;
  expect_refused(ncclCommGrow(all.comm[0], 2, nullptr, -1, &made, nullptr), invalid,
                 "2 ranks, expected more than the 2 that exist");
  expect_refused(ncclCommGrow(all.comm[0], 3, nullptr, 0, &made, nullptr), invalid,
                 "rank 0 of a rank that exists, expected -1");
  expect_refused(ncclCommGrow(all.comm[0], 3, &id, -1, &made, nullptr), invalid,
                 "the unique id is another one");
  expect_refused(ncclCommGrow(nullptr, 3, nullptr, 2, &made, nullptr), invalid,
                 "the unique id is null");
  expect_refused(ncclCommGrow(nullptr, 3, &id, 3, &made, nullptr), invalid, "rank 3 of 3 ranks");
  expect_refused(ncclCommGrow(nullptr, 3, &id, -1, &made, nullptr), invalid, "rank -1 of 3");
  expect_refused(ncclCommGrow(nullptr, 3, &id, 2, nullptr, nullptr), invalid, "is null");
  expect_refused(ncclCommGrow(all.comm[0], 3, nullptr, -1, nullptr, nullptr), invalid, "is null");
  expect_refused(ncclCommGetUniqueId(all.comm[0], nullptr), invalid, "is null");
  with_deadline const soon("0.1");
  ASSERT_EQ(ncclCommGrow(all.comm[1], 3, nullptr, -1, &made, nullptr), result::remote_error);
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("these have not come: 0, 2"),
            std::string::npos)
      << ncclGetLastError(nullptr);
}

// --- suspend ---

std::uint64_t statistic(communicator* comm, memory_statistic which) {
  std::uint64_t value = 99;
  EXPECT_EQ(ncclCommMemStats(comm, which, &value), result::success) << ncclGetLastError(nullptr);
  return value;
}

TEST(nccl_derived, a_suspended_rank_takes_no_calls) {
  program const all({0, 1});
  EXPECT_EQ(sums(all.comm, all.device), std::vector<float>(2, 11));
  auto* const comm = all.comm[0];
  elements<float> const data(0, 1);
  auto const bytes = statistic(comm, memory_statistic::total_bytes);
  EXPECT_GT(bytes, 0U);
  EXPECT_EQ(statistic(comm, memory_statistic::is_suspended), 0U);
  expect_refused(ncclCommSuspend(comm, 0), result::invalid_argument, "flags 0, expected 1");
  expect_refused(ncclCommResume(comm), result::invalid_usage, "is not suspended");
  EXPECT_EQ(ncclCommSuspend(comm, suspends_memory), result::success);
  EXPECT_EQ(statistic(comm, memory_statistic::is_suspended), 1U);
  EXPECT_EQ(statistic(comm, memory_statistic::suspendable_bytes), 0U);
  EXPECT_EQ(statistic(comm, memory_statistic::persistent_bytes), bytes);
  EXPECT_EQ(statistic(comm, memory_statistic::total_bytes), bytes);
  char const* const expected = "is suspended, expected ncclCommResume first";
  expect_refused(sum_on_stream(comm, data, 1), result::invalid_usage, expected);
  expect_refused(ncclCommSuspend(comm, suspends_memory), result::invalid_usage, expected);
  communicator* part = nullptr;
  expect_refused(ncclCommSplit(comm, 0, 0, &part, nullptr), result::invalid_usage, expected);
  EXPECT_EQ(ncclCommResume(comm), result::success);
  EXPECT_EQ(sums(all.comm, all.device), std::vector<float>(2, 11));
  std::uint64_t value = 0;
  expect_refused(ncclCommMemStats(comm, static_cast<memory_statistic>(4), &value),
                 result::invalid_argument, "statistic 4, expected 0 to 3");
  expect_refused(ncclCommMemStats(comm, memory_statistic::total_bytes, nullptr),
                 result::invalid_argument, "is null");
}

}}  // namespace derived_test
