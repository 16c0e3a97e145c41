// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions that programs call. The files define_*.hpp define them.

#include "abi.hpp"
#include "function_list.hpp"

namespace blink_nccl {

extern "C" {
#define BLINK_NCCL_DECLARE(type, name, parameters) \
  __attribute__((visibility("default"))) type nccl##name parameters;
BLINK_NCCL_FUNCTIONS(BLINK_NCCL_DECLARE)
#undef BLINK_NCCL_DECLARE

/// Exported by NCCL for its own plug-ins. It has no second name.
__attribute__((visibility("default"))) void ncclResetDebugInitInternal();
}

}  // namespace blink_nccl
