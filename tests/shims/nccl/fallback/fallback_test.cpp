// SPDX-License-Identifier: Apache-2.0
// Unsupported calls go to the library that BLINK_NCCL_FALLBACK names: communicators whose ranks are
// not all in this process. Run with that variable set.

#include "shims/nccl/forked_program.hpp"
#include "shims/nccl/program.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using namespace blink_test;

float all_reduce(communicator* comm, std::size_t count, result expected) {
  elements<float> const data(0, 8, 1.0F);
  EXPECT_EQ(ncclAllReduce(data.data(), data.data(), count, data_type::float32, operation::sum, comm,
                          program::stream(0)),
            expected);
  devices().synchronize(0, 1);
  return data[0];
}

/// The result of a sum of ones, or the error, in each of two processes with ids that have room for
/// blink's mark.
///
/// count: expected number of ranks; those of process p are p, p + 2, ...
std::vector<std::string> sums_of_processes(int count, int ranks_each) {
  setenv("OTHER_LIBRARY_LEAVES_ROOM", "1", 1);
  auto texts = run_processes(2, [&](own_process& mine) -> std::string {
    auto const id = mine.new_id();
    communicator* comm[2] = {};
    (void)ncclGroupStart();
    for (int k = 0; k < ranks_each; ++k) {
      (void)ncclCommInitRank(&comm[k], count, id, mine.number() + 2 * k);
    }
    if (auto const code = ncclGroupEnd(); code != result::success) return said(code);
    auto const sum = all_reduce(comm[0], 1, result::success);
    for (int k = 0; k < ranks_each; ++k) (void)ncclCommDestroy(comm[k]);
    mine.match();
    return std::to_string(static_cast<int>(sum));
  });
  unsetenv("OTHER_LIBRARY_LEAVES_ROOM");
  return texts;
}

// These tests come first, because they fork, and devices of this process have threads from their
// first use on.
TEST(nccl_fallback, ranks_of_several_processes_stay) {
  EXPECT_EQ(sums_of_processes(2, 1), (std::vector<std::string>{"2", "2"}));
}

TEST(nccl_fallback, processes_whose_ranks_are_not_in_a_row_go_there) {
  EXPECT_EQ(sums_of_processes(4, 2), (std::vector<std::string>{"1000", "1000"}));
}

TEST(nccl_fallback, ranks_that_do_not_come_to_this_host_go_there) {
  setenv("BLINK_DEADLINE", "0.3", 1);  // less than the time for the remaining ranks
  EXPECT_EQ(sums_of_processes(3, 1), (std::vector<std::string>{"1000", "1000"}));
  unsetenv("BLINK_DEADLINE");
}

TEST(nccl_fallback, several_processes_go_there_if_they_are_to) {
  setenv("BLINK_NCCL_PROCESSES", "0", 1);
  EXPECT_EQ(sums_of_processes(2, 1), (std::vector<std::string>{"1000", "1000"}));
  unsetenv("BLINK_NCCL_PROCESSES");
}

TEST(nccl_fallback, ids_of_other_processes_go_there) {
  unique_id id{};
  id.bytes[0] = 'x';
  communicator* comm = nullptr;
  ASSERT_EQ(ncclCommInitRank(&comm, 100, id, 70), result::success) << ncclGetLastError(nullptr);
  int found = 0;
  EXPECT_EQ(ncclCommCount(comm, &found), result::success);
  EXPECT_EQ(found, 100);
  EXPECT_EQ(ncclCommUserRank(comm, &found), result::success);
  EXPECT_EQ(found, 70);
  EXPECT_EQ(ncclCommCuDevice(comm, &found), result::success);
  EXPECT_EQ(found, 0) << "begun outside of a group";
  EXPECT_EQ(all_reduce(comm, 1, result::success), 1000.0F);
  all_reduce(comm, 7, result::system_error);
  EXPECT_EQ(std::string(ncclGetLastError(comm)), "the other library");
  communicator* smaller = nullptr;
  EXPECT_EQ(ncclCommShrink(comm, nullptr, 0, &smaller, nullptr, 0), result::invalid_usage);
  communicator* part = nullptr;
  EXPECT_EQ(ncclCommSplit(comm, 3, 5, &part, nullptr), result::success);
  EXPECT_EQ(ncclCommUserRank(part, &found), result::success);
  EXPECT_EQ(found, 5);
  EXPECT_EQ(ncclCommDestroy(part), result::success);
  EXPECT_EQ(ncclCommSplit(comm, -1, 5, &part, nullptr), result::success);
  EXPECT_EQ(part, nullptr);
  EXPECT_EQ(ncclCommDestroy(comm), result::success);
}

