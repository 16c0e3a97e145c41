// SPDX-License-Identifier: Apache-2.0
// The kernels of BLINK_NCCL_TYPE: six operations.

#include "built_types.hpp"
#include "cuda_platform.cuh"
#include "reduce_elements.hpp"

BLINK_NCCL_REDUCTIONS(, blink_nccl::cuda_platform, BLINK_NCCL_TYPE)
