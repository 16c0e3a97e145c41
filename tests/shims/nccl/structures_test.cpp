// SPDX-License-Identifier: Apache-2.0
// Structures that programs pass, of all versions: configurations, properties, simulated groups. And
// functions that are there and refused: windows, one-sided calls, parameters.

#include "program.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

// The sources of a folder may be compiled as one.
namespace structures_test { namespace {

using namespace blink_test;
auto const invalid = result::invalid_argument;
auto const usage = result::invalid_usage;

TEST(nccl_structures, configurations_of_all_versions_and_sizes) {
  for (unsigned const version : {21400U, 21800U, 22707U, 23007U, 23203U, 99999U}) {
    for (std::size_t bytes = 24; bytes <= 160; bytes += 8) {
      std::vector<unsigned char> program_has(bytes, 0x7f);  // fields that are not known here
      configuration const begin{bytes, configuration::expected_magic, version, 1};
      std::memcpy(program_has.data(), &begin, offsetof(configuration, blocking) + 4);
      communicator* comm = nullptr;
      auto* const config = reinterpret_cast<configuration*>(program_has.data());
      ASSERT_EQ(ncclCommInitRankConfig(&comm, 1, new_id(), 0, config), result::success)
          << ncclGetLastError(nullptr);
      EXPECT_EQ(ncclCommDestroy(comm), result::success);
    }
  }
  communicator* comm = nullptr;
  auto const id = new_id();
  configuration config{23, configuration::expected_magic, 22809, 1};
  expect_refused(ncclCommInitRankConfig(&comm, 1, id, 0, &config), invalid,
                 "the configuration has 23 bytes, expected at least 24");
  config = {sizeof config, configuration::expected_magic, 21399, 1};
  expect_refused(ncclCommInitRankConfig(&comm, 1, id, 0, &config), invalid,
                 "is of version 21399, expected at least 21400");
}

TEST(nccl_structures, configurations_of_collectives) {
  program const all({0});
  elements<float> const data(0, 1, 2.5F);
  auto const call = [&](collective_configuration const* config) {
    return ncclAllReduceConfig(data.data(), data.data(), 1, data_type::float32, operation::sum,
                               all.comm[0], program::stream(0), config);
  };
  auto config = unset_configuration();
  EXPECT_EQ(call(&config), result::success);
  EXPECT_EQ(call(nullptr), result::success);
  config.least_blocks = 4;
  config.policy = 2;
  config.profiler_tag = 77;
  config.extensions = &config;
  config.algorithms = "";
  EXPECT_EQ(call(&config), result::success) << "choices of resources have no effect";
  config.algorithms = "RING\n";
  expect_refused(call(&config), usage, "algSelection is 'RING?', but none of NCCL's algorithms");
  config.forces_algorithms = 0;
  EXPECT_EQ(call(&config), result::success);
  config.launch_event = &config;
  expect_refused(call(&config), usage, "launchCompletionEvent is not supported, expected NULL");
  config = unset_configuration();
  config.size = 71;
  expect_refused(call(&config), invalid,
                 "the configuration of the call has 71 bytes, expected at least 72");
  config = unset_configuration();
  config.magic = 1;
  expect_refused(call(&config), invalid, "magic number 1");
  expect_refused(ncclAllGatherConfig(data.data(), data.data(), 1, data_type::float32, all.comm[0],
                                     nullptr, &config),
                 invalid, "ncclAllGatherConfig: the configuration of the call begins");
  all.synchronize();
}

TEST(nccl_structures, simulated_groups_run_nothing) {
  program const all({0, 1});
  elements<float> const a(0, 1, 1.0F), b(1, 1, 1.0F);
  auto const call = [&](std::size_t rank) {
    return sum_on_stream(all.comm[rank], rank == 0 ? a : b, static_cast<int>(rank) + 1);
  };
  simulation_info info{sizeof info, simulation_info::expected_magic, 22200, 5};
  expect_refused(ncclGroupSimulateEnd(&info), usage, "no open group");
  EXPECT_EQ(ncclGroupStart(), result::success);
  EXPECT_EQ(call(0), result::success);
  EXPECT_EQ(ncclGroupSimulateEnd(&info), result::success) << ncclGetLastError(nullptr);
  EXPECT_EQ(info.time, simulation_info::unknown_time);
  EXPECT_EQ(all.by_one_thread(call), result::success);
  all.synchronize();
  EXPECT_EQ(a[0], 2.0F);  // once
  EXPECT_EQ(ncclGroupStart(), result::success);
  EXPECT_EQ(ncclCommFinalize(nullptr), invalid);
  EXPECT_EQ(ncclGroupSimulateEnd(&info), invalid) << "the group has a wrong call";
  EXPECT_EQ(ncclGroupStart(), result::success);
  EXPECT_EQ(ncclGroupStart(), result::success);
  expect_refused(ncclGroupSimulateEnd(&info), usage, "expected the outermost group");
  EXPECT_EQ(ncclGroupEnd(), result::success);
  EXPECT_EQ(ncclGroupEnd(), usage);
  EXPECT_EQ(ncclGroupStart(), result::success);
  expect_refused(ncclGroupSimulateEnd(nullptr), invalid, "is null");
  info.magic = 7;
  expect_refused(ncclGroupSimulateEnd(&info), invalid, "simulation info begins with the magic");
  EXPECT_EQ(ncclGroupEnd(), invalid);
}

TEST(nccl_structures, properties_of_all_sizes) {
  program const all({2, 1}), other({0});
  communicator_properties found{};
  found.size = sizeof found;
  found.magic = communicator_properties::expected_magic;
  found.version = interface_version;
  found.has_device_interface = true;
  EXPECT_EQ(ncclCommQueryProperties(all.comm[1], &found), result::success);
  EXPECT_EQ(found.size, sizeof found);
  EXPECT_EQ(found.rank, 1);
  EXPECT_EQ(found.rank_count, 2);
  EXPECT_EQ(found.device, 1);
  EXPECT_EQ(found.load_store_teams, 2);
  EXPECT_FALSE(found.has_device_interface || found.has_windows || found.has_multicast);
  auto const hash = found.hash;
  EXPECT_EQ(ncclCommQueryProperties(all.comm[0], &found), result::success);
  EXPECT_EQ(found.hash, hash);
  EXPECT_EQ(ncclCommQueryProperties(other.comm[0], &found), result::success);
  EXPECT_NE(found.hash, hash);

  found.size = offsetof(communicator_properties, hash);  // of an older version
  found.hash = 5;
  EXPECT_EQ(ncclCommQueryProperties(all.comm[0], &found), result::success);
  EXPECT_EQ(found.hash, 5U);
  found.size = 8;
  expect_refused(ncclCommQueryProperties(all.comm[0], &found), invalid, "has 8 bytes");
  found.magic = 0;
  expect_refused(ncclCommQueryProperties(all.comm[0], &found), invalid, "magic number 0");
  expect_refused(ncclCommQueryProperties(all.comm[0], nullptr), invalid, "is null");
}

TEST(nccl_structures, encryption_and_parameters) {
  encryption_configuration config{sizeof config, encryption_configuration::expected_magic, 23203,
                                  encryption_configuration::none, nullptr};
  EXPECT_EQ(ncclSetEncryption(&config), result::success);
  config.mode = 1;
  expect_refused(ncclSetEncryption(&config), usage, "mode 1 is not supported");
  expect_refused(ncclSetEncryption(nullptr), invalid, "is null");
  void* parameter = &config;
  expect_refused(ncclParamBind(&parameter, "NCCL_DEBUG"), invalid, "the parameter is unknown");
  EXPECT_EQ(parameter, &config) << "unchanged";
  std::int64_t value = 0;
  EXPECT_EQ(ncclParamGetI64(parameter, &value), invalid);
  char const* text = nullptr;
  int length = 0;
  EXPECT_EQ(ncclParamGetParameter("NCCL_DEBUG", &text, &length), invalid);
  char const** table = nullptr;
  length = 7;
  EXPECT_EQ(ncclParamGetAllParameterKeys(&table, &length), result::success);
  EXPECT_NE(table, nullptr);
  EXPECT_EQ(length, 0);
  expect_refused(ncclParamGetAllParameterKeys(nullptr, &length), invalid, "is null");
  ncclParamDumpAll();
  ncclResetDebugInit();
  ncclResetDebugInitInternal();
}

// --- windows, one-sided calls, programs' own kernels ---

TEST(nccl_structures, windows_are_null) {
  program const all({0, 1});
  elements<float> const a(0, 1, 1.0F), b(1, 1, 2.0F);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    auto* const memory = (rank == 0 ? a : b).data();
    void* window = memory;
    EXPECT_EQ(ncclCommWindowRegister(all.comm[rank], memory, 4, &window, 1), result::success);
    EXPECT_EQ(window, nullptr);
    EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("windows are not supported"),
              std::string::npos);
  }
  EXPECT_EQ(all.by_one_thread([&](std::size_t rank) {
    return sum_on_stream(all.comm[rank], rank == 0 ? a : b, static_cast<int>(rank) + 1);
  }),
            result::success);
  all.synchronize();
  EXPECT_EQ(b[0], 3.0F) << "collectives need no window";
  auto* const comm = all.comm[0];
  EXPECT_EQ(ncclCommWindowDeregister(comm, nullptr), result::success);
  expect_refused(ncclCommWindowDeregister(comm, a.data()), usage, "windows are not supported");
  void* window = nullptr;
  expect_refused(ncclCommWindowRegister(comm, nullptr, 4, &window, 0), invalid, "memory is null");
  expect_refused(ncclCommWindowRegister(comm, a.data(), 0, &window, 0), invalid, "bytes is 0");
  expect_refused(ncclCommWindowRegister(comm, a.data(), 4, nullptr, 0), invalid, "is null");
}

