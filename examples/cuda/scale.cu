// SPDX-License-Identifier: Apache-2.0
// A prologue: the kernel that adds gradients unscales each of them before the sum.

#include <blink/transports/cuda/kernels/walk_kernel.cuh>
#include <blink/transports/cuda/runtime/peer_memory.hpp>

#include "host_ranks.hpp"
#include "unscaled_sum.hpp"

using example::unscaled_sum;

BLINK_DEFINE_WALK_KERNEL(blink::reaching_peer_transport, float, unscaled_sum);

int main() {
  constexpr float scale = 1024;
  auto const sums = example::all_reduce_on_host(100, 100, [](int) { return unscaled_sum{scale}; });
  bool right = true;
  for (std::size_t k = 0; k < sums.size(); ++k) {
    right = right && example::is_near(sums[k], example::sum_of_inputs(k) / scale);
  }
  return example::report("sums of unscaled gradients", right);
}
