// SPDX-License-Identifier: Apache-2.0
// Copy engines as the transport of virtual ranks of one GPU, and probes of the routes between all
// GPUs. Exits with 77, "skipped", without a GPU.

#include <blink/reducers/arithmetic.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/transports/cuda.cuh>
#include <blink/transports/cuda/copy/copy_ranks.hpp>
#include <blink/transports/cuda/runtime/probe_links.hpp>

#include "on_gpu.cuh"

#include <cstddef>
#include <cstdio>
#include <vector>

namespace copies_test {

constexpr int ranks = 4;

/// The number of wrong elements after an all-reduce and a broadcast.
std::size_t reduce_and_copy(blink::basic_copy_ranks<blink::cuda_devices>& all_ranks,
                            std::size_t count) {
  gpu_test::managed<float> const data(2 * ranks * count);
  auto const input = [&](int rank) {
    return data.data() + 2 * static_cast<std::size_t>(rank) * count;
  };
  auto const output = [&](int rank) { return input(rank) + count; };
  std::vector<blink::rank_buffers<float>> sums, copies;
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::size_t k = 0; k < count; ++k) {
      input(rank)[k] = static_cast<float>(rank + 1 + static_cast<int>(k % 7));
    }
    sums.push_back({input(rank), output(rank), count});
    copies.push_back({output(rank), input(rank), count});
  }
  blink::all_reduce(all_ranks, blink::ring_schedule(ranks), sums, blink::sum{});
  blink::broadcast(all_ranks, blink::chain_schedule(ranks, 1), copies);
  all_ranks.wait();
  std::size_t wrong = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::size_t k = 0; k < count; ++k) {
      auto const expected = static_cast<float>(10 + 4 * static_cast<int>(k % 7));
      wrong += output(rank)[k] == expected && input(rank)[k] == expected ? 0 : 1;
    }
  }
  return wrong;
}

int run() {
  auto& driver = blink::cuda_devices::of_process();
  std::vector<int> devices;
  for (int device = 0; device < driver.device_count(); ++device) devices.push_back(device);
  for (int const device : devices) {
    std::printf("GPU %d is at %s\n", device, driver.bus_id(device).c_str());
  }
  for (auto const& probe : blink::probe_links(driver, devices)) {
    std::printf("GPU %d to GPU %d: %s, %.1f GB/s\n", probe.from, probe.to,
                !probe.reaches  ? "no access"
                : probe.arrives ? "written data arrives"
                                : "written data does NOT arrive",
                probe.bytes_per_second / 1e9);
  }
  blink::basic_copy_ranks<blink::cuda_devices> all_ranks(driver,
                                                         {.devices = std::vector<int>(ranks, 0)});
  for (std::size_t const count : {std::size_t{1}, std::size_t{777}, std::size_t{1} << 20}) {
    auto const wrong = reduce_and_copy(all_ranks, count);
    if (wrong == 0) continue;
    std::printf("%zu elements: %zu are wrong\n", count, wrong);
    return 1;
  }
  std::printf("sums and copies by copy engines are right on %d ranks\n", ranks);
  return 0;
}

}  // namespace copies_test

int main() {
  return gpu_test::run_on_gpu(copies_test::run);
}
