// SPDX-License-Identifier: Apache-2.0
// Kernels that a communicator of devices launches, for `inspect_kernel.cmake`; see also walk_kernels.cu.

#include <blink/reducers/accumulate_in.hpp>
#include <blink/transports/cuda/cuda_devices.cuh>
#include <blink/transports/cuda/peer_memory.hpp>

using widened_sum = decltype(blink::accumulate_in<float>(blink::sum{}));

BLINK_DEFINE_CALL_KERNEL(blink::reaching_peer_link, float, blink::sum);
BLINK_DEFINE_CALL_KERNEL(blink::reaching_peer_link, blink::bfloat16, widened_sum);
