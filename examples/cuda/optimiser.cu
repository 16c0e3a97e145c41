// SPDX-License-Identifier: Apache-2.0
// An epilogue that is a step of an optimiser. The kernel that adds the gradients also updates
// weights and momenta where the averages arrive.

#include <blink/reducers/arithmetic.hpp>
#include <blink/reducers/epilogue.hpp>
#include <blink/transports/cuda/kernels/walk_kernel.cuh>
#include <blink/transports/cuda/runtime/peer_memory.hpp>

#include "host_ranks.hpp"
#include "momentum_step.hpp"

using example::momentum_step;
using average_and_step = blink::fused_reducer<blink::avg, momentum_step>;

BLINK_DEFINE_WALK_KERNEL(blink::reaching_peer_transport, float, average_and_step);

int main() {
  constexpr std::size_t count = 1000;
  std::vector<std::vector<float>> weights(example::ranks, std::vector<float>(count, 1.0F));
  std::vector<std::vector<float>> momenta(example::ranks, std::vector<float>(count, 2.0F));
  example::all_reduce_on_host(count, 128, [&](int rank) {
    auto const own = static_cast<std::size_t>(rank);
    return blink::with_epilogue(
        blink::avg{}, momentum_step{weights[own].data(), momenta[own].data(), 0.1F, 0.9F});
  });
  bool right = weights[0] == weights[1];
  for (std::size_t k = 0; k < count; ++k) {
    float const momentum = 0.9F * 2 + example::sum_of_inputs(k) / 2;
    right = right && example::is_near(weights[0][k], 1 - 0.1F * momentum);
  }
  return example::report("weights after a step", right);
}
