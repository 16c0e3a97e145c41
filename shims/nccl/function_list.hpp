// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions of libnccl.so.2. tests/data/nccl lists the names that NCCL's own library exports.

#include "abi.hpp"

#include <cstddef>
#include <cstdint>

/// FUNCTION(name without its prefix, parameters) for each function of nccl.h that returns a
/// `result`: those of NCCL 2.28.
#define BLINK_NCCL_FUNCTIONS_2_28(FUNCTION)                                                       \
  FUNCTION(MemAlloc, (void**, std::size_t))                                                       \
  FUNCTION(MemFree, (void*))                                                                      \
  FUNCTION(GetVersion, (int*))                                                                    \
  FUNCTION(GetUniqueId, (unique_id*))                                                             \
  FUNCTION(CommInitRankConfig, (communicator**, int, unique_id, int, configuration*))             \
  FUNCTION(CommInitRank, (communicator**, int, unique_id, int))                                   \
  FUNCTION(CommInitAll, (communicator**, int, int const*))                                        \
  FUNCTION(CommFinalize, (communicator*))                                                         \
  FUNCTION(CommDestroy, (communicator*))                                                          \
  FUNCTION(CommAbort, (communicator*))                                                            \
  FUNCTION(CommRevoke, (communicator*, int))                                                      \
  FUNCTION(CommSplit, (communicator*, int, int, communicator**, configuration*))                  \
  FUNCTION(CommShrink, (communicator*, int*, int, communicator**, configuration*, int))           \
  FUNCTION(CommInitRankScalable, (communicator**, int, int, int, unique_id*, configuration*))     \
  FUNCTION(CommGetAsyncError, (communicator*, result*))                                           \
  FUNCTION(CommCount, (communicator*, int*))                                                      \
  FUNCTION(CommCuDevice, (communicator*, int*))                                                   \
  FUNCTION(CommUserRank, (communicator*, int*))                                                   \
  FUNCTION(CommRegister, (communicator*, void*, std::size_t, void**))                             \
  FUNCTION(CommDeregister, (communicator*, void*))                                                \
  FUNCTION(CommWindowRegister, (communicator*, void*, std::size_t, void**, int))                  \
  FUNCTION(CommWindowDeregister, (communicator*, void*))                                          \
  FUNCTION(RedOpCreatePreMulSum, (operation*, void*, data_type, residence, communicator*))        \
  FUNCTION(RedOpDestroy, (operation, communicator*))                                              \
  FUNCTION(Reduce, (void const*, void*, std::size_t, data_type, operation, int, communicator*,    \
                    stream_handle))                                                               \
  FUNCTION(Bcast, (void*, std::size_t, data_type, int, communicator*, stream_handle))             \
  FUNCTION(Broadcast,                                                                             \
           (void const*, void*, std::size_t, data_type, int, communicator*, stream_handle))       \
  FUNCTION(AllReduce,                                                                             \
           (void const*, void*, std::size_t, data_type, operation, communicator*, stream_handle)) \
  FUNCTION(ReduceScatter,                                                                         \
           (void const*, void*, std::size_t, data_type, operation, communicator*, stream_handle)) \
  FUNCTION(AllGather, (void const*, void*, std::size_t, data_type, communicator*, stream_handle)) \
  FUNCTION(AlltoAll, (void const*, void*, std::size_t, data_type, communicator*, stream_handle))  \
  FUNCTION(Gather,                                                                                \
           (void const*, void*, std::size_t, data_type, int, communicator*, stream_handle))       \
  FUNCTION(Scatter,                                                                               \
           (void const*, void*, std::size_t, data_type, int, communicator*, stream_handle))       \
  FUNCTION(Send, (void const*, std::size_t, data_type, int, communicator*, stream_handle))        \
  FUNCTION(Recv, (void*, std::size_t, data_type, int, communicator*, stream_handle))              \
  FUNCTION(GroupStart, ())                                                                        \
  FUNCTION(GroupEnd, ())                                                                          \
  FUNCTION(GroupSimulateEnd, (simulation_info*))

