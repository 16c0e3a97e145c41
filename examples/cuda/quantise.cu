// SPDX-License-Identifier: Apache-2.0
// An epilogue that quantises: the sums also leave the kernel as 8-bit integers with a scale for each
// block of 32, ready for whoever multiplies in 8 bits.

#include <blink/collectives/epilogue.hpp>
#include <blink/reducers/arithmetic.hpp>
#include <blink/transports/cuda/peer_memory.hpp>
#include <blink/transports/cuda/walk_kernel.cuh>

#include "host_ranks.hpp"

#include <cstdint>

struct quantise {
  static constexpr std::size_t block = 32;
  std::int8_t* codes;
  float* scales;  // one for each block

  template <class Group>
  BLINK_HOST_DEVICE void operator()(Group const group, float const* results, std::uint64_t index,
                                    std::size_t count) const {
    for (std::size_t b = group.thread_rank(); b < count / block; b += group.size()) {
      float largest = 0;
      for (std::size_t k = 0; k < block; ++k) {
        largest = fmaxf(largest, fabsf(results[b * block + k]));
      }
      float const scale = largest / 127;
      scales[index / block + b] = scale;
      for (std::size_t k = 0; k < block; ++k) {
        float const steps = scale == 0 ? 0 : results[b * block + k] / scale;
        codes[index + b * block + k] = static_cast<std::int8_t>(rintf(steps));
      }
    }
  }
};
using sum_and_quantise = blink::fused_reducer<blink::sum, quantise>;

BLINK_DEFINE_WALK_KERNEL(blink::reaching_peer_link, float, sum_and_quantise);

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
