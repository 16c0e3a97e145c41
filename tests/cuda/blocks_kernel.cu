// SPDX-License-Identifier: Apache-2.0
// All-gather and reduce-scatter with a block of any size for each rank, on virtual ranks of one
// GPU. Small blocks go as packets, large ones as chunks. Exits with 77, "skipped", without a GPU.

#include <blink/reducers/arithmetic.hpp>
#include <blink/schedule/block.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/transports/cuda.cuh>

#include "on_gpu.cuh"

#include <cstddef>
#include <cstdio>
#include <vector>

namespace blocks_test {

constexpr int ranks = 4;

/// Reduces and scatters blocks, then gathers the results. Returns the number of wrong elements.
std::size_t scatter_and_gather(blink::device_ranks& all_ranks,
                               std::vector<blink::block> const& blocks) {
  std::size_t const count = blocks.back().begin + blocks.back().count;
  gpu_test::managed<float> const data(ranks * count);  // one buffer of each rank with all blocks
  auto const of = [&](int rank) { return data.data() + static_cast<std::size_t>(rank) * count; };
  std::vector<blink::rank_buffers<float>> results, inputs;
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::size_t k = 0; k < count; ++k) {
      of(rank)[k] = static_cast<float>(rank + 1 + static_cast<int>(k % 7));
    }
    auto const own = blocks[static_cast<std::size_t>(rank)];
    float* const place = of(rank) + own.begin;
    results.push_back({of(rank), place, own.count});
    inputs.push_back({place, of(rank), own.count});
  }
  auto plan = blink::ring_schedule(ranks);
  plan.shares = {5, 1, 0, 3};
  blink::reduce_scatter_v(all_ranks, plan, results, blocks, blink::sum{});
  blink::all_gather_v(all_ranks, plan, inputs, blocks);
  all_ranks.wait();
  std::size_t wrong = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::size_t k = 0; k < count; ++k) {
      auto const expected = static_cast<float>(10 + 4 * static_cast<int>(k % 7));
      wrong += of(rank)[k] == expected ? 0 : 1;
    }
  }
  return wrong;
}

int run() {
  blink::device_ranks all_ranks({.devices = std::vector<int>(ranks, 0)});
  for (std::size_t const unit : {std::size_t{1}, std::size_t{77}, std::size_t{1} << 18}) {
    auto const blocks = blink::consecutive_blocks({5 * unit, unit, 0, 3 * unit + 1});
    auto const wrong = scatter_and_gather(all_ranks, blocks);
    if (wrong == 0) continue;
    std::printf("blocks of %zu and others: %zu elements are wrong\n", unit, wrong);
    return 1;
  }
  std::printf("blocks of unequal sizes are right on %d ranks\n", ranks);
  return 0;
}

}  // namespace blocks_test

int main() {
  return gpu_test::run_on_gpu(blocks_test::run);
}