TEST(nccl_fallback, communicators_there_grow_there) {
  unique_id id{};
  id.bytes[0] = 'x';
  communicator* comm = nullptr;
  ASSERT_EQ(ncclCommInitRank(&comm, 100, id, 70), result::success);
  unique_id more{};
  ASSERT_EQ(ncclCommGetUniqueId(comm, &more), result::success);
  EXPECT_EQ(more.bytes[0], 'g');
  communicator* grown[2] = {};
  EXPECT_EQ(ncclCommGrow(comm, 101, nullptr, -1, &grown[0], nullptr), result::success);
  EXPECT_EQ(ncclCommGrow(nullptr, 101, &more, 100, &grown[1], nullptr), result::success)
      << ncclGetLastError(nullptr);
  EXPECT_EQ(place_in(grown[0]), "70 of 101");
  EXPECT_EQ(place_in(grown[1]), "100 of 101");
  EXPECT_EQ(all_reduce(grown[1], 1, result::success), 1000.0F);
  for (auto* const one : {comm, grown[0], grown[1]}) {
    EXPECT_EQ(ncclCommDestroy(one), result::success);
  }
}

TEST(nccl_fallback, communicators_here_grow_here) {
  program const all({0, 1});
  unique_id id{};
  ASSERT_EQ(ncclCommGetUniqueId(all.comm[1], &id), result::success);
  communicator* grown[3] = {};
  EXPECT_EQ(ncclGroupStart(), result::success);
  for (int rank = 0; rank < 3; ++rank) {
    auto* const parent = rank < 2 ? all.comm[static_cast<std::size_t>(rank)] : nullptr;
    EXPECT_EQ(ncclCommGrow(parent, 3, rank < 2 ? nullptr : &id, rank < 2 ? -1 : rank, &grown[rank],
                           nullptr),
              result::success);
  }
  EXPECT_EQ(ncclGroupEnd(), result::success) << ncclGetLastError(nullptr);
  elements<float> const a(0, 1, 1.0F), b(1, 1, 2.0F), c(0, 1, 4.0F);
  elements<float> const* const data[] = {&a, &b, &c};
  EXPECT_EQ(ncclGroupStart(), result::success);
  for (int rank = 0; rank < 3; ++rank) (void)sum_on_stream(grown[rank], *data[rank], rank + 1);
  EXPECT_EQ(ncclGroupEnd(), result::success);
  devices().synchronize(0, 1);
  EXPECT_EQ(a[0], 7.0F);
  for (auto* const one : grown) EXPECT_EQ(ncclCommDestroy(one), result::success);
}

