// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>
#include <blink/transports/cuda/device_runtime.hpp>

#include <cstddef>
#include <utility>

namespace blink::inline BLINK_ABI {

/// Memory of one device, released in the end.
template <device_runtime Devices>
class device_allocation {
 public:
  device_allocation() = default;
  device_allocation(Devices& driver, int device, std::size_t bytes)
      : driver_(&driver), device_(device), memory_(driver.allocate(device, bytes)) {}
  device_allocation(device_allocation&& other) noexcept
      : driver_(other.driver_),
        device_(other.device_),
        memory_(std::exchange(other.memory_, nullptr)) {}
  device_allocation& operator=(device_allocation&& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(device_, other.device_);
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~device_allocation() {
    if (memory_ != nullptr) driver_->release(device_, memory_);
  }
  [[nodiscard]] std::byte* get() const { return static_cast<std::byte*>(memory_); }

 private:
  Devices* driver_ = nullptr;
  int device_ = 0;
  void* memory_ = nullptr;
};

}  // namespace blink::inline BLINK_ABI
