// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/walk/thread_block.cuh>
#include <blink/running/walk/thread_group.hpp>

#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// `Count` consecutive warps of the calling CUDA block, with a barrier of their own, so that
/// several tasks share one block.
///
/// The block is one-dimensional and consists of whole groups. There are at most 15 groups of
/// several warps, because a block has 16 barriers and `__syncthreads` uses the first. A group of
/// one warp needs none.
template <std::uint32_t Count>
struct warps {
  static_assert(Count >= 1 && Count <= 32, "blink: a block has 1 to 32 warps");
  static constexpr std::uint32_t threads = Count * 32;
  static constexpr std::uint32_t most_groups = Count == 1 ? 32 : 15;  ///< of a block

  /// The index of this group in its block.
  [[nodiscard]] BLINK_HOST_DEVICE std::uint32_t index() const {
#if BLINK_DEVICE_PASS
    return threadIdx.x / threads;
#else
    return 0;
#endif
  }
  /// The number of groups of the block.
  [[nodiscard]] BLINK_HOST_DEVICE std::uint32_t count() const {
#if BLINK_DEVICE_PASS
    return blockDim.x / threads;
#else
    return 1;
#endif
  }
  [[nodiscard]] BLINK_HOST_DEVICE std::uint32_t thread_rank() const {
#if BLINK_DEVICE_PASS
    return threadIdx.x % threads;
#else
    return 0;
#endif
  }
  [[nodiscard]] BLINK_HOST_DEVICE std::uint32_t size() const {
    return BLINK_DEVICE_PASS ? threads : 1;
  }
  BLINK_HOST_DEVICE void sync() const {
#if BLINK_DEVICE_PASS
    if constexpr (Count == 1) {
      __syncwarp();
    } else {
      asm volatile("barrier.sync %0, %1;" ::"r"(1 + index()), "r"(threads) : "memory");
    }
#endif
  }
  [[nodiscard]] BLINK_HOST_DEVICE bool from_leader(bool said) const {
    return any(thread_rank() == 0 && said);
  }
  [[nodiscard]] BLINK_HOST_DEVICE bool any(bool said) const {
#if BLINK_DEVICE_PASS
    if constexpr (Count == 1) {
      bool const anybody = __any_sync(0xffffffffU, said);
      __syncwarp();  // also orders memory
      return anybody;
    } else {
      std::uint32_t result = 0;
      asm volatile(
          "{ .reg .pred own, all; setp.ne.u32 own, %1, 0;"
          " barrier.red.or.pred all, %2, %3, own; selp.u32 %0, 1, 0, all; }"
          : "=r"(result)
          : "r"(static_cast<std::uint32_t>(said)), "r"(1 + index()), "r"(threads)
          : "memory");
      return result != 0;
    }
#else
    return said;
#endif
  }
};
static_assert(voting_group<warps<4>> && block_part<warps<4>>);

/// The calling thread's part of a block, for kernels that are written for any kind of block:
/// `part_of<4>(group)`.
///
/// Pre: the block consists of whole groups, of at most 15 if they have more than one warp.
template <std::uint32_t Count>
[[nodiscard]] BLINK_HOST_DEVICE constexpr warps<Count> part_of(thread_block const&) {
  return {};
}

}}  // namespace blink::BLINK_ABI
