// SPDX-License-Identifier: Apache-2.0
// The whole library, as in `libnccl.cu`, on emulated devices.

#include "emulated_platform.hpp"
#include <reduce_elements.hpp>

namespace blink_nccl {
using chosen_platform = blink_test::emulated_platform;
}
#define BLINK_NCCL_ELSEWHERE(name) \
  BLINK_NCCL_REDUCTIONS(extern, blink_test::emulated_platform, name)
BLINK_NCCL_BUILT_TYPES(BLINK_NCCL_ELSEWHERE)

#include <define_calls.hpp>
#include <define_communicators.hpp>
#include <define_derived.hpp>
#include <define_device_interface.hpp>
#include <define_memory.hpp>
#include <define_parameters.hpp>
#include <define_rest.hpp>
#include <define_windows.hpp>
// After the definitions:
#include <define_profiling_names.hpp>
