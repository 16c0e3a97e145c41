// SPDX-License-Identifier: Apache-2.0
#pragma once

// Kernels that `defining.cu` compiles and `launching.cu` only launches.

#include <blink/reducers/arithmetic.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/walk/packet_walk.hpp>
#include <blink/transports/cuda/kernels/call_kernel.cuh>
#include <blink/transports/cuda/kernels/walk_kernel.cuh>
#include <blink/transports/cuda/runtime/peer_memory.hpp>

// A `device_ranks` chooses between chunks and packets, so each of its calls has two kernels.
#ifdef BLINK_TEST_DEFINES_KERNELS
#define KERNELS(kind, ...) BLINK_DEFINE_##kind##_KERNEL(__VA_ARGS__)
#else
#define KERNELS(kind, ...) BLINK_DECLARE_##kind##_KERNEL(__VA_ARGS__)
#endif
KERNELS(CALL, blink::reaching_peer_transport, float, blink::sum);
KERNELS(CALL, blink::slot_peer_transport, float, blink::sum, blink::small_packets);
KERNELS(WALK, blink::slot_peer_transport, float, blink::sum);

namespace two_sources {

/// The kernels' addresses, in the order above, in the source that compiles them.
struct kernel_addresses {
  void const* all[3];
};
kernel_addresses defined_kernels();

}  // namespace two_sources
