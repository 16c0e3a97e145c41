// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/detail/undefine_macros.hpp>  // first

#include <blink/core/config.hpp>
#include <blink/transports/cuda/calls/device_collectives.hpp>
#include <blink/transports/cuda/p2p/device_exchange.hpp>
#include <blink/transports/cuda/ranks/cuda_devices.cuh>
#include <blink/transports/cuda/ranks/device_blocks.hpp>
#include <blink/transports/nccl/nccl_calls.hpp>
#include <blink/transports/nccl/nccl_options.hpp>
#include <blink/transports/nccl/nccl_ranks.hpp>

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstddef>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// NCCL 2.7 or newer: the library that the program is linked with or has loaded.
class nccl_library {
 public:
  using communicator = ncclComm_t;
  using stream = cudaStream_t;

  static int group_start() { return ncclGroupStart(); }
  static int group_end() { return ncclGroupEnd(); }
  static int send(void const* from, std::size_t bytes, int peer, ncclComm_t of, cudaStream_t on) {
    return ncclSend(from, bytes, ncclInt8, peer, of, on);
  }
  static int receive(void* to, std::size_t bytes, int peer, ncclComm_t of, cudaStream_t on) {
    return ncclRecv(to, bytes, ncclInt8, peer, of, on);
  }
  static int rank(ncclComm_t of, int& answer) { return ncclCommUserRank(of, &answer); }
  static int rank_count(ncclComm_t of, int& answer) { return ncclCommCount(of, &answer); }
  static int device(ncclComm_t of, int& answer) { return ncclCommCuDevice(of, &answer); }
  static int asynchronous_error(ncclComm_t of, int& answer) {
    ncclResult_t error = ncclSuccess;
    ncclResult_t const result = ncclCommGetAsyncError(of, &error);
    answer = error;
    return result;
  }
  static int abort(ncclComm_t of) { return ncclCommAbort(of); }
  static std::string text_of(int code) {
    return ncclGetErrorString(static_cast<ncclResult_t>(code));
  }
  static std::string last_error([[maybe_unused]] ncclComm_t of) {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 13, 0)
    char const* const text = ncclGetLastError(of);
    return text == nullptr ? "" : text;
#else
    return "";
#endif
  }
};
static_assert(nccl_calls<nccl_library>);
static_assert(int{ncclSuccess} == nccl_success);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 14, 0)
static_assert(int{ncclInProgress} == nccl_in_progress);
#endif

/// Ranks that are GPUs of any machines that NCCL reaches. The caller makes the communicators of
/// NCCL, one for each rank of this process.
///
///     blink::nccl_ranks ranks({communicator});  // of ncclCommInitRank
///     blink::all_reduce(ranks, plan, {{input, output, count}}, blink::sum{}, {stream});
///     ranks.wait({stream});
///
/// Destroy this object before the communicators of NCCL. After a failure these are aborted and must
/// not be destroyed.
class nccl_ranks : public basic_nccl_ranks<cuda_devices, nccl_library> {
 public:
  /// Throws: see `basic_nccl_ranks`.
  explicit nccl_ranks(std::vector<ncclComm_t> const& communicators,
                      nccl_options const& options = {})
      : basic_nccl_ranks(cuda_devices::of_process(), of_process(), communicators, options) {}

 private:
  static nccl_library& of_process() {
    static nccl_library all;
    return all;
  }
};

}}  // namespace blink::BLINK_ABI

#include <blink/core/detail/restore_macros.hpp>  // last
