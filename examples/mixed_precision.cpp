// SPDX-License-Identifier: Apache-2.0
// Gradients in 16 bits, added in 32 bits: one rounding at the end instead of one at every rank.
#include <blink/collectives.hpp>
#include <blink/reducers/accumulate_in.hpp>

#include <cstdio>
#include <vector>

int main() {
  constexpr int ranks = 8;
  auto const trees = blink::chain_schedule(ranks, 0);  // the longest path to the root
  blink::thread_ranks threads(ranks);
  threads.run([&](auto& comm) {
    // The rank farthest from the root has 256. A bfloat16 has no digit left for 256 + 1.
    float const value = comm.rank() == ranks - 1 ? 256.0F : 1.0F;
    std::vector<blink::bfloat16> gradients(1000, blink::bfloat16(value));
    auto careless = gradients;

    blink::all_reduce(comm, trees, gradients.data(), gradients.data(), gradients.size(),
                      blink::accumulate_in<float>(blink::sum{}));
    auto const rounds_each_time = [](blink::bfloat16 a, blink::bfloat16 b) {
      return blink::bfloat16(a + b);
    };
    blink::all_reduce(comm, trees, careless.data(), careless.data(), careless.size(),
                      rounds_each_time);
    if (comm.rank() == 0) {
      std::printf("256 + 7 * 1: %g added as float, %g rounded at every step\n",
                  static_cast<double>(gradients[0]), static_cast<double>(careless[0]));
    }
  });
}
