// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions of libnccl.so.2, from which their declarations, their second names and calls of
// another library are made. tests/data/nccl lists the names that NCCL's own library exports.

#include "abi.hpp"

#include <cstddef>
#include <cstdint>

/// FUNCTION(type, name without its prefix, parameters) for each function of nccl.h: those of NCCL
/// 2.28.
#define BLINK_NCCL_FUNCTIONS_2_28(FUNCTION)                                                        \
  FUNCTION(result, MemAlloc, (void**, std::size_t))                                                \
  FUNCTION(result, MemFree, (void*))                                                               \
  FUNCTION(result, GetVersion, (int*))                                                             \
  FUNCTION(result, GetUniqueId, (unique_id*))                                                      \
  FUNCTION(result, CommInitRankConfig, (communicator**, int, unique_id, int, configuration*))      \
  FUNCTION(result, CommInitRank, (communicator**, int, unique_id, int))                            \
  FUNCTION(result, CommInitAll, (communicator**, int, int const*))                                 \
  FUNCTION(result, CommFinalize, (communicator*))                                                  \
  FUNCTION(result, CommDestroy, (communicator*))                                                   \
  FUNCTION(result, CommAbort, (communicator*))                                                     \
  FUNCTION(result, CommRevoke, (communicator*, int))                                               \
  FUNCTION(result, CommSplit, (communicator*, int, int, communicator**, configuration*))           \
  FUNCTION(result, CommShrink, (communicator*, int*, int, communicator**, configuration*, int))    \
  FUNCTION(result, CommInitRankScalable,                                                           \
           (communicator**, int, int, int, unique_id*, configuration*))                            \
  FUNCTION(result, CommGetAsyncError, (communicator*, result*))                                    \
  FUNCTION(result, CommCount, (communicator*, int*))                                               \
  FUNCTION(result, CommCuDevice, (communicator*, int*))                                            \
  FUNCTION(result, CommUserRank, (communicator*, int*))                                            \
  FUNCTION(result, CommRegister, (communicator*, void*, std::size_t, void**))                      \
  FUNCTION(result, CommDeregister, (communicator*, void*))                                         \
  FUNCTION(result, CommWindowRegister, (communicator*, void*, std::size_t, void**, int))           \
  FUNCTION(result, CommWindowDeregister, (communicator*, void*))                                   \
  FUNCTION(result, RedOpCreatePreMulSum, (operation*, void*, data_type, residence, communicator*)) \
  FUNCTION(result, RedOpDestroy, (operation, communicator*))                                       \
  FUNCTION(                                                                                        \
      result, Reduce,                                                                              \
      (void const*, void*, std::size_t, data_type, operation, int, communicator*, stream_handle))  \
  FUNCTION(result, Bcast, (void*, std::size_t, data_type, int, communicator*, stream_handle))      \
  FUNCTION(result, Broadcast,                                                                      \
           (void const*, void*, std::size_t, data_type, int, communicator*, stream_handle))        \
  FUNCTION(result, AllReduce,                                                                      \
           (void const*, void*, std::size_t, data_type, operation, communicator*, stream_handle))  \
  FUNCTION(result, ReduceScatter,                                                                  \
           (void const*, void*, std::size_t, data_type, operation, communicator*, stream_handle))  \
  FUNCTION(result, AllGather,                                                                      \
           (void const*, void*, std::size_t, data_type, communicator*, stream_handle))             \
  FUNCTION(result, AlltoAll,                                                                       \
           (void const*, void*, std::size_t, data_type, communicator*, stream_handle))             \
  FUNCTION(result, Gather,                                                                         \
           (void const*, void*, std::size_t, data_type, int, communicator*, stream_handle))        \
  FUNCTION(result, Scatter,                                                                        \
           (void const*, void*, std::size_t, data_type, int, communicator*, stream_handle))        \
  FUNCTION(result, Send, (void const*, std::size_t, data_type, int, communicator*, stream_handle)) \
  FUNCTION(result, Recv, (void*, std::size_t, data_type, int, communicator*, stream_handle))       \
  FUNCTION(result, GroupStart, ())                                                                 \
  FUNCTION(result, GroupEnd, ())                                                                   \
  FUNCTION(result, GroupSimulateEnd, (simulation_info*))                                           \
  FUNCTION(char const*, GetErrorString, (result))                                                  \
  FUNCTION(char const*, GetLastError, (communicator*))

