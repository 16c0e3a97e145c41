// SPDX-License-Identifier: Apache-2.0
#pragma once

// The platform of devices whose blocks are threads: four devices with room for two ranks each.

#include <blink/transports/cuda/calls/device_order.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>

#include "support/emulated_devices.hpp"
#include <abi.hpp>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

namespace blink_test {

/// Devices whose memory several host threads allocate.
class shared_devices : public emulated_devices {
 public:
  using emulated_devices::emulated_devices;

  blink::device_order<shared_devices>& order() { return order_; }
  void* allocate(int device, std::size_t bytes) {
    std::lock_guard const lock(memory_mutex_);
    return emulated_devices::allocate(device, bytes);
  }
  void release(int device, void* memory) {
    std::lock_guard const lock(memory_mutex_);
    emulated_devices::release(device, memory);
  }
  void* allocate_pinned(std::size_t bytes) {
    std::lock_guard const lock(memory_mutex_);
    return emulated_devices::allocate_pinned(bytes);
  }
  void release_pinned(void* memory) {
    std::lock_guard const lock(memory_mutex_);
    emulated_devices::release_pinned(memory);
  }
  memory_name export_memory(int device, void* memory) {
    std::lock_guard const lock(memory_mutex_);
    return emulated_devices::export_memory(device, memory);
  }
  void* import_memory(int device, memory_name const& name) {
    std::lock_guard const lock(memory_mutex_);
    return emulated_devices::import_memory(device, name);
  }
  void close_memory(int device, void* memory) {
    std::lock_guard const lock(memory_mutex_);
    emulated_devices::close_memory(device, memory);
  }
  blink::memory_place place_of(void const* data) {
    std::lock_guard const lock(memory_mutex_);
    return emulated_devices::place_of(data);
  }

 private:
  blink::device_order<shared_devices> order_;
  std::mutex memory_mutex_;
};

struct emulated_platform {
  using devices_type = shared_devices;
  static constexpr int streams_of_tests = 3;  ///< they have the numbers 1, 2, 3

  static devices_type& devices() { return *of_process(); }
  /// Called first in a process that a test has forked. It makes new devices, whose threads run in
  /// that process and whose memory other processes may map.
  static void begin_in_fork(emulated_devices::options what = {.devices = 4}) {
    what.shares_memory = true;
    of_process() = make(what);
  }
  /// The device of this thread; -1: behave as without a driver.
  static int& device_of_thread() {
    thread_local int device = 0;
    return device;
  }
  static int current_device() {
    if (device_of_thread() < 0) throw blink::device_error("no CUDA device: " + why_none());
    return device_of_thread();
  }
  static void use_device(int device) { device_of_thread() = device; }
  static int stream_of(blink_nccl::stream_handle given) {
    return static_cast<int>(reinterpret_cast<std::intptr_t>(given));
  }
  static std::string why_none() { return "this thread has none"; }
  static int ways(int ranks) { return ranks < 3 ? 2 : 1; }

 private:
  static devices_type* make(emulated_devices::options const& what) {
    auto* const made = new devices_type(what);
    for (int stream = 0; stream < streams_of_tests; ++stream) (void)made->make_stream();
    return made;
  }
  static devices_type*& of_process() {
    static auto* all = make({.devices = 4});
    return all;
  }
};

}  // namespace blink_test

/// Types whose reductions the tests compile completely: with and without their own arithmetic.
#define BLINK_NCCL_BUILT_TYPES(X) X(float32) X(int32) X(float8_e4m3)
