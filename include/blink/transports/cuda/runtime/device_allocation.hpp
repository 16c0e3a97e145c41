// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/transports/cuda/runtime/device_memory.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>

#include <cstddef>
#include <string>
#include <utility>

namespace blink { inline namespace BLINK_ABI {

/// Memory of one device. The destructor releases it and returns it to its budget.
template <device_runtime Devices>
class device_allocation {
 public:
  device_allocation() = default;
  /// Throws: device_error.
  device_allocation(Devices& driver, int device, std::size_t bytes)
      : driver_(&driver), device_(device), memory_(driver.allocate(device, bytes)) {}
  /// what:   the allocation's name, for the error
  /// Throws: resource_error if the budget does not suffice, before the driver is called;
  ///         device_error.
  device_allocation(Devices& driver, device_memory_budget& budget, int device,
                    device_memory_use const& use, std::string const& what)
      : driver_(&driver), device_(device), use_(use) {
    budget.consume(device, use, what);
    try {
      memory_ = driver.allocate(device, use.total());
    } catch (...) {
      budget.give_back(device, use);
      throw;
    }
    budget_ = &budget;
  }
  device_allocation(device_allocation&& other) noexcept { *this = std::move(other); }
  device_allocation& operator=(device_allocation&& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(budget_, other.budget_);
    std::swap(device_, other.device_);
    std::swap(use_, other.use_);
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~device_allocation() {
    if (memory_ != nullptr) driver_->release(device_, memory_);
    if (budget_ != nullptr) budget_->give_back(device_, use_);
  }
  /// Never releases the memory, because kernels may still use it.
  void keep_for_ever() {
    memory_ = nullptr;
    budget_ = nullptr;
  }
  [[nodiscard]] std::byte* get() const { return static_cast<std::byte*>(memory_); }

 private:
  Devices* driver_ = nullptr;
  device_memory_budget* budget_ = nullptr;
  int device_ = 0;
  device_memory_use use_;
  void* memory_ = nullptr;
};

/// Pinned memory of the host, which devices reach. The destructor releases it.
template <device_runtime Devices>
class pinned_allocation {
 public:
  /// Throws: device_error.
  pinned_allocation(Devices& driver, std::size_t bytes)
      : driver_(&driver), memory_(driver.allocate_pinned(bytes)) {}
  pinned_allocation(pinned_allocation&& other) noexcept
      : driver_(other.driver_), memory_(std::exchange(other.memory_, nullptr)) {}
  pinned_allocation& operator=(pinned_allocation&&) = delete;
  ~pinned_allocation() {
    if (memory_ != nullptr) driver_->release_pinned(memory_);
  }
  /// Never releases the memory, because kernels or streams may still use it.
  void keep_for_ever() { memory_ = nullptr; }
  [[nodiscard]] std::byte* get() const { return static_cast<std::byte*>(memory_); }

 private:
  Devices* driver_;
  void* memory_;
};

}}  // namespace blink::BLINK_ABI
