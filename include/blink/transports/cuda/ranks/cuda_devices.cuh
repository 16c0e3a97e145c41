// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/walk/packet_walk.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/transports/cuda/calls/device_order.hpp>
#include <blink/transports/cuda/kernels/call_kernel.cuh>
#include <blink/transports/cuda/kernels/copy_step.hpp>
#include <blink/transports/cuda/kernels/device_call.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>

#include <cuda_runtime.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// Makes a device the current one of this thread until the end of the scope.
class current_device {
 public:
  explicit current_device(int device) {
    if (cudaGetDevice(&before_) != cudaSuccess) before_ = -1;
    if (before_ == device)
      before_ = -1;
    else
      check(cudaSetDevice(device), "cudaSetDevice");
  }
  current_device(current_device const&) = delete;
  current_device& operator=(current_device const&) = delete;
  ~current_device() {
    if (before_ >= 0) cudaSetDevice(before_);
  }

  /// Throws: device_error with the driver's text unless `result` is success.
  static void check(cudaError_t result, char const* what) {
    if (result == cudaSuccess) return;
    (void)cudaGetLastError();  // reported below; the caller's next check must not find it
    throw device_error(std::string(what) + ": " + cudaGetErrorString(result) + " (" +
                       cudaGetErrorName(result) + ")");
  }

 private:
  int before_ = -1;
};

}  // namespace detail

/// CUDA's runtime as a `device_runtime`; one object for the process.
class cuda_devices {
 public:
  using stream = cudaStream_t;
  using event = cudaEvent_t;

  cuda_devices() = default;
  cuda_devices(cuda_devices const&) = delete;
  cuda_devices& operator=(cuda_devices const&) = delete;

  /// The object of this process. It is never destroyed, because the driver may be gone when statics
  /// are destroyed.
  static cuda_devices& of_process() {
    static auto* const all = new cuda_devices;
    return *all;
  }

  device_order<cuda_devices>& order() { return order_; }

  /// The number of devices; also 0 if there is no driver (see `why_none`).
  int device_count() {
    int count = 0;
    cudaError_t const result = cudaGetDeviceCount(&count);
    (void)cudaGetLastError();
    return result == cudaSuccess ? count : 0;
  }
  /// The driver's reason why there is no device.
  [[nodiscard]] static std::string why_none() {
    int count = 0;
    cudaError_t const result = cudaGetDeviceCount(&count);
    (void)cudaGetLastError();
    return result == cudaSuccess ? "the driver knows no device" : cudaGetErrorString(result);
  }
  device_properties properties(int device) {
    cudaDeviceProp all{};
    check(cudaGetDeviceProperties(&all, device), "cudaGetDeviceProperties");
    return {all.name, all.multiProcessorCount, all.cooperativeLaunch != 0};
  }
  /// The device's bus id, such as "0000:07:00.0", as `driver_options::bus_ids` takes it. CUDA and
  /// the driver number devices differently if CUDA_VISIBLE_DEVICES is set.
  [[nodiscard]] std::string bus_id(int device) {
    char text[32] = {};
    check(cudaDeviceGetPCIBusId(text, sizeof text, device), "cudaDeviceGetPCIBusId");
    return text;
  }
  bool launches_block() {
    char const* const text = std::getenv("CUDA_LAUNCH_BLOCKING");
    return text != nullptr && std::string(text) != "0" && *text != '\0';
  }
  bool reach(int device, int peer) {
    if (device == peer) return true;
    std::lock_guard const lock(mutex_);
    auto const known = reaches_.find({device, peer});
    if (known != reaches_.end()) return known->second;
    int can = 0;
    check(cudaDeviceCanAccessPeer(&can, device, peer), "cudaDeviceCanAccessPeer");
    if (can != 0) {
      detail::current_device const here(device);
      cudaError_t const result = cudaDeviceEnablePeerAccess(peer, 0);
      if (result == cudaErrorPeerAccessAlreadyEnabled) {
        (void)cudaGetLastError();
      } else {
        check(result, "cudaDeviceEnablePeerAccess");
      }
    }
    return reaches_[{device, peer}] = can != 0;
  }

