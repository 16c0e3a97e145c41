// SPDX-License-Identifier: Apache-2.0
// An epilogue that quantises. The sums also leave the kernel as 8-bit integers with a scale for
// each block of 32 elements, ready for 8-bit multiplication.

#include <blink/reducers/arithmetic.hpp>
#include <blink/reducers/epilogue.hpp>
#include <blink/transports/cuda/kernels/walk_kernel.cuh>
#include <blink/transports/cuda/runtime/peer_memory.hpp>

#include "host_ranks.hpp"
#include "quantise.hpp"

#include <cstdint>

using example::quantise;
using sum_and_quantise = blink::fused_reducer<blink::sum, quantise>;

BLINK_DEFINE_WALK_KERNEL(blink::reaching_peer_transport, float, sum_and_quantise);

int main() {
  constexpr std::size_t count = 8 * quantise::block;
  std::vector<std::vector<std::int8_t>> codes(example::ranks, std::vector<std::int8_t>(count));
  std::vector<std::vector<float>> scales(example::ranks,
                                         std::vector<float>(count / quantise::block));
  example::all_reduce_on_host(count, 2 * quantise::block, [&](int rank) {
    auto const own = static_cast<std::size_t>(rank);
    return blink::with_epilogue(blink::sum{}, quantise{codes[own].data(), scales[own].data()});
  });
  bool right = codes[0] == codes[1] && scales[0] == scales[1];
  for (std::size_t k = 0; k < count; ++k) {
    float const scale = scales[0][k / quantise::block];
    float const back = scale * static_cast<float>(codes[0][k]);
    right = right && std::fabs(back - example::sum_of_inputs(k)) <= 0.51F * scale;
  }
  return example::report("sums in 8 bits, within half a step", right);
}
