// SPDX-License-Identifier: Apache-2.0
// Kernels that a communicator of devices launches, for `inspect_kernel.cmake`; see also walk_kernels.cu.

#include <blink/collectives/detail/no_reducer.hpp>
#include <blink/collectives/wire_protocol.hpp>
#include <blink/reducers/accumulate_in.hpp>
#include <blink/transports/cuda/cuda_devices.cuh>
#include <blink/transports/cuda/device_call.hpp>
#include <blink/transports/cuda/list_batch.hpp>
#include <blink/transports/cuda/peer_memory.hpp>
#include <blink/transports/cuda/piece_call.hpp>
#include <blink/transports/cuda/work_kernel.cuh>

using widened_sum = decltype(blink::accumulate_in<float>(blink::sum{}));

BLINK_DEFINE_CALL_KERNEL(blink::reaching_peer_link, float, blink::sum);
BLINK_DEFINE_CALL_KERNEL(blink::reaching_peer_link, blink::bfloat16, widened_sum);
BLINK_DEFINE_CALL_KERNEL(blink::slot_peer_link, float, blink::sum, blink::small_packets);
BLINK_DEFINE_CALL_KERNEL(blink::slot_peer_link, blink::bfloat16, widened_sum, blink::small_packets);
BLINK_DEFINE_CALL_KERNEL(blink::slot_peer_link, unsigned char, blink::detail::no_reducer,
                         blink::small_packets);

// Sends and receives between processes, and lists that arguments do not hold.
template __global__ void blink::work_kernel<blink::piece_call>(
    BLINK_KERNEL_CONSTANT blink::piece_call const);
template __global__ void blink::work_kernel<blink::list_batch<blink::piece_part>>(
    BLINK_KERNEL_CONSTANT blink::list_batch<blink::piece_part> const);
template __global__ void blink::work_kernel<blink::list_batch<blink::tree_call>>(
    BLINK_KERNEL_CONSTANT blink::list_batch<blink::tree_call> const);
