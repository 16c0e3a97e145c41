// SPDX-License-Identifier: Apache-2.0
// An all-reduce along blink's trees whose edges are NCCL's sends and receives. Here the ranks are
// GPUs of one process. With one process for each rank, on one or several machines, each process
// makes its communicator by ncclCommInitRank.
#include <blink/reducers/arithmetic.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/transports/nccl.cuh>

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
  std::vector<ncclComm_t> communicators(static_cast<std::size_t>(gpus));
  if (ncclResult_t const made = ncclCommInitAll(communicators.data(), gpus, nullptr)) {
    std::printf("ncclCommInitAll: %s\n", ncclGetErrorString(made));
    return 1;
  }
  constexpr std::size_t count = 1 << 20;
  std::vector<blink::rank_buffers<float>> buffers;
  for (int rank = 0; rank < gpus; ++rank) {
    float* data = nullptr;
    cudaSetDevice(rank);
    cudaMalloc(&data, count * sizeof(float));
    std::vector<float> const mine(count, 1.0F + static_cast<float>(rank));
    cudaMemcpy(data, mine.data(), count * sizeof(float), cudaMemcpyHostToDevice);
    buffers.push_back({data, data, count});  // in place
  }
  {
    blink::nccl_ranks ranks(communicators);  // destroyed before the communicators
    // Or a schedule that make_schedule returns for a plan over several machines.
    blink::all_reduce(ranks, blink::binomial_schedule(ranks.rank_count(), 0), buffers,
                      blink::sum{});
    ranks.wait();
  }
  float result = 0;
  cudaMemcpy(&result, buffers[0].output + count / 2, sizeof result, cudaMemcpyDeviceToHost);
  std::printf("1 + … + %d = %g\n", gpus, static_cast<double>(result));
  for (auto const& own : buffers) cudaFree(own.output);
  for (auto const& one : communicators) ncclCommDestroy(one);
}
