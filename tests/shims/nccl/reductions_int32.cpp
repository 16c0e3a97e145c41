// SPDX-License-Identifier: Apache-2.0
#include "emulated_platform.hpp"
#include <reduce_elements.hpp>

BLINK_NCCL_REDUCTIONS(, blink_test::emulated_platform, int32)
