// SPDX-License-Identifier: Apache-2.0
#pragma once

// The binary interface between a program and libnccl.so.2: types, values and function types, under
// blink's names. tests/shims/nccl/cuda/abi_test.cpp compares them with NCCL's header.

#include <climits>
#include <cstddef>

namespace blink_nccl {

enum class result : int {
  success = 0,
  cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
};

enum class data_type : int {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  uint32 = 3,
  int64 = 4,
  uint64 = 5,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
  float8_e4m3 = 10,
  float8_e5m2 = 11,
};
inline constexpr int data_type_count = 12;

/// The predefined operations; larger values are operations of a communicator.
enum class operation : int { sum = 0, prod = 1, max = 2, min = 3, avg = 4 };
inline constexpr int operation_count = 5;

/// The memory of the factor of a pre-multiplied sum.
enum class residence : int { device = 0, host_immediate = 1 };

struct unique_id {
  char bytes[128];
};

inline constexpr int interface_version = 22800;  ///< the version of the interface: NCCL 2.28
inline constexpr int no_color = -1;
inline constexpr int unset_number = INT_MIN;

/// The beginning of a configuration, which newer versions of NCCL have extended. `size` is the
/// number of bytes present.
struct configuration {
  static constexpr unsigned expected_magic = 0xcafebeef;

  std::size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
};

struct communicator;  ///< opaque
using stream_handle = void*;

}  // namespace blink_nccl

/// FUNCTION(name without its prefix, parameters) for each function that returns a `result`.
#define BLINK_NCCL_FUNCTIONS(FUNCTION)                                                            \
  FUNCTION(GetVersion, (int*))                                                                    \
  FUNCTION(GetUniqueId, (unique_id*))                                                             \
  FUNCTION(CommInitRank, (communicator**, int, unique_id, int))                                   \
  FUNCTION(CommInitRankConfig, (communicator**, int, unique_id, int, configuration*))             \
  FUNCTION(CommInitRankScalable, (communicator**, int, int, int, unique_id*, configuration*))     \
  FUNCTION(CommInitAll, (communicator**, int, int const*))                                        \
  FUNCTION(CommSplit, (communicator*, int, int, communicator**, configuration*))                  \
  FUNCTION(CommShrink, (communicator*, int*, int, communicator**, configuration*, int))           \
  FUNCTION(CommFinalize, (communicator*))                                                         \
  FUNCTION(CommDestroy, (communicator*))                                                          \
  FUNCTION(CommAbort, (communicator*))                                                            \
  FUNCTION(CommRevoke, (communicator*, int))                                                      \
  FUNCTION(CommGetAsyncError, (communicator*, result*))                                           \
  FUNCTION(CommCount, (communicator*, int*))                                                      \
  FUNCTION(CommCuDevice, (communicator*, int*))                                                   \
  FUNCTION(CommUserRank, (communicator*, int*))                                                   \
  FUNCTION(CommRegister, (communicator*, void*, std::size_t, void**))                             \
  FUNCTION(CommDeregister, (communicator*, void*))                                                \
  FUNCTION(CommWindowRegister, (communicator*, void*, std::size_t, void**, int))                  \
  FUNCTION(CommWindowDeregister, (communicator*, void*))                                          \
  FUNCTION(MemAlloc, (void**, std::size_t))                                                       \
  FUNCTION(MemFree, (void*))                                                                      \
  FUNCTION(RedOpCreatePreMulSum, (operation*, void*, data_type, residence, communicator*))        \
  FUNCTION(RedOpDestroy, (operation, communicator*))                                              \
  FUNCTION(GroupStart, ())                                                                        \
  FUNCTION(GroupEnd, ())                                                                          \
  FUNCTION(GroupSimulateEnd, (void*))                                                             \
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
  FUNCTION(Recv, (void*, std::size_t, data_type, int, communicator*, stream_handle))
