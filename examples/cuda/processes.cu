// SPDX-License-Identifier: Apache-2.0
// One process for each GPU, as in MPI programs and PyTorch. Start it with `blink run -n 2 --
// example_cuda_processes`. With one GPU the processes take turns on it.
#include <blink/reducers/arithmetic.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/transports/cuda.cuh>
#include <blink/transports/host/launcher_bootstrap.hpp>

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdio>
#include <vector>

int main() {
  int const gpus = blink::cuda_devices::of_process().device_count();
  if (gpus == 0) {
    std::printf("no GPU: %s\n", blink::cuda_devices::why_none().c_str());
    return 77;
  }
  try {
    constexpr std::size_t count = 1 << 20;
    blink::launcher_bootstrap all;
    int const device = all.process() % gpus;
    blink::process_device_ranks ranks({.devices = {device}}, all);

    float* data = nullptr;
    cudaSetDevice(device);
    cudaMalloc(&data, count * sizeof(float));
    std::vector<float> const mine(count, 1.0F + static_cast<float>(all.process()));
    cudaMemcpy(data, mine.data(), count * sizeof(float), cudaMemcpyHostToDevice);

    std::vector<blink::rank_buffers<float>> const buffers{{data, data, count}};  // in place
    blink::all_reduce(ranks, blink::star_schedule(ranks.rank_count()), buffers, blink::sum{});
    ranks.wait();

    float result = 0;
    cudaMemcpy(&result, data + count / 2, sizeof result, cudaMemcpyDeviceToHost);
    std::printf("rank %d of %d: %g\n", ranks.first_rank(), ranks.rank_count(),
                static_cast<double>(result));
    cudaFree(data);
  } catch (blink::input_error const& failure) {  // not started by a launcher
    std::printf("%s\n", failure.what());
  }
}
