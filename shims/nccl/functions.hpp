// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions that programs call, as `entry_points.hpp` defines them.

#include "abi.hpp"

namespace blink_nccl {

extern "C" {
#define BLINK_NCCL_DECLARE(name, parameters) \
  __attribute__((visibility("default"))) result nccl##name parameters;
BLINK_NCCL_FUNCTIONS(BLINK_NCCL_DECLARE)
#undef BLINK_NCCL_DECLARE

__attribute__((visibility("default"))) char const* ncclGetErrorString(result);
__attribute__((visibility("default"))) char const* ncclGetLastError(communicator*);
__attribute__((visibility("default"))) void ncclResetDebugInit();

// Programs that may call NCCL from their own kernels are linked with these symbols.
__attribute__((visibility("default"))) result ncclDevCommCreate(communicator*, void const*, void*);
__attribute__((visibility("default"))) result ncclDevCommDestroy(communicator*, void const*);
}

}  // namespace blink_nccl
