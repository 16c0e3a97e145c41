// SPDX-License-Identifier: Apache-2.0
// The source that holds the kernels of kernels.cuh.

#define BLINK_TEST_DEFINES_KERNELS
#include "kernels.cuh"

namespace two_sources {

kernel_addresses defined_kernels() {
  return {{blink::call_kernel_address<blink::reaching_peer_transport, float, blink::sum>(),
           blink::call_kernel_address<blink::slot_peer_transport, float, blink::sum,
                                      blink::small_packets>(),
           blink::walk_kernel_address<blink::slot_peer_transport, float, blink::sum>()}};
}

}  // namespace two_sources
