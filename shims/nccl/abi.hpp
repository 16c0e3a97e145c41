// SPDX-License-Identifier: Apache-2.0
#pragma once

// The binary interface between a program and libnccl.so.2: types and values, under blink's names.
// The functions are in function_list.hpp. tests/shims/nccl/cuda/abi_test.cpp compares both with
// NCCL's headers.

#include <climits>
#include <cstddef>
#include <cstdint>

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
  timeout = 8,
};
inline constexpr int result_count = 9;

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

inline constexpr int interface_version = 23203;  ///< the version of the interface: NCCL 2.32.3
inline constexpr int no_color = -1;
inline constexpr int unset_number = INT_MIN;

/// The magic number of every structure that a program sets with one of NCCL's initializers, except
/// for `simulation_info`.
inline constexpr unsigned structure_magic = 0xcafebeef;

// Structures that newer versions of NCCL extend at their ends. `size` is the number of bytes that
// the program has, `version` the version of NCCL that it was compiled with.

/// The beginning of the configuration of a communicator.
struct configuration {
  static constexpr unsigned expected_magic = structure_magic;
  static constexpr unsigned first_version = 21400;

  std::size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
};

/// The configuration of one collective call.
struct collective_configuration {
  static constexpr unsigned expected_magic = structure_magic;
  static constexpr unsigned first_version = 23200;

  std::size_t size;
  unsigned magic;
  unsigned version;
  void* extensions;  ///< options of other vendors
  int least_blocks;
  int most_blocks;
  int most_multicast_blocks;
  int cluster_size;
  char const* algorithms;
  int forces_algorithms;
  int policy;
  std::uint64_t profiler_tag;
  void* launch_event;
};

/// The result of a simulated group.
struct simulation_info {
  static constexpr unsigned expected_magic = 0x74685283;
  static constexpr unsigned first_version = 22200;
  static constexpr float unknown_time = -1.0F;

  std::size_t size;
  unsigned magic;
  unsigned version;
  float time;
};

/// The encryption of sockets.
struct encryption_configuration {
  static constexpr unsigned expected_magic = structure_magic;
  static constexpr unsigned first_version = 23200;
  static constexpr int none = 0;

  std::size_t size;
  unsigned magic;
  unsigned version;
  int mode;
  char const* key;
};

/// The properties of a communicator.
struct communicator_properties {
  static constexpr unsigned expected_magic = structure_magic;
  static constexpr unsigned first_version = 22900;

  std::size_t size;
  unsigned magic;
  unsigned version;
  int rank;
  int rank_count;
  int device;
  int management_device;  ///< its number in NVML
  bool has_device_interface;
  bool has_multicast;
  int network_kind;
  int load_store_teams;
  bool has_windows;
  int rail_network_kind;
  std::uint64_t hash;
  int least_network_stride;
  int network_connections;
  bool network_kinds[64];
  std::size_t device_communicator_bytes;
  bool has_fabric;
  bool has_fabric_multicast;
  bool has_fabric_counts;
};

/// Every `stride`-th rank of a communicator.
struct rank_team {
  int rank_count;
  int rank;  ///< of the caller
  int stride;
};

/// Memory that several devices write at once.
struct multicast_handle {
  void* memory;
};

inline constexpr int shrink_aborts = 1;    ///< flag of ncclCommShrink
inline constexpr int suspends_memory = 1;  ///< flag of ncclCommSuspend

/// The number that ncclCommMemStats returns.
enum class memory_statistic : int {
  suspendable_bytes = 0,
  is_suspended = 1,
  persistent_bytes = 2,
  total_bytes = 3,
};

struct communicator;  ///< opaque
using stream_handle = void*;

}  // namespace blink_nccl
