// SPDX-License-Identifier: Apache-2.0
// Copy engines as the transport of virtual ranks of one GPU, and probes of the ways between all GPUs. Exits with 77,
// "skipped", without a GPU.

#include <blink/collectives/default_schedules.hpp>
#include <blink/reducers/arithmetic.hpp>
#include <blink/transports/cuda.cuh>
#include <blink/transports/cuda/copy_world.hpp>
#include <blink/transports/cuda/probe_links.hpp>

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <vector>

namespace copies_test {

constexpr int skipped = 77;
constexpr int ranks = 4;

/// Memory that host and device reach: an input and an output of each rank.
class managed_buffers {
 public:
  explicit managed_buffers(std::size_t count) : count_(count) {
    auto const result = cudaMallocManaged(&data_, 2 * ranks * count * sizeof(float));
    if (result != cudaSuccess) throw std::runtime_error(cudaGetErrorString(result));
  }
  managed_buffers(managed_buffers const&) = delete;
  managed_buffers& operator=(managed_buffers const&) = delete;
  ~managed_buffers() { cudaFree(data_); }
  [[nodiscard]] float* input(int rank) const {
    return data_ + 2 * static_cast<std::size_t>(rank) * count_;
  }
  [[nodiscard]] float* output(int rank) const { return input(rank) + count_; }

 private:
  float* data_ = nullptr;
  std::size_t count_;
};

/// How many elements are wrong after an all-reduce and a broadcast.
std::size_t reduce_and_copy(blink::basic_copy_world<blink::cuda_devices>& world,
                            std::size_t count) {
  managed_buffers const all(count);
  std::vector<blink::rank_buffers<float>> sums, copies;
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::size_t k = 0; k < count; ++k) {
      all.input(rank)[k] = static_cast<float>(rank + 1 + static_cast<int>(k % 7));
    }
    sums.push_back({all.input(rank), all.output(rank), count});
    copies.push_back({all.output(rank), all.input(rank), count});
  }
  blink::all_reduce(world, blink::ring_schedule(ranks), sums, blink::sum{});
  blink::broadcast(world, blink::chain_schedule(ranks, 1), copies);
  world.wait();
  std::size_t wrong = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::size_t k = 0; k < count; ++k) {
      auto const expected = static_cast<float>(10 + 4 * static_cast<int>(k % 7));
      wrong += all.output(rank)[k] == expected && all.input(rank)[k] == expected ? 0 : 1;
    }
  }
  return wrong;
}

int run() {
  auto& driver = blink::cuda_devices::of_process();
  if (driver.device_count() == 0) {
    std::printf("skipped: no GPU: %s\n", blink::cuda_devices::why_none().c_str());
    return skipped;
  }
  std::vector<int> devices;
  for (int device = 0; device < driver.device_count(); ++device) devices.push_back(device);
  for (int const device : devices) {
    std::printf("GPU %d is at %s\n", device, driver.bus_id(device).c_str());
  }
  for (auto const& probe : blink::probe_links(driver, devices)) {
    std::printf("GPU %d to GPU %d: %s, %.1f GB/s\n", probe.from, probe.to,
                !probe.reaches  ? "no access"
                : probe.arrives ? "what is written arrives"
                                : "what is written does NOT arrive",
                probe.bytes_per_second / 1e9);
  }
  blink::basic_copy_world<blink::cuda_devices> world(driver,
                                                     {.devices = std::vector<int>(ranks, 0)});
  for (std::size_t const count : {std::size_t{1}, std::size_t{777}, std::size_t{1} << 20}) {
    auto const wrong = reduce_and_copy(world, count);
    if (wrong == 0) continue;
    std::printf("%zu elements: %zu are wrong\n", count, wrong);
    return 1;
  }
  std::printf("sums and copies by copy engines are right on %d ranks\n", ranks);
  return 0;
}

}  // namespace copies_test

int main() {
  try {
    return copies_test::run();
  } catch (std::exception const& failure) {
    std::printf("failed: %s\n", failure.what());
    return 2;
  }
}
