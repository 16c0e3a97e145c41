// SPDX-License-Identifier: Apache-2.0
// Invalid arguments: each code, with a text that has the value and the expectation.

#include "program.hpp"

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

// The sources of a folder may be compiled as one.
namespace refusals_test { namespace {

using namespace blink_test;

TEST(nccl_refusals, codes_have_texts) {
  for (int code = 0; code < result_count; ++code) {
    EXPECT_NE(std::string(ncclGetErrorString(static_cast<result>(code))), "unknown result code");
  }
  EXPECT_EQ(std::string(ncclGetErrorString(static_cast<result>(99))), "unknown result code");
  int version = 0;
  EXPECT_EQ(ncclGetVersion(&version), result::success);
  EXPECT_EQ(version, 23203);
  expect_refused(ncclGetVersion(nullptr), result::invalid_argument, "is null");
  expect_refused(ncclGetUniqueId(nullptr), result::invalid_argument, "is null");
}

TEST(nccl_refusals, arguments_of_beginnings) {
  communicator* comm = nullptr;
  unique_id id{};
  EXPECT_EQ(ncclGetUniqueId(&id), result::success);
  expect_refused(ncclCommInitRank(nullptr, 1, id, 0), result::invalid_argument, "is null");
  expect_refused(ncclCommInitRank(&comm, 0, id, 0), result::invalid_argument, "0 ranks");
  expect_refused(ncclCommInitRank(&comm, 2, id, 2), result::invalid_argument, "rank 2 of 2");
  expect_refused(ncclCommInitRank(&comm, 65, id, 0), result::invalid_usage,
                 "65 ranks, expected at most 64");
  configuration config{sizeof(configuration), 17, 22809, 1};
  expect_refused(ncclCommInitRankConfig(&comm, 1, id, 0, &config), result::invalid_argument,
                 "magic number 17");
  config = {sizeof(configuration), configuration::expected_magic, 22809, 7};
  expect_refused(ncclCommInitRankConfig(&comm, 1, id, 0, &config), result::invalid_argument,
                 "blocking is 7");
  expect_refused(ncclCommInitRankScalable(&comm, 1, 0, 0, &id, nullptr), result::invalid_argument,
                 "no unique id");
  int const far[1] = {9};
  expect_refused(ncclCommInitAll(&comm, 1, far), result::invalid_argument,
                 "expected a number below 4");
  expect_refused(ncclCommInitAll(&comm, 0, nullptr), result::invalid_argument, "0 ranks");
  expect_refused(ncclGroupEnd(), result::invalid_usage, "no open group");
}

TEST(nccl_refusals, without_a_driver) {
  emulated_platform::device_of_thread() = -1;
  communicator* comm = nullptr;
  void* memory = nullptr;
  unique_id id{};
  EXPECT_EQ(ncclGetUniqueId(&id), result::success);
  expect_refused(ncclCommInitRank(&comm, 1, id, 0), result::cuda_error, "this thread has none");
  expect_refused(ncclCommInitAll(&comm, 1, nullptr), result::cuda_error, "this thread has none");
  expect_refused(ncclMemAlloc(&memory, 16), result::cuda_error, "this thread has none");
  emulated_platform::device_of_thread() = 0;
}

TEST(nccl_refusals, arguments_of_calls) {
  program const all({0});
  elements<float> const data(0, 8);
  auto* const comm = all.comm[0];
  auto const call = [&](void const* in, void* out, std::size_t count, int type, int reduce) {
    return ncclAllReduce(in, out, count, static_cast<data_type>(type),
                         static_cast<operation>(reduce), comm, program::stream(0));
  };
  void* const at = data.data();
  expect_refused(call(at, at, 1, 12, 0), result::invalid_argument, "type 12, expected 0 to");
  expect_refused(call(at, at, 1, 7, -1), result::invalid_argument, "operation -1");
  expect_refused(call(at, at, 1, 7, 5), result::invalid_argument,
                 "expected one of this communicator");
  expect_refused(call(at, at, 1, 8, 0), result::invalid_usage, "built without reductions");
  expect_refused(call(nullptr, at, 1, 7, 0), result::invalid_argument, "the input is null");
  expect_refused(call(at, nullptr, 1, 7, 0), result::invalid_argument, "the output is null");
  expect_refused(call(at, data.data() + 1, 4, 7, 0), result::invalid_argument, "overlap");
  expect_refused(call(at, at, std::numeric_limits<std::size_t>::max(), 7, 0),
                 result::invalid_argument, "exceeds the address space");
  expect_refused(ncclReduce(at, at, 1, data_type::float32, operation::sum, 1, comm, nullptr),
                 result::invalid_argument, "root 1 of 1 ranks");
  expect_refused(ncclAllGather(at, at, 1, data_type::float32, nullptr, nullptr),
                 result::invalid_argument, "the communicator is null");
  int nothing = 0;
  expect_refused(ncclAllGather(at, at, 1, data_type::float32,
                               reinterpret_cast<communicator*>(&nothing), nullptr),
                 result::invalid_argument, "the communicator is unknown");
  EXPECT_EQ(call(nullptr, nullptr, 0, 7, 0), result::success);
  operation own{};
  float factor = 2;
  expect_refused(
      ncclRedOpCreatePreMulSum(&own, nullptr, data_type::float32, residence::host_immediate, comm),
      result::invalid_argument, "the factor is null");
  EXPECT_EQ(
      ncclRedOpCreatePreMulSum(&own, &factor, data_type::float32, residence::host_immediate, comm),
      result::success);
  expect_refused(call(at, at, 1, 2, static_cast<int>(own)), result::invalid_argument,
                 "the operation is for float32, the elements are int32");
  EXPECT_EQ(ncclRedOpDestroy(own, comm), result::success);
  expect_refused(ncclRedOpDestroy(own, comm), result::invalid_argument, "expected one of this");
}

TEST(nccl_refusals, ranks_that_disagree_are_named_to_all) {
  program const all({0, 1, 2});
  elements<float> const a(0, 4), b(1, 4), c(2, 4);
  elements<float> const* const data[] = {&a, &b, &c};
  auto const results = all.by_threads([&](std::size_t rank) {
    void* const at = data[rank]->data();
    auto const stream = program::stream(rank);
    auto const code =
        rank == 1
            ? ncclAllReduce(at, at, 3, data_type::float32, operation::max, all.comm[rank], stream)
            : ncclAllReduce(at, at, 4, data_type::float32, operation::sum, all.comm[rank], stream);
    expect_refused(code, result::invalid_usage,
                   "rank 0 calls ncclAllReduce of 4 float32, sum; rank 1 calls ncclAllReduce of 3 "
                   "float32, max");
    return code;
  });
  EXPECT_EQ(results, std::vector<result>(3, result::invalid_usage));
  // Nothing was launched, so the communicator still works.
  EXPECT_EQ(all.by_one_thread([&](std::size_t rank) {
    void* const at = data[rank]->data();
    return ncclBroadcast(at, at, 4, data_type::float32, 2, all.comm[rank], program::stream(rank));
  }),
            result::success);
  all.synchronize();
}

TEST(nccl_refusals, a_group_with_a_wrong_call_runs_nothing) {
  program const all({0, 1});
  elements<float> const a(0, 1, 1.0F), b(1, 1, 1.0F);
  auto const call = [&](std::size_t rank, int type) {
    void* const at = (rank == 0 ? a : b).data();
    return ncclAllReduce(at, at, 1, static_cast<data_type>(type), operation::sum, all.comm[rank],
                         program::stream(rank));
  };
  EXPECT_EQ(ncclGroupStart(), result::success);
  EXPECT_EQ(call(0, 7), result::success);
  EXPECT_EQ(call(1, 99), result::invalid_argument);
  expect_refused(ncclGroupEnd(), result::invalid_argument, "type 99");
  EXPECT_EQ(ncclGroupStart(), result::success);
  EXPECT_EQ(call(0, 7), result::success);
  simulation_info info{sizeof info, simulation_info::expected_magic, 22200, 0};
  EXPECT_EQ(ncclGroupSimulateEnd(&info), result::success);
  EXPECT_EQ(all.by_one_thread([&](std::size_t rank) { return call(rank, 7); }), result::success);
  all.synchronize();
  EXPECT_EQ(a[0], 2.0F);  // once
}

TEST(nccl_refusals, memory_and_colors) {
  program const all({0});
  auto* const comm = all.comm[0];
  void* memory = nullptr;
  EXPECT_EQ(ncclMemAlloc(&memory, 64), result::success);
  void* registered = nullptr;
  EXPECT_EQ(ncclCommRegister(comm, memory, 64, &registered), result::success);
  EXPECT_EQ(ncclCommDeregister(comm, registered), result::success);
  expect_refused(ncclCommDeregister(comm, registered), result::invalid_argument,
                 "the handle is not registered");
  expect_refused(ncclCommRegister(comm, nullptr, 64, &registered), result::invalid_argument,
                 "memory is null");
  communicator* smaller = nullptr;
  expect_refused(ncclCommSplit(comm, -2, 0, &smaller, nullptr), result::invalid_argument,
                 "color -2");
  EXPECT_EQ(ncclMemFree(memory), result::success);
  EXPECT_EQ(ncclMemFree(nullptr), result::success);
  int on_host = 0;
  expect_refused(ncclMemFree(&on_host), result::invalid_argument, "not in memory of a device");
}

}}  // namespace refusals_test