  void* allocate(int device, std::size_t bytes) {
    detail::current_device const here(device);
    relaxed_capture const allowed;
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes), "cudaMalloc");
    return memory;
  }
  void release(int device, void* memory) {
    detail::current_device const here(device);
    relaxed_capture const allowed;
    (void)cudaFree(memory);
  }
  void* allocate_pinned(std::size_t bytes) {
    relaxed_capture const allowed;
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped),
          "cudaHostAlloc");
    return memory;
  }
  void release_pinned(void* memory) {
    relaxed_capture const allowed;
    (void)cudaFreeHost(memory);
  }

  /// CUDA IPC, between processes of one host: in one container, or in containers that share IPC and
  /// process namespaces. It covers memory of `cudaMalloc`, but no virtual memory management and no
  /// stream's pool.
  using memory_name = cudaIpcMemHandle_t;
  /// Smaller allocations may be in one piece of memory, which is shared as a whole.
  static std::size_t sharing_granularity() { return std::size_t{2} << 20; }
  memory_name export_memory(int device, void* memory) {
    detail::current_device const here(device);
    relaxed_capture const allowed;
    memory_name name{};
    check(cudaIpcGetMemHandle(&name, memory), "cudaIpcGetMemHandle");
    return name;
  }
  void* import_memory(int device, memory_name const& name) {
    detail::current_device const here(device);
    relaxed_capture const allowed;
    void* memory = nullptr;
    check(cudaIpcOpenMemHandle(&memory, name, cudaIpcMemLazyEnablePeerAccess),
          "cudaIpcOpenMemHandle");
    return memory;
  }
  void close_memory(int device, void* memory) {
    detail::current_device const here(device);
    relaxed_capture const allowed;
    (void)cudaIpcCloseMemHandle(memory);
  }

  memory_place place_of(void const* data) {
    cudaPointerAttributes found{};
    check(cudaPointerGetAttributes(&found, data), "cudaPointerGetAttributes");
    switch (found.type) {
      case cudaMemoryTypeDevice:
        return {memory_kind::device, found.device};
      case cudaMemoryTypeManaged:
        return {memory_kind::managed, found.device};
      case cudaMemoryTypeHost:
        return {memory_kind::pinned_host, -1};
      default:
        return {};
    }
  }

  void write(int device, void* to, void const* from, std::size_t bytes) {
    aside(device, [&](cudaStream_t own) {
      check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, own), "cudaMemcpyAsync");
    });
  }
  void read(int device, void* to, void const* from, std::size_t bytes) {
    aside(device, [&](cudaStream_t own) {
      check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, own), "cudaMemcpyAsync");
    });
  }
  void clear(int device, void* memory, std::size_t bytes) {
    aside(device, [&](cudaStream_t own) {
      check(cudaMemsetAsync(memory, 0, bytes, own), "cudaMemsetAsync");
    });
  }
  void copy(int device, void* to, void const* from, std::size_t bytes, stream on) {
    detail::current_device const here(device);
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, on), "cudaMemcpyAsync");
  }

  stream make_stream(int device) {
    detail::current_device const here(device);
    relaxed_capture const allowed;
    stream result = nullptr;
    check(cudaStreamCreateWithFlags(&result, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return result;
  }
  void destroy_stream(stream which) { (void)cudaStreamDestroy(which); }
  void copy_between(int to_device, void* to, int from_device, void const* from, std::size_t bytes,
                    stream on) {
    detail::current_device const here(from_device);
    if (to_device == from_device) {
      check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, on), "cudaMemcpyAsync");
    } else {
      check(cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, on),
            "cudaMemcpyPeerAsync");
    }
  }
  template <class T, reducer_for<T> Reducer>
  void combine(int device, copy_step const& step, Reducer const& reduce, stream on) {
    detail::current_device const here(device);
    constexpr std::size_t bytes_of_block = 1 << 15, most_blocks = 64;
    std::size_t const bytes =
        static_cast<std::size_t>(chunk_count(step.here, step.here.done)) * sizeof(T);
    std::size_t const blocks = bytes / bytes_of_block + 1;
    step_kernel<T>
        <<<static_cast<unsigned>(blocks < most_blocks ? blocks : most_blocks), 256, 0, on>>>(
            step, reduce);
    check(cudaGetLastError(), "launch of step_kernel");
  }

  event make_event(int device) {
    detail::current_device const here(device);
    event result = nullptr;
    check(cudaEventCreateWithFlags(&result, cudaEventDisableTiming), "cudaEventCreate");
    return result;
  }
  void destroy(event which) { (void)cudaEventDestroy(which); }
  void record(int device, event which, stream on) {
    detail::current_device const here(device);
    check(cudaEventRecord(which, on), "cudaEventRecord");
  }
  void wait(int device, stream on, event which) {
    detail::current_device const here(device);
    check(cudaStreamWaitEvent(on, which, 0), "cudaStreamWaitEvent");
  }
  bool is_reached(int device, event which) {
    detail::current_device const here(device);
    relaxed_capture const allowed;
    cudaError_t const result = cudaEventQuery(which);
    if (result == cudaErrorNotReady) {
      (void)cudaGetLastError();
      return false;
    }
    check(result, "cudaEventQuery");
    return true;
  }
  capture_state capture(stream on) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long number = 0;
    check(cudaStreamGetCaptureInfo(on, &status, &number), "cudaStreamGetCaptureInfo");
    return {status == cudaStreamCaptureStatusActive ? number : 0};
  }
  void synchronize(int device, stream on) {
    detail::current_device const here(device);
    check(cudaStreamSynchronize(on), "cudaStreamSynchronize");
  }
  void synchronize(int device) {
    detail::current_device const here(device);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  /// Waits long enough for blocks to see the flag: they read it after their present chunk.
  void let_end(int) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

  template <transport Transport, connection_protocol Protocol, class T, reducer_for<T> Reducer>
  std::uint32_t blocks_at_once(int device, std::uint32_t threads) {
    return capacity_of(call_kernel_address<Transport, T, Reducer, Protocol>(), device, threads);
  }
  template <transport Transport, connection_protocol Protocol, class T, reducer_for<T> Reducer>
  void launch(int device, std::uint32_t blocks, std::uint32_t threads, device_call const& call,
              Reducer const& reduce, stream on) {
    void* arguments[] = {const_cast<device_call*>(&call), const_cast<Reducer*>(&reduce)};
    launch_kernel(call_kernel_address<Transport, T, Reducer, Protocol>(), device, blocks, threads,
                  arguments, on);
  }
  template <class Work>
  std::uint32_t work_blocks_at_once(int device, std::uint32_t threads) {
    return capacity_of(reinterpret_cast<void const*>(&work_kernel<Work>), device, threads);
  }
  template <class Work>
  void launch_work(int device, std::uint32_t blocks, std::uint32_t threads, Work const& work,
                   stream on) {
    void* arguments[] = {const_cast<Work*>(&work)};
    launch_kernel(reinterpret_cast<void const*>(&work_kernel<Work>), device, blocks, threads,
                  arguments, on);
  }

 private:
  static void check(cudaError_t result, char const* what) {
    detail::current_device::check(result, what);
  }

  // The query also loads the kernel, which must not happen between launches of peers.
  std::uint32_t capacity_of(void const* kernel, int device, std::uint32_t threads) {
    std::lock_guard const lock(mutex_);
    std::pair const key(kernel, std::pair(device, threads));
    auto known = capacities_.find(key);
    if (known == capacities_.end()) {
      detail::current_device const here(device);
      relaxed_capture const allowed;
      int blocks = 0, multiprocessors = 0;
      check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel,
                                                          static_cast<int>(threads), 0),
            "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
      check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
            "cudaDeviceGetAttribute");
      known = capacities_.emplace(key, static_cast<std::uint32_t>(blocks * multiprocessors)).first;
    }
    return known->second;
  }
  static void launch_kernel(void const* kernel, int device, std::uint32_t blocks,
                            std::uint32_t threads, void** arguments, stream on) {
    detail::current_device const here(device);
    check(cudaLaunchCooperativeKernel(kernel, dim3(blocks), dim3(threads), arguments, 0, on),
          "cudaLaunchCooperativeKernel");
  }

  // While a stream of this thread is captured in the strict mode, CUDA also refuses calls that do
  // not touch the stream. The thread must relax its mode first.
  class relaxed_capture {
   public:
    relaxed_capture() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
    relaxed_capture(relaxed_capture const&) = delete;
    relaxed_capture& operator=(relaxed_capture const&) = delete;
    ~relaxed_capture() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }

   private:
    cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
  };

  // Runs the work in a stream that waits for no other one.
  template <class Work>
  void aside(int device, Work const& work) {
    detail::current_device const here(device);
    relaxed_capture const allowed;
    cudaStream_t own = nullptr;
    {
      std::lock_guard const lock(mutex_);
      auto known = streams_.find(device);
      if (known == streams_.end()) known = streams_.emplace(device, make_stream(device)).first;
      own = known->second;
    }
    work(own);
    check(cudaStreamSynchronize(own), "cudaStreamSynchronize");
  }

  device_order<cuda_devices> order_;
  std::mutex mutex_;
  std::map<std::pair<int, int>, bool> reaches_;
  std::map<std::pair<void const*, std::pair<int, std::uint32_t>>, std::uint32_t> capacities_;
  std::map<int, cudaStream_t> streams_;
};
static_assert(sharing_runtime<cuda_devices> && polled_runtime<cuda_devices>);

}}  // namespace blink::BLINK_ABI