/// The same for those that NCCL 2.29 to 2.32 have added.
#define BLINK_NCCL_FUNCTIONS_2_32(FUNCTION)                                                      \
  FUNCTION(result, CommGetUniqueId, (communicator*, unique_id*))                                 \
  FUNCTION(result, CommGrow,                                                                     \
           (communicator*, int, unique_id const*, int, communicator**, configuration*))          \
  FUNCTION(result, CommSuspend, (communicator*, int))                                            \
  FUNCTION(result, CommResume, (communicator*))                                                  \
  FUNCTION(result, CommMemStats, (communicator*, memory_statistic, std::uint64_t*))              \
  FUNCTION(result, WinGetUserPtr, (communicator*, void*, void**))                                \
  FUNCTION(result, AllReduceConfig,                                                              \
           (void const*, void*, std::size_t, data_type, operation, communicator*, stream_handle, \
            collective_configuration const*))                                                    \
  FUNCTION(result, BroadcastConfig,                                                              \
           (void const*, void*, std::size_t, data_type, int, communicator*, stream_handle,       \
            collective_configuration const*))                                                    \
  FUNCTION(result, ReduceConfig,                                                                 \
           (void const*, void*, std::size_t, data_type, operation, int, communicator*,           \
            stream_handle, collective_configuration const*))                                     \
  FUNCTION(result, AllGatherConfig,                                                              \
           (void const*, void*, std::size_t, data_type, communicator*, stream_handle,            \
            collective_configuration const*))                                                    \
  FUNCTION(result, ReduceScatterConfig,                                                          \
           (void const*, void*, std::size_t, data_type, operation, communicator*, stream_handle, \
            collective_configuration const*))                                                    \
  FUNCTION(result, AlltoAllConfig,                                                               \
           (void const*, void*, std::size_t, data_type, communicator*, stream_handle,            \
            collective_configuration const*))                                                    \
  FUNCTION(result, GatherConfig,                                                                 \
           (void const*, void*, std::size_t, data_type, int, communicator*, stream_handle,       \
            collective_configuration const*))                                                    \
  FUNCTION(result, ScatterConfig,                                                                \
           (void const*, void*, std::size_t, data_type, int, communicator*, stream_handle,       \
            collective_configuration const*))                                                    \
  FUNCTION(result, PutSignal,                                                                    \
           (void const*, std::size_t, data_type, int, void*, std::size_t, int, int, unsigned,    \
            communicator*, stream_handle))                                                       \
  FUNCTION(result, Signal, (int, int, int, unsigned, communicator*, stream_handle))              \
  FUNCTION(result, WaitSignal, (int, void*, communicator*, stream_handle))                       \
  FUNCTION(result, SetEncryption, (encryption_configuration const*))                             \
  FUNCTION(result, ParamBind, (void**, char const*))                                             \
  FUNCTION(result, ParamGetI8, (void*, std::int8_t*))                                            \
  FUNCTION(result, ParamGetI16, (void*, std::int16_t*))                                          \
  FUNCTION(result, ParamGetI32, (void*, std::int32_t*))                                          \
  FUNCTION(result, ParamGetI64, (void*, std::int64_t*))                                          \
  FUNCTION(result, ParamGetU8, (void*, std::uint8_t*))                                           \
  FUNCTION(result, ParamGetU16, (void*, std::uint16_t*))                                         \
  FUNCTION(result, ParamGetU32, (void*, std::uint32_t*))                                         \
  FUNCTION(result, ParamGetU64, (void*, std::uint64_t*))                                         \
  FUNCTION(result, ParamGetStr, (void*, char const**))                                           \
  FUNCTION(result, ParamGet, (void*, void*, int, int*))                                          \
  FUNCTION(result, ParamGetParameter, (char const*, char const**, int*))                         \
  FUNCTION(result, ParamGetAllParameterKeys, (char const***, int*))                              \
  FUNCTION(void, ParamDumpAll, ())

/// The same for nccl_device.h: preparations for calls from a program's own kernels.
#define BLINK_NCCL_DEVICE_FUNCTIONS(FUNCTION)                                                    \
  FUNCTION(result, CommQueryProperties, (communicator*, communicator_properties*))               \
  FUNCTION(result, DevCommCreate, (communicator*, void const*, void*))                           \
  FUNCTION(result, DevCommDestroy, (communicator*, void const*))                                 \
  FUNCTION(result, GetLsaMultimemDevicePointer, (void*, std::size_t, void**))                    \
  FUNCTION(result, GetMultimemDevicePointer, (void*, std::size_t, multicast_handle, void**))     \
  FUNCTION(result, GetLsaDevicePointer, (void*, std::size_t, int, void**))                       \
  FUNCTION(result, GetPeerDevicePointer, (void*, std::size_t, int, void**))                      \
  FUNCTION(result, GetMultimemDeviceLeInfo, (void*, std::size_t, std::uint32_t*, std::size_t*))  \
  FUNCTION(result, GetCftDeviceLeInfo,                                                           \
           (void*, std::size_t, int, rank_team, std::uint32_t*, std::size_t*))                   \
  FUNCTION(result, GetPeerDeviceLeInfo, (void*, std::size_t, int, std::uint32_t*, std::size_t*)) \
  FUNCTION(result, LsaBarrierCreateRequirement, (rank_team, int, void*, void*))                  \
  FUNCTION(result, GinBarrierCreateRequirement, (communicator*, rank_team, int, void*, void*))   \
  FUNCTION(result, LLA2ACreateRequirement, (int, int, void*, void*))                             \
  FUNCTION(rank_team, TeamWorld, (communicator*))                                                \
  FUNCTION(rank_team, TeamLsa, (communicator*))                                                  \
  FUNCTION(rank_team, TeamRail, (communicator*))                                                 \
  FUNCTION(rank_team, TeamCft, (communicator*, int))                                             \
  FUNCTION(rank_team, TeamCftMultimem, (communicator*))                                          \
  FUNCTION(int, TeamRankToWorld, (communicator*, rank_team, int))                                \
  FUNCTION(int, TeamRankToLsa, (communicator*, rank_team, int))                                  \
  FUNCTION(int, LLA2ACalcSlots, (int, int))

/// The same for functions that NCCL exports without a declaration, or with one that is deprecated.
#define BLINK_NCCL_UNDECLARED_FUNCTIONS(FUNCTION)                                     \
  FUNCTION(result, GinOutboxCreateRequirement, (int, int, void*, void*))              \
  FUNCTION(result, GinInboxA2ACreateRequirement, (rank_team, int, int, void*, void*)) \
  FUNCTION(void, ResetDebugInit, ())

#define BLINK_NCCL_FUNCTIONS(FUNCTION)  \
  BLINK_NCCL_FUNCTIONS_2_28(FUNCTION)   \
  BLINK_NCCL_FUNCTIONS_2_32(FUNCTION)   \
  BLINK_NCCL_DEVICE_FUNCTIONS(FUNCTION) \
  BLINK_NCCL_UNDECLARED_FUNCTIONS(FUNCTION)
