// SPDX-License-Identifier: Apache-2.0
// Measures the GPUs that are visible and prints what `blink probe --gpus` reads.
//     nvcc -std=c++20 -O2 -arch=sm_90 -Iinclude -Itools tools/cuda/probe_gpus.cu
// Arguments: bytes of a large message, seconds for all. Exit status 2 without a GPU.

#include <blink/core/error.hpp>
#include <blink/transports/cuda/ranks/cuda_devices.cuh>

#include "cuda/measure_gpus.hpp"

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "probe_gpus: found %d arguments, expected bytes and seconds\n", argc - 1);
    return 2;
  }
  blink::device_probe_options options;
  options.bytes = static_cast<std::size_t>(std::strtoull(argv[1], nullptr, 10));
  options.seconds = std::strtod(argv[2], nullptr);
  try {
    auto& driver = blink::cuda_devices::of_process();
    if (driver.device_count() == 0) {
      std::fprintf(stderr, "probe_gpus: no GPU is visible: %s\n",
                   blink::cuda_devices::why_none().c_str());
      return 2;
    }
    auto const bus_id = [&](int device) { return driver.bus_id(device); };
    std::fputs(blink::tools::measure_gpus(driver, options, bus_id).c_str(), stdout);
  } catch (blink::error const& failure) {
    std::fprintf(stderr, "probe_gpus: %s\n", failure.what());
    return 2;
  }
  return 0;
}
