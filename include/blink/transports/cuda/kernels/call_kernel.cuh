// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/walk/thread_block.cuh>
#include <blink/running/walk/transport.hpp>
#include <blink/running/walk/wire_protocol.hpp>
#include <blink/transports/cuda/kernels/device_call.hpp>
#include <blink/transports/cuda/kernels/kernel_argument.cuh>
#include <blink/transports/cuda/kernels/walk_kernel.cuh>

namespace blink { inline namespace BLINK_ABI {

/// One device's blocks of a call; see `run_block`.
///
/// Pre: launched cooperatively, so that all blocks run at once.
template <transport Link, class T, reducer_for<T> Reducer, wire_protocol Protocol = whole_chunks>
__global__ void __launch_bounds__(most_block_threads, 1)
    call_kernel(BLINK_KERNEL_CONSTANT device_call const call,
                BLINK_KERNEL_CONSTANT Reducer const reduce) {
  run_block<Link, T, Protocol>(thread_block{}, kernel_argument(call), blockIdx.x, reduce);
}

/// The address of `call_kernel`. A function of its own, so that one translation unit may hold the
/// kernel and others launch it: `BLINK_DECLARE_CALL_KERNEL`.
template <transport Link, class T, reducer_for<T> Reducer, wire_protocol Protocol = whole_chunks>
void const* call_kernel_address() {
  static_assert(sizeof(device_call) + sizeof(Reducer) + alignof(Reducer) <= 4096,
                "blink: a reducer is an argument of a kernel, and all of them take at most 4 KiB");
  return reinterpret_cast<void const*>(&call_kernel<Link, T, Reducer, Protocol>);
}

}}  // namespace blink::BLINK_ABI

/// `BLINK_DECLARE_CALL_KERNEL(Link, T, Reducer);` in a header: the kernel is compiled elsewhere. That of
/// packets is another one: `(slot_peer_link, T, Reducer, small_packets)`, whatever the communicator's link.
#define BLINK_DECLARE_CALL_KERNEL(...) \
  extern template void const* blink::call_kernel_address<__VA_ARGS__>()
/// `BLINK_DEFINE_CALL_KERNEL(Link, T, Reducer);` in one source: the kernel is compiled here.
#define BLINK_DEFINE_CALL_KERNEL(...) template void const* blink::call_kernel_address<__VA_ARGS__>()
