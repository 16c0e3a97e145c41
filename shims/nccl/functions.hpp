// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions that programs call. The files define_*.hpp define them.

#include "abi.hpp"
#include "function_list.hpp"

namespace blink_nccl {

extern "C" {
#define BLINK_NCCL_DECLARE_AS(type, name, parameters) \
  __attribute__((visibility("default"))) type nccl##name parameters;
#define BLINK_NCCL_DECLARE(name, parameters) BLINK_NCCL_DECLARE_AS(result, name, parameters)
BLINK_NCCL_FUNCTIONS(BLINK_NCCL_DECLARE)
BLINK_NCCL_TEAM_FUNCTIONS(BLINK_NCCL_DECLARE_AS)
BLINK_NCCL_OTHER_FUNCTIONS(BLINK_NCCL_DECLARE_AS)
#undef BLINK_NCCL_DECLARE
#undef BLINK_NCCL_DECLARE_AS

/// Exported by NCCL for its own plug-ins.
__attribute__((visibility("default"))) void ncclResetDebugInitInternal();
}

}  // namespace blink_nccl
