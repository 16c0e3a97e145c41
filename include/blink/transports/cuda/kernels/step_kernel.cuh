// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/walk/thread_group.hpp>
#include <blink/transports/cuda/kernels/copy_step.hpp>
#include <blink/transports/cuda/kernels/kernel_argument.cuh>

#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// All threads of a kernel, for work in which none needs another.
struct whole_grid {
  [[nodiscard]] BLINK_HOST_DEVICE std::uint32_t thread_rank() const {
#if BLINK_DEVICE_PASS
    return blockIdx.x * blockDim.x + threadIdx.x;
#else
    return 0;
#endif
  }
  [[nodiscard]] BLINK_HOST_DEVICE std::uint32_t size() const {
#if BLINK_DEVICE_PASS
    return gridDim.x * blockDim.x;
#else
    return 1;
#endif
  }
  BLINK_HOST_DEVICE void sync() const {}
  [[nodiscard]] BLINK_HOST_DEVICE bool from_leader(bool said) const { return said; }
};
static_assert(thread_group<whole_grid>);

/// What a copy engine leaves to kernels: one chunk, by all threads of a grid; see `run_step`.
template <class T, reducer_for<T> Reducer>
__global__ void __launch_bounds__(256) step_kernel(BLINK_KERNEL_CONSTANT copy_step const step,
                                                   BLINK_KERNEL_CONSTANT Reducer const reduce) {
  run_step<T>(whole_grid{}, kernel_argument(step), reduce);
}

}}  // namespace blink::BLINK_ABI
