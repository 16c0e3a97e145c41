// SPDX-License-Identifier: Apache-2.0
// An epilogue that is a step of an optimiser: weights and momenta are updated where the averages of the
// gradients arrive, in the kernel that adds the gradients.

#include <blink/collectives/epilogue.hpp>
#include <blink/reducers/arithmetic.hpp>
#include <blink/transports/cuda/peer_memory.hpp>
#include <blink/transports/cuda/walk_kernel.cuh>

#include "host_ranks.hpp"

/// momentum = decay * momentum + gradient; weight -= rate * momentum
struct momentum_step {
  float* weights;
  float* momenta;
  float rate;
  float decay;

  template <class Group>
  BLINK_HOST_DEVICE void operator()(Group const group, float const* gradients, std::uint64_t index,
                                    std::size_t count) const {
    for (std::size_t k = group.thread_rank(); k < count; k += group.size()) {
      float const momentum = decay * momenta[index + k] + gradients[k];
      momenta[index + k] = momentum;
      weights[index + k] -= rate * momentum;
    }
  }
};
using average_and_step = blink::fused_reducer<blink::avg, momentum_step>;

BLINK_DEFINE_WALK_KERNEL(blink::reaching_peer_link, float, average_and_step);

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