/// The same for those that NCCL 2.29 to 2.32 have added.
#define BLINK_NCCL_FUNCTIONS_2_32(FUNCTION)                                                        \
  FUNCTION(CommGetUniqueId, (communicator*, unique_id*))                                           \
  FUNCTION(CommGrow, (communicator*, int, unique_id const*, int, communicator**, configuration*))  \
  FUNCTION(CommSuspend, (communicator*, int))                                                      \
  FUNCTION(CommResume, (communicator*))                                                            \
  FUNCTION(CommMemStats, (communicator*, memory_statistic, std::uint64_t*))                        \
  FUNCTION(WinGetUserPtr, (communicator*, void*, void**))                                          \
  FUNCTION(AllReduceConfig, (void const*, void*, std::size_t, data_type, operation, communicator*, \
                             stream_handle, collective_configuration const*))                      \
  FUNCTION(BroadcastConfig, (void const*, void*, std::size_t, data_type, int, communicator*,       \
                             stream_handle, collective_configuration const*))                      \
  FUNCTION(ReduceConfig, (void const*, void*, std::size_t, data_type, operation, int,              \
                          communicator*, stream_handle, collective_configuration const*))          \
  FUNCTION(AllGatherConfig, (void const*, void*, std::size_t, data_type, communicator*,            \
                             stream_handle, collective_configuration const*))                      \
  FUNCTION(ReduceScatterConfig, (void const*, void*, std::size_t, data_type, operation,            \
                                 communicator*, stream_handle, collective_configuration const*))   \
  FUNCTION(AlltoAllConfig, (void const*, void*, std::size_t, data_type, communicator*,             \
                            stream_handle, collective_configuration const*))                       \
  FUNCTION(GatherConfig, (void const*, void*, std::size_t, data_type, int, communicator*,          \
                          stream_handle, collective_configuration const*))                         \
  FUNCTION(ScatterConfig, (void const*, void*, std::size_t, data_type, int, communicator*,         \
                           stream_handle, collective_configuration const*))                        \
  FUNCTION(PutSignal, (void const*, std::size_t, data_type, int, void*, std::size_t, int, int,     \
                       unsigned, communicator*, stream_handle))                                    \
  FUNCTION(Signal, (int, int, int, unsigned, communicator*, stream_handle))                        \
  FUNCTION(WaitSignal, (int, void*, communicator*, stream_handle))                                 \
  FUNCTION(SetEncryption, (encryption_configuration const*))                                       \
  FUNCTION(ParamBind, (void**, char const*))                                                       \
  FUNCTION(ParamGetI8, (void*, std::int8_t*))                                                      \
  FUNCTION(ParamGetI16, (void*, std::int16_t*))                                                    \
  FUNCTION(ParamGetI32, (void*, std::int32_t*))                                                    \
  FUNCTION(ParamGetI64, (void*, std::int64_t*))                                                    \
  FUNCTION(ParamGetU8, (void*, std::uint8_t*))                                                     \
  FUNCTION(ParamGetU16, (void*, std::uint16_t*))                                                   \
  FUNCTION(ParamGetU32, (void*, std::uint32_t*))                                                   \
  FUNCTION(ParamGetU64, (void*, std::uint64_t*))                                                   \
  FUNCTION(ParamGetStr, (void*, char const**))                                                     \
  FUNCTION(ParamGet, (void*, void*, int, int*))                                                    \
  FUNCTION(ParamGetParameter, (char const*, char const**, int*))                                   \
  FUNCTION(ParamGetAllParameterKeys, (char const***, int*))

/// The same for nccl_device.h: preparations for calls from a program's own kernels.
#define BLINK_NCCL_DEVICE_FUNCTIONS(FUNCTION)                                                      \
  FUNCTION(CommQueryProperties, (communicator*, communicator_properties*))                         \
  FUNCTION(DevCommCreate, (communicator*, void const*, void*))                                     \
  FUNCTION(DevCommDestroy, (communicator*, void const*))                                           \
  FUNCTION(GetLsaMultimemDevicePointer, (void*, std::size_t, void**))                              \
  FUNCTION(GetMultimemDevicePointer, (void*, std::size_t, multicast_handle, void**))               \
  FUNCTION(GetLsaDevicePointer, (void*, std::size_t, int, void**))                                 \
  FUNCTION(GetPeerDevicePointer, (void*, std::size_t, int, void**))                                \
  FUNCTION(GetMultimemDeviceLeInfo, (void*, std::size_t, std::uint32_t*, std::size_t*))            \
  FUNCTION(GetCftDeviceLeInfo, (void*, std::size_t, int, rank_team, std::uint32_t*, std::size_t*)) \
  FUNCTION(GetPeerDeviceLeInfo, (void*, std::size_t, int, std::uint32_t*, std::size_t*))           \
  FUNCTION(LsaBarrierCreateRequirement, (rank_team, int, void*, void*))                            \
  FUNCTION(GinBarrierCreateRequirement, (communicator*, rank_team, int, void*, void*))             \
  FUNCTION(LLA2ACreateRequirement, (int, int, void*, void*))

/// The same for functions that NCCL exports without a declaration.
#define BLINK_NCCL_UNDECLARED_FUNCTIONS(FUNCTION)                \
  FUNCTION(GinOutboxCreateRequirement, (int, int, void*, void*)) \
  FUNCTION(GinInboxA2ACreateRequirement, (rank_team, int, int, void*, void*))

#define BLINK_NCCL_FUNCTIONS(FUNCTION)  \
  BLINK_NCCL_FUNCTIONS_2_28(FUNCTION)   \
  BLINK_NCCL_FUNCTIONS_2_32(FUNCTION)   \
  BLINK_NCCL_DEVICE_FUNCTIONS(FUNCTION) \
  BLINK_NCCL_UNDECLARED_FUNCTIONS(FUNCTION)

/// FUNCTION(type, name without its prefix, parameters) for each function of nccl_device.h that
/// returns something else.
#define BLINK_NCCL_TEAM_FUNCTIONS(FUNCTION)                       \
  FUNCTION(rank_team, TeamWorld, (communicator*))                 \
  FUNCTION(rank_team, TeamLsa, (communicator*))                   \
  FUNCTION(rank_team, TeamRail, (communicator*))                  \
  FUNCTION(rank_team, TeamCft, (communicator*, int))              \
  FUNCTION(rank_team, TeamCftMultimem, (communicator*))           \
  FUNCTION(int, TeamRankToWorld, (communicator*, rank_team, int)) \
  FUNCTION(int, TeamRankToLsa, (communicator*, rank_team, int))   \
  FUNCTION(int, LLA2ACalcSlots, (int, int))

/// The same for nccl.h.
#define BLINK_NCCL_OTHER_FUNCTIONS(FUNCTION)           \
  FUNCTION(char const*, GetErrorString, (result))      \
  FUNCTION(char const*, GetLastError, (communicator*)) \
  FUNCTION(void, ParamDumpAll, ())                     \
  FUNCTION(void, ResetDebugInit, ())
