// SPDX-License-Identifier: Apache-2.0
#pragma once

// The platform of GPUs.

#include <blink/transports/cuda/ranks/cuda_devices.cuh>
#include <blink/transports/cuda/runtime/device_runtime.hpp>

#include "abi.hpp"
#include "errors.hpp"
#include "platform.hpp"
#include <cuda_runtime.h>

#include <string>

namespace blink_nccl {

struct cuda_platform {
  using devices_type = blink::cuda_devices;

  static devices_type& devices() { return devices_type::of_process(); }
  static int current_device() {
    if (devices().device_count() == 0) throw blink::device_error("no CUDA device: " + why_none());
    int device = 0;
    if (cudaError_t const code = cudaGetDevice(&device); code != cudaSuccess) {
      throw blink::device_error(std::string("cudaGetDevice: ") + cudaGetErrorString(code));
    }
    return device;
  }
  static void use_device(int device) {
    if (cudaError_t const code = cudaSetDevice(device); code != cudaSuccess) {
      throw blink::device_error(std::string("cudaSetDevice: ") + cudaGetErrorString(code));
    }
  }
  static cudaStream_t stream_of(stream_handle given) {
    auto const stream = static_cast<cudaStream_t>(given);
    if (stream == cudaStreamPerThread) {
      refuse_usage(
          "the stream is cudaStreamPerThread, but another thread may put this "
          "call into it: expected a created stream or the default one");
    }
    return stream;
  }
  static std::string why_none() { return devices_type::why_none(); }
  /// One block does not saturate a link.
  static int ways(int ranks) { return ranks < 16 ? 16 / ranks : 1; }
};
static_assert(platform<cuda_platform>);

using chosen_platform = cuda_platform;

}  // namespace blink_nccl
