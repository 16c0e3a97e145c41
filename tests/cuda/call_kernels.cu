// SPDX-License-Identifier: Apache-2.0
// Kernels that a communicator of devices launches, for `inspect_kernel.cmake`; see also walk_kernels.cu.

#include <blink/collectives/detail/no_reducer.hpp>
#include <blink/collectives/wire_protocol.hpp>
#include <blink/reducers/accumulate_in.hpp>
#include <blink/transports/cuda/cuda_devices.cuh>
#include <blink/transports/cuda/peer_memory.hpp>

using widened_sum = decltype(blink::accumulate_in<float>(blink::sum{}));

BLINK_DEFINE_CALL_KERNEL(blink::reaching_peer_link, float, blink::sum);
BLINK_DEFINE_CALL_KERNEL(blink::reaching_peer_link, blink::bfloat16, widened_sum);
BLINK_DEFINE_CALL_KERNEL(blink::slot_peer_link, float, blink::sum, blink::small_packets);
BLINK_DEFINE_CALL_KERNEL(blink::slot_peer_link, blink::bfloat16, widened_sum, blink::small_packets);
BLINK_DEFINE_CALL_KERNEL(blink::slot_peer_link, unsigned char, blink::detail::no_reducer,
                         blink::small_packets);
