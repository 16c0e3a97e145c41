// SPDX-License-Identifier: Apache-2.0
#pragma once

// The common part of the programs of this folder: they skip without a GPU, report the reason of a
// failure, and share memory with the GPU.

#include <blink/transports/cuda.cuh>

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

namespace gpu_test {

inline void check(cudaError_t result, char const* what) {
  if (result != cudaSuccess) {
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(result));
  }
}

/// Memory that host and device reach.
template <class T>
class managed {
 public:
  explicit managed(std::size_t count) {
    check(cudaMallocManaged(&data_, (count + 1) * sizeof(T)), "cudaMallocManaged");
  }
  managed(managed const&) = delete;
  managed& operator=(managed const&) = delete;
  ~managed() { cudaFree(data_); }
  T& operator[](std::size_t k) const { return data_[k]; }
  T* data() const { return data_; }

 private:
  T* data_ = nullptr;
};

/// The exit status of a program: that of `run()`, or 77 ("skipped") without a GPU.
template <class Run>
int run_on_gpu(Run const& run) {
  if (blink::cuda_devices::of_process().device_count() == 0) {
    std::printf("skipped: no GPU (%s)\n", blink::cuda_devices::why_none().c_str());
    return 77;
  }
  try {
    return run();
  } catch (std::exception const& failure) {
    std::fprintf(stderr, "failed: %s\n", failure.what());
    return 1;
  }
}

}  // namespace gpu_test
