// SPDX-License-Identifier: Apache-2.0
// All-reduce on GPUs with the user's own reducer. The kernel is compiled here, in the user's
// translation unit. With one GPU, four virtual ranks share it.
#include <blink/schedule/default_schedules.hpp>
#include <blink/transports/cuda.cuh>

#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <vector>

namespace example {

/// Length of the sum of vectors at right angles.
struct hypotenuse {
  __host__ __device__ float operator()(float a, float b) const { return sqrtf(a * a + b * b); }
};

}  // namespace example

int main() {
  constexpr int rank_count = 4;
  constexpr std::size_t count = 1 << 20;
  int const gpus = blink::cuda_devices::of_process().device_count();
  if (gpus == 0) {
    std::printf("no GPU: %s\n", blink::cuda_devices::why_none().c_str());
    return 77;
  }
  blink::device_options options;
  for (int rank = 0; rank < rank_count; ++rank)
    options.devices.push_back(gpus < rank_count ? 0 : rank);
  blink::device_ranks ranks(options);

  std::vector<blink::rank_buffers<float>> buffers;
  for (int rank = 0; rank < rank_count; ++rank) {
    float* data = nullptr;
    cudaSetDevice(options.devices[static_cast<std::size_t>(rank)]);
    cudaMalloc(&data, count * sizeof(float));
    std::vector<float> const ones(count, 1.0F);
    cudaMemcpy(data, ones.data(), count * sizeof(float), cudaMemcpyHostToDevice);
    buffers.push_back({data, data, count});  // in place
  }
  blink::all_reduce(ranks, blink::star_schedule(rank_count), buffers, example::hypotenuse{});
  ranks.wait();

  float result = 0;
  cudaMemcpy(&result, buffers[0].output + count / 2, sizeof result, cudaMemcpyDeviceToHost);
  std::printf("the length of (1, 1, 1, 1) is %g\n", static_cast<double>(result));
  for (auto const& own : buffers) cudaFree(own.output);
}
