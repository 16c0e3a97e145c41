// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/walk/thread_block.cuh>
#include <blink/transports/cuda/kernels/kernel_argument.cuh>
#include <blink/transports/cuda/kernels/walk_kernel.cuh>

namespace blink { inline namespace BLINK_ABI {

/// Blocks that each do their share of one piece of work, which is all that they are given.
///
/// Semantics beyond the syntax: `work(group, block)` is called by all threads of block number `block`.
template <class Work>
__global__ void __launch_bounds__(most_block_threads, 1)
    work_kernel(BLINK_KERNEL_CONSTANT Work const work) {
  static_assert(sizeof(Work) <= 4096, "blink: arguments of a kernel take at most 4 KiB");
  kernel_argument(work)(thread_block{}, blockIdx.x);
}

}}  // namespace blink::BLINK_ABI
