// SPDX-License-Identifier: Apache-2.0
#pragma once

// NCCL with several ranks on one GPU, which versions from 2.30.3 on accept with a setting. It is
// loaded at run time if present; the few functions needed are declared here.

#include <blink/transports/cuda/calls/rank_buffers.hpp>

#include <cuda_runtime.h>
#include <dlfcn.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace gpu_suite {

class nccl_library {
 public:
  explicit nccl_library(void* library) {
    find(library, version_, "ncclGetVersion");
    find(library, init_, "ncclCommInitAll");
    find(library, destroy_, "ncclCommDestroy");
    find(library, group_begin_, "ncclGroupStart");
    find(library, group_end_, "ncclGroupEnd");
    find(library, all_reduce_, "ncclAllReduce");
    find(library, error_text_, "ncclGetErrorString");
  }
  [[nodiscard]] int version() const {
    int result = 0;
    (void)version_(&result);
    return result;
  }
  /// Makes all ranks on GPU 0. Returns false if NCCL refuses, with the reason in `why`.
  bool begin(int ranks, std::string& why) {
    ranks_.assign(static_cast<std::size_t>(ranks), nullptr);
    std::vector<int> const devices(ranks_.size(), 0);
    int const result = init_(ranks_.data(), ranks, devices.data());
    if (result == 0) return true;
    why = "NCCL does not put several ranks on one GPU: " + std::string(error_text_(result));
    ranks_.clear();
    return false;
  }
  void all_reduce(std::vector<blink::rank_buffers<float>> const& buffers,
                  std::vector<cudaStream_t> const& streams) {
    constexpr int as_float = 7, sum = 0;
    expect(group_begin_(), "ncclGroupStart");
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      expect(all_reduce_(buffers[rank].input, buffers[rank].output, buffers[rank].count, as_float,
                         sum, ranks_[rank], streams[rank]),
             "ncclAllReduce");
    }
    expect(group_end_(), "ncclGroupEnd");
  }
  void end() {
    for (void* const rank : ranks_) expect(destroy_(rank), "ncclCommDestroy");
    ranks_.clear();
  }

 private:
  template <class Function>
  static void find(void* library, Function& function, char const* name) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) throw std::runtime_error(std::string("NCCL without ") + name);
  }
  void expect(int result, char const* what) const {
    if (result != 0) throw std::runtime_error(std::string(what) + ": " + error_text_(result));
  }

  int (*version_)(int*) = nullptr;
  int (*init_)(void**, int, int const*) = nullptr;
  int (*destroy_)(void*) = nullptr;
  int (*group_begin_)() = nullptr;
  int (*group_end_)() = nullptr;
  int (*all_reduce_)(void const*, void*, std::size_t, int, int, void*, cudaStream_t) = nullptr;
  char const* (*error_text_)(int) = nullptr;
  std::vector<void*> ranks_;
};

/// The library; null without NCCL, with the reason in `why`.
inline std::unique_ptr<nccl_library> load_nccl(std::string& why) {
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    why = std::string("no NCCL: ") + dlerror();
    return nullptr;
  }
  return std::make_unique<nccl_library>(library);
}

}  // namespace gpu_suite
