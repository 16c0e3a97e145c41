// SPDX-License-Identifier: Apache-2.0
// Two processes on one GPU, whose kernels pass chunks through memory that the other process shares
// (CUDA IPC). The driver runs them in turns. Exits with 77, "skipped", without a GPU.

#include <blink/reducers/arithmetic.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/transports/cuda.cuh>
#include <blink/transports/host/segment_bootstrap.hpp>
#include <blink/transports/host/shared_segment.hpp>

#include <cuda_runtime.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace {

constexpr int skipped = 77;
constexpr int processes = 2;
constexpr int ranks_each = 2;

/// Sums over the ranks of all processes and checks every result. Returns the number of wrong
/// elements.
std::size_t sum_up(blink::process_device_ranks& all_ranks, std::size_t count) {
  std::vector<blink::rank_buffers<float>> buffers;
  for (int k = 0; k < all_ranks.ranks_here(); ++k) {
    float* data = nullptr;
    cudaMalloc(&data, count * sizeof(float));
    std::vector<float> const mine(count, 1.0F + static_cast<float>(all_ranks.first_rank() + k));
    cudaMemcpy(data, mine.data(), count * sizeof(float), cudaMemcpyHostToDevice);
    buffers.push_back({data, data, count});
  }
  blink::all_reduce(all_ranks, blink::ring_schedule(all_ranks.rank_count()), buffers, blink::sum{});
  all_ranks.wait();
  int const ranks = all_ranks.rank_count();
  auto const expected = static_cast<float>(ranks * (ranks + 1) / 2);
  std::size_t wrong = 0;
  for (auto const& own : buffers) {
    std::vector<float> result(count);
    cudaMemcpy(result.data(), own.output, count * sizeof(float), cudaMemcpyDeviceToHost);
    for (float const value : result) wrong += value == expected ? 0 : 1;
    cudaFree(own.output);
  }
  return wrong;
}

int run_process(std::string const& path, int process) {
  if (blink::cuda_devices::of_process().device_count() == 0) return skipped;
  blink::segment_bootstrap all(path, process, std::chrono::seconds(30));
  blink::device_options options;
  options.devices.assign(ranks_each, 0);
  blink::process_device_ranks all_ranks(options, all);
  for (std::size_t const count : {std::size_t{1}, std::size_t{1000}, std::size_t{1} << 20}) {
    auto const wrong = sum_up(all_ranks, count);
    if (wrong == 0) continue;
    std::printf("process %d, count %zu: %zu elements are wrong\n", process, count, wrong);
    return 1;
  }
  return 0;
}

}  // namespace

int main() {
  auto const segment = blink::shared_segment::create(processes, std::size_t{1} << 28);
  std::vector<pid_t> children;
  for (int process = 0; process < processes; ++process) {  // before any process uses the driver
    std::fflush(nullptr);
    pid_t const child = fork();
    if (child == 0) {
      int result = 2;
      try {
        result = run_process(segment.path(), process);
      } catch (std::exception const& failure) {
        std::printf("process %d: %s\n", process, failure.what());
      }
      std::fflush(nullptr);
      _exit(result);
    }
    children.push_back(child);
  }
  int result = 0;
  for (pid_t const child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    int const its = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    if (its != 0) result = its;
  }
  if (result == skipped) std::printf("skipped: no GPU\n");
  if (result == 0)
    std::printf("all sums of %d ranks in two processes are right\n", processes * ranks_each);
  return result;
}