TEST(nccl_structures, calls_that_need_windows_are_refused_by_name) {
  program const all({0});
  auto* const comm = all.comm[0];
  void* pointer = nullptr;
  std::uint32_t endpoint = 0;
  std::size_t offset = 0;
  std::string const windows = ": windows are not supported";
  expect_refused(ncclWinGetUserPtr(comm, nullptr, &pointer), usage, "ncclWinGetUserPtr" + windows);
  expect_refused(ncclGetLsaMultimemDevicePointer(nullptr, 0, &pointer), usage,
                 "ncclGetLsaMultimemDevicePointer" + windows);
  expect_refused(ncclGetMultimemDevicePointer(nullptr, 0, {}, &pointer), usage,
                 "ncclGetMultimemDevicePointer" + windows);
  expect_refused(ncclGetLsaDevicePointer(nullptr, 0, 0, &pointer), usage,
                 "ncclGetLsaDevicePointer" + windows);
  expect_refused(ncclGetPeerDevicePointer(nullptr, 0, 0, &pointer), usage,
                 "ncclGetPeerDevicePointer" + windows);
  expect_refused(ncclGetMultimemDeviceLeInfo(nullptr, 0, &endpoint, &offset), usage,
                 "ncclGetMultimemDeviceLeInfo" + windows);
  expect_refused(ncclGetCftDeviceLeInfo(nullptr, 0, 0, {}, &endpoint, &offset), usage,
                 "ncclGetCftDeviceLeInfo" + windows);
  expect_refused(ncclGetPeerDeviceLeInfo(nullptr, 0, 0, &endpoint, &offset), usage,
                 "ncclGetPeerDeviceLeInfo" + windows);
  std::string const one_sided = ": one-sided calls are not supported";
  auto const type = data_type::float32;
  expect_refused(ncclPutSignal(nullptr, 1, type, 0, nullptr, 0, 0, 0, 0, comm, nullptr), usage,
                 "ncclPutSignal" + one_sided);
  expect_refused(ncclSignal(0, 0, 0, 0, comm, nullptr), usage, "ncclSignal" + one_sided);
  expect_refused(ncclWaitSignal(0, nullptr, comm, nullptr), usage, "ncclWaitSignal" + one_sided);
  std::string const kernels = ": calls from a program's own kernels are not supported";
  expect_refused(ncclDevCommCreate(comm, nullptr, nullptr), usage, "ncclDevCommCreate" + kernels);
  expect_refused(ncclDevCommDestroy(comm, nullptr), usage, "no device communicator");
  expect_refused(ncclGinBarrierCreateRequirement(comm, {}, 1, nullptr, nullptr), usage,
                 "ncclGinBarrierCreateRequirement" + kernels);
  expect_refused(ncclLsaBarrierCreateRequirement({}, 1, nullptr, nullptr), usage,
                 "ncclLsaBarrierCreateRequirement" + kernels);
  expect_refused(ncclLLA2ACreateRequirement(1, 1, nullptr, nullptr), usage,
                 "ncclLLA2ACreateRequirement" + kernels);
  expect_refused(ncclGinOutboxCreateRequirement(1, 1, nullptr, nullptr), usage,
                 "ncclGinOutboxCreateRequirement" + kernels);
  expect_refused(ncclGinInboxA2ACreateRequirement({}, 1, 1, nullptr, nullptr), usage,
                 "ncclGinInboxA2ACreateRequirement" + kernels);
  EXPECT_EQ(ncclLLA2ACalcSlots(10, 12), 20);
  expect_refused(ncclSignal(0, 0, 0, 0, nullptr, nullptr), invalid, "the communicator is null");
}

