// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

/// A large argument of a kernel, where all threads of the block may refer to it. Called by all of them.
///
/// By nvcc that is where arguments are (`BLINK_KERNEL_CONSTANT`). clang would copy it for each thread to local
/// memory, as it takes no address of arguments: there the block copies it once to shared memory, by single loads.
template <class T>
__device__ T const& kernel_argument(T const& argument) {
  static_assert(std::is_trivially_copyable_v<T>);
#if defined(__clang__)
  static_assert(sizeof(T) % sizeof(std::uint64_t) == 0);
  constexpr std::size_t count = sizeof(T) / sizeof(std::uint64_t);
  alignas(T) __shared__ std::uint64_t words[count];
  for (std::size_t k = threadIdx.x; k < count; k += blockDim.x) {
    __builtin_memcpy(&words[k], reinterpret_cast<std::byte const*>(&argument) + k * sizeof words[k],
                     sizeof words[k]);
  }
  __syncthreads();
  return *reinterpret_cast<T const*>(words);
#else
  return argument;
#endif
}

}}  // namespace blink::BLINK_ABI