TEST(nccl_fallback, what_is_not_covered_is_asked_there) {
  unique_id id{};
  id.bytes[0] = 'x';
  communicator* comm = nullptr;
  ASSERT_EQ(ncclCommInitRank(&comm, 100, id, 70), result::success);
  EXPECT_EQ(ncclTeamWorld(comm).rank, 70);
  EXPECT_EQ(ncclTeamLsa(comm).rank_count, 0);
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("lacks the function"), std::string::npos);
  EXPECT_EQ(ncclSignal(71, 0, 0, 0, comm, nullptr), result::success);
  EXPECT_EQ(ncclSignal(70, 0, 0, 0, comm, nullptr), result::invalid_argument);
  program const here({0});
  expect_refused(ncclSignal(1, 0, 0, 0, here.comm[0], nullptr), result::invalid_usage,
                 "ncclSignal: one-sided calls are not supported");
  int number = 0;
  void* pointer = nullptr;
  EXPECT_EQ(ncclGetPeerDevicePointer(&number, 0, 1, &pointer), result::success);
  EXPECT_EQ(pointer, &number);
  char const* value = nullptr;
  EXPECT_EQ(ncclParamGetParameter("NCCL_ALGO", &value, &number), result::success);
  EXPECT_EQ(std::string(value), "yes");
  std::int64_t parameter = 0;
  EXPECT_EQ(ncclParamGetI64(nullptr, &parameter), result::invalid_usage) << "it lacks this one";
  elements<float> const data(0, 8, 1.0F);
  auto const config = unset_configuration();
  auto const call = [&](collective_configuration const* with) {
    return ncclAllReduceConfig(data.data(), data.data(), 1, data_type::float32, operation::sum,
                               comm, program::stream(0), with);
  };
  EXPECT_EQ(call(&config), result::invalid_usage);
  EXPECT_EQ(data[0], 1.0F);
  EXPECT_EQ(call(nullptr), result::success) << "as the function without a configuration";
  EXPECT_EQ(data[0], 1000.0F);
  simulation_info info{sizeof info, simulation_info::expected_magic, 22200, 0};
  EXPECT_EQ(ncclGroupStart(), result::success);
  EXPECT_EQ(ncclGroupSimulateEnd(&info), result::success) << ncclGetLastError(nullptr);
  EXPECT_EQ(info.time, 7.0F);
  EXPECT_EQ(ncclCommDestroy(comm), result::success);
}

TEST(nccl_fallback, ranks_that_are_not_all_here_go_there) {
  unique_id id{};
  ASSERT_EQ(ncclGetUniqueId(&id), result::success);
  EXPECT_NE(id.bytes[0], 'b') << "made by the other library";
  communicator* comm[2] = {};
  EXPECT_EQ(ncclGroupStart(), result::success);
  EXPECT_EQ(ncclCommInitRank(&comm[0], 3, id, 0), result::success);
  EXPECT_EQ(ncclCommInitRank(&comm[1], 3, id, 2), result::success);
  EXPECT_EQ(ncclGroupEnd(), result::success);
  int found = 0;
  EXPECT_EQ(ncclCommCuDevice(comm[1], &found), result::success);
  EXPECT_EQ(found, 1) << "begun in a group of the other library";
  for (auto* const one : comm) {
    EXPECT_EQ(all_reduce(one, 1, result::success), 1000.0F);
    EXPECT_EQ(ncclCommDestroy(one), result::success);
  }
}

TEST(nccl_fallback, ranks_that_are_all_here_stay) {
  unique_id id{};
  ASSERT_EQ(ncclGetUniqueId(&id), result::success);
  communicator* comm[2] = {};
  EXPECT_EQ(ncclGroupStart(), result::success);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(ncclCommInitRank(&comm[rank], 2, id, rank), result::success);
  }
  EXPECT_EQ(ncclGroupEnd(), result::success);
  elements<float> const a(0, 1, 1.0F), b(0, 1, 2.0F);
  EXPECT_EQ(ncclGroupStart(), result::success);
  for (int rank = 0; rank < 2; ++rank) {
    void* const at = (rank == 0 ? a : b).data();
    EXPECT_EQ(ncclAllReduce(at, at, 1, data_type::float32, operation::sum, comm[rank],
                            program::stream(0)),
              result::success);
  }
  EXPECT_EQ(ncclGroupEnd(), result::success);
  devices().synchronize(0, 1);
  EXPECT_EQ(a[0], 3.0F);
  EXPECT_EQ(b[0], 3.0F);
  for (auto* const one : comm) EXPECT_EQ(ncclCommDestroy(one), result::success);
}

}  // namespace