std::vector<int> numbers_of(rank_team const& team) {
  return {team.rank_count, team.rank, team.stride};
}
TEST(nccl_structures, teams) {
  program const all({0, 1, 2});
  auto* const comm = all.comm[1];
  EXPECT_EQ(numbers_of(ncclTeamWorld(comm)), (std::vector<int>{3, 1, 1}));
  EXPECT_EQ(numbers_of(ncclTeamLsa(comm)), (std::vector<int>{1, 0, 1}));
  EXPECT_EQ(numbers_of(ncclTeamRail(comm)), (std::vector<int>{3, 1, 1}));
  EXPECT_EQ(numbers_of(ncclTeamCft(comm, 0)), (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(numbers_of(ncclTeamCftMultimem(comm)), (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(ncclTeamRankToWorld(comm, ncclTeamWorld(comm), 2), 2);
  EXPECT_EQ(ncclTeamRankToWorld(comm, ncclTeamLsa(comm), 0), 1);
  EXPECT_EQ(ncclTeamRankToLsa(comm, ncclTeamLsa(comm), 0), 0);
  EXPECT_EQ(numbers_of(ncclTeamWorld(nullptr)), (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(ncclTeamRankToWorld(nullptr, {}, 0), -1);
  EXPECT_EQ(std::string(ncclGetLastError(nullptr)),
            "ncclTeamRankToWorld: the communicator is null");
}

}}  // namespace structures_test
