// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/walk/packet_walk.hpp>
#include <blink/running/walk/thread_block.cuh>
#include <blink/running/walk/thread_group.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/transports/cuda/kernels/copy_step.hpp>
#include <blink/transports/cuda/kernels/device_call.hpp>
#include <blink/transports/cuda/kernels/walk_kernel.cuh>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

/// Returns a large argument of a kernel, at an address that all threads of the block can use. All
/// threads of the block call it.
///
/// nvcc uses the argument where it is (`BLINK_KERNEL_CONSTANT`). clang cannot take the address of
/// an argument and would copy it to local memory of each thread. With clang the block copies it
/// once to shared memory, by single loads.
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

/// One device's blocks of a call; see `run_block`.
///
/// Pre: launched cooperatively, so that all blocks run at once.
template <transport Transport, class T, reducer_for<T> Reducer,
          connection_protocol Protocol = whole_chunks>
__global__ void __launch_bounds__(most_block_threads, 1)
    call_kernel(BLINK_KERNEL_CONSTANT device_call const call,
                BLINK_KERNEL_CONSTANT Reducer const reduce) {
  run_block<Transport, T, Protocol>(thread_block{}, kernel_argument(call), blockIdx.x, reduce);
}

/// Returns the address of `call_kernel`. It is a separate function so that one translation unit can
/// hold the kernel and others launch it: `BLINK_DECLARE_CALL_KERNEL`.
template <transport Transport, class T, reducer_for<T> Reducer,
          connection_protocol Protocol = whole_chunks>
void const* call_kernel_address() {
  static_assert(sizeof(device_call) + sizeof(Reducer) + alignof(Reducer) <= 4096,
                "blink: the reducer is too large: arguments of a kernel take at most 4 KiB");
  return reinterpret_cast<void const*>(&call_kernel<Transport, T, Reducer, Protocol>);
}

}}  // namespace blink::BLINK_ABI

/// `BLINK_DECLARE_CALL_KERNEL(Transport, T, Reducer);` in a header: the kernel is compiled
/// elsewhere. The kernel of packets is `(slot_peer_transport, T, Reducer, small_packets)`, whatever
/// the communicator's transport.
#define BLINK_DECLARE_CALL_KERNEL(...) \
  extern template void const* blink::call_kernel_address<__VA_ARGS__>()
/// `BLINK_DEFINE_CALL_KERNEL(Transport, T, Reducer);` in one source: the kernel is compiled here.
#define BLINK_DEFINE_CALL_KERNEL(...) template void const* blink::call_kernel_address<__VA_ARGS__>()

namespace blink { inline namespace BLINK_ABI {

/// All threads of a kernel, for work in which no thread needs another one.
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

/// The work that a copy engine leaves to kernels: one chunk, by all threads of a grid; see
/// `run_step`.
template <class T, reducer_for<T> Reducer>
__global__ void __launch_bounds__(256) step_kernel(BLINK_KERNEL_CONSTANT copy_step const step,
                                                   BLINK_KERNEL_CONSTANT Reducer const reduce) {
  run_step<T>(whole_grid{}, kernel_argument(step), reduce);
}

/// Blocks that each do their share of one piece of work, which is the kernel's only argument.
///
/// Semantics beyond the syntax: all threads of block number `block` call `work(group, block)`.
template <class Work>
__global__ void __launch_bounds__(most_block_threads, 1)
    work_kernel(BLINK_KERNEL_CONSTANT Work const work) {
  static_assert(sizeof(Work) <= 4096, "blink: arguments of a kernel take at most 4 KiB");
  kernel_argument(work)(thread_block{}, blockIdx.x);
}

}}  // namespace blink::BLINK_ABI
