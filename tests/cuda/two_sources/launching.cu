// SPDX-License-Identifier: Apache-2.0
// Launches kernels that another source holds: by a communicator, and by their address. Without a
// GPU the program only checks that both sources refer to the same kernels, and exits with 77,
// "skipped".

#include <blink/running/walk/counter.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/transports/cuda.cuh>
#include <blink/transports/cuda/kernels/block_work.hpp>

#include "../on_gpu.cuh"
#include "kernels.cuh"
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace two_sources {

using gpu_test::check;
using gpu_test::managed;

kernel_addresses declared_kernels() {
  return {{blink::call_kernel_address<blink::reaching_peer_transport, float, blink::sum>(),
           blink::call_kernel_address<blink::slot_peer_transport, float, blink::sum,
                                      blink::small_packets>(),
           blink::walk_kernel_address<blink::slot_peer_transport, float, blink::sum>()}};
}

/// The number of wrong sums of both kernels of a communicator: packets for few elements, chunks for
/// many.
std::size_t wrong_sums() {
  constexpr std::size_t ranks = 4, most = 100'000;
  blink::device_ranks all_ranks({.devices = std::vector<int>(ranks, 0)});
  std::size_t wrong = 0;
  for (std::size_t const count : {std::size_t{10}, most}) {
    managed<float> data(ranks * count);
    std::vector<blink::rank_buffers<float>> buffers;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      float* const own = data.data() + rank * count;
      for (std::size_t k = 0; k < count; ++k) own[k] = static_cast<float>(k % 100 + rank);
      buffers.push_back({own, own, count});
    }
    blink::all_reduce(all_ranks, blink::ring_schedule(ranks), buffers, blink::sum{});
    all_ranks.wait();
    for (std::size_t k = 0; k < ranks * count; ++k) {
      wrong +=
          data[k] == static_cast<float>(ranks * (k % count % 100) + 6) ? 0 : 1;  // 0 + 1 + 2 + 3
    }
  }
  return wrong;
}

/// True if `walk_kernel` ends for a block without tasks, which has nothing to wait for.
bool walk_kernel_ends() {
  using work_type = blink::block_work<blink::slot_peer_transport, float>;
  managed<work_type> work(1);
  work[0] = work_type{};
  work[0].task_count = 0;
  work[0].result = blink::status::timed_out;
  work_type* works = work.data();
  std::uint64_t deadline_nanoseconds = 1'000'000'000;
  blink::sum reduce;
  void* arguments[] = {&works, &deadline_nanoseconds, &reduce};
  check(cudaLaunchCooperativeKernel(
            blink::walk_kernel_address<blink::slot_peer_transport, float, blink::sum>(), dim3(1),
            dim3(128), arguments, 0, nullptr),
        "cudaLaunchCooperativeKernel");
  check(cudaDeviceSynchronize(), "walk_kernel");
  return work[0].result == blink::status::ok;
}

}  // namespace two_sources

int main() {
  auto const here = two_sources::declared_kernels();
  auto const there = two_sources::defined_kernels();
  for (std::size_t k = 0; k < 3; ++k) {
    if (here.all[k] == nullptr || here.all[k] != there.all[k]) {
      std::printf("kernel %zu is another one in each source\n", k);
      return 1;
    }
  }
  return gpu_test::run_on_gpu([] {
    std::size_t const wrong = two_sources::wrong_sums();
    bool const ends = two_sources::walk_kernel_ends();
    std::printf("%zu wrong elements; walk_kernel %s\n", wrong, ends ? "ends" : "does not end well");
    return wrong == 0 && ends ? 0 : 1;
  });
}
