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

#include <define_functions.hpp>
