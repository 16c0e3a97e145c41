// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/walk/thread_group.hpp>

#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// All threads of the calling CUDA block; one-dimensional.
struct thread_block {
  [[nodiscard]] BLINK_HOST_DEVICE std::uint32_t thread_rank() const {
#if BLINK_DEVICE_PASS
    return threadIdx.x;
#else
    return 0;
#endif
  }
  [[nodiscard]] BLINK_HOST_DEVICE std::uint32_t size() const {
#if BLINK_DEVICE_PASS
    return blockDim.x;
#else
    return 1;
#endif
  }
  BLINK_HOST_DEVICE void sync() const {
#if BLINK_DEVICE_PASS
    __syncthreads();
#endif
  }
  [[nodiscard]] BLINK_HOST_DEVICE bool from_leader(bool said) const {
    return any(thread_rank() == 0 && said);
  }
  [[nodiscard]] BLINK_HOST_DEVICE bool any(bool said) const {
#if BLINK_DEVICE_PASS
    return __syncthreads_or(said) != 0;
#else
    return said;
#endif
  }
};
static_assert(voting_group<thread_block>);

}}  // namespace blink::BLINK_ABI
