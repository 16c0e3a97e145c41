// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/walk/packet_walk.hpp>
#include <blink/running/walk/thread_block.cuh>
#include <blink/running/walk/transport.hpp>
#include <blink/running/walk/warps.cuh>
#include <blink/transports/cuda/kernels/block_work.hpp>

#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// The largest number of threads of a block that kernels are compiled for.
inline constexpr int most_block_threads = 512;

/// One block for each task of one or more ranks: any collective, along any schedule.
///
/// Pre: launched cooperatively, so that all blocks run at once. A task that waits for a task that
///      is not resident would never end.
template <transport Transport, class T, reducer_for<T> Reducer,
          connection_protocol Protocol = whole_chunks>
__global__ void __launch_bounds__(most_block_threads, 1)
    walk_kernel(block_work<Transport, T>* work, std::uint64_t deadline_nanoseconds,
                Reducer const reduce) {
  walk_block<Protocol>(thread_block{}, work[blockIdx.x], deadline_nanoseconds, reduce);
}

/// The same with `Warps` warps for each task: several tasks share a block, so that more of them run
/// at once. Blocks consist of whole groups of warps, at most `warps<Warps>::most_groups`.
template <std::uint32_t Warps, transport Transport, class T, reducer_for<T> Reducer,
          connection_protocol Protocol = whole_chunks>
__global__ void __launch_bounds__(most_block_threads, 1)
    walk_warps_kernel(block_work<Transport, T>* work, std::uint32_t work_count,
                      std::uint64_t deadline_nanoseconds, Reducer const reduce) {
  walk_part<Protocol>(warps<Warps>{}, blockIdx.x, work, work_count, deadline_nanoseconds, reduce);
}

/// Returns the address of `walk_kernel` for `cudaLaunchCooperativeKernel`. It is a separate
/// function so that one translation unit can hold the kernel and others launch it (see the macros
/// below).
template <transport Transport, class T, reducer_for<T> Reducer,
          connection_protocol Protocol = whole_chunks>
void const* walk_kernel_address() {
  return reinterpret_cast<void const*>(&walk_kernel<Transport, T, Reducer, Protocol>);
}
/// Returns the address of `walk_warps_kernel`.
template <std::uint32_t Warps, transport Transport, class T, reducer_for<T> Reducer,
          connection_protocol Protocol = whole_chunks>
void const* walk_warps_kernel_address() {
  return reinterpret_cast<void const*>(&walk_warps_kernel<Warps, Transport, T, Reducer, Protocol>);
}

}}  // namespace blink::BLINK_ABI

/// `BLINK_DECLARE_WALK_KERNEL(Transport, T, Reducer);`, with a protocol if needed, in a header: the
/// kernel is compiled elsewhere.
#define BLINK_DECLARE_WALK_KERNEL(...) \
  extern template void const* blink::walk_kernel_address<__VA_ARGS__>()
/// `BLINK_DEFINE_WALK_KERNEL(Transport, T, Reducer);` in one source: the kernel is compiled here.
#define BLINK_DEFINE_WALK_KERNEL(...) template void const* blink::walk_kernel_address<__VA_ARGS__>()
