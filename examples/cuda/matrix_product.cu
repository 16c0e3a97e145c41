// SPDX-License-Identifier: Apache-2.0
// A collective inside the user's own kernel. Each rank multiplies its share of the inner dimension.
// Each block all-reduces its tiles of the product while other blocks still multiply
// (tile_product.hpp). With one GPU, four virtual ranks share it.
#include <blink/schedule/default_schedules.hpp>
#include <blink/transports/cuda.cuh>

#include "tile_product.hpp"
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

constexpr int rank_count = 4;
constexpr std::size_t rows = 200, columns = 96, tile_rows = 16;
constexpr std::size_t inner = 64;  // of each rank

// Memory that the host and the devices reach.
static float* matrix(std::size_t count) {
  float* data = nullptr;
  cudaMallocManaged(&data, count * sizeof(float));
  return data;
}

int main() {
  int const gpus = blink::cuda_devices::of_process().device_count();
  if (gpus == 0) {
    std::printf("no GPU: %s\n", blink::cuda_devices::why_none().c_str());
    return 77;
  }
  blink::device_options options;
  for (int rank = 0; rank < rank_count; ++rank)
    options.devices.push_back(gpus < rank_count ? 0 : rank);
  blink::device_ranks ranks(options);

  std::vector<example::tile_product> kernels;  // by rank
  for (std::size_t rank = 0; rank < rank_count; ++rank) {
    float* const left = matrix(rows * inner);
    float* const right = matrix(inner * columns);
    for (std::size_t k = 0; k < rows * inner; ++k) left[k] = static_cast<float>(k % 5 + rank);
    for (std::size_t k = 0; k < inner * columns; ++k) right[k] = static_cast<float>(k % 7);
    kernels.push_back({left, right, matrix(rows * columns), rows, inner, columns, tile_rows});
  }

  constexpr std::uint32_t blocks = 8;  // of each rank, each with its own channel
  auto const channels = ranks.prepare_channels<float>(
      blink::star_schedule(rank_count), {.most_count = tile_rows * columns, .channels = blocks});
  ranks.launch(channels, kernels, {.blocks = blocks, .threads = 256});
  ranks.wait();

  std::size_t wrong = 0;
  for (std::size_t e = 0; e < rows * columns; ++e) {
    float expected = 0;
    for (auto const& own : kernels) {
      for (std::size_t k = 0; k < inner; ++k) {
        expected += own.left[e / columns * inner + k] * own.right[k * columns + e % columns];
      }
    }
    for (auto const& own : kernels) wrong += own.product[e] != expected ? 1 : 0;
  }
  std::printf("product of shares: %zu of %zu elements are wrong\n", wrong,
              rank_count * rows * columns);
  return wrong == 0 ? 0 : 1;
}
