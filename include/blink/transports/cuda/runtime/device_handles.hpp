// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>

#include <utility>

namespace blink { inline namespace BLINK_ABI {

/// An event of one device, destroyed with this object.
template <device_runtime Devices>
class device_event {
 public:
  /// Throws: device_error.
  device_event(Devices& driver, int device)
      : driver_(&driver), handle_(driver.make_event(device)) {}
  device_event(device_event&& other) noexcept
      : driver_(std::exchange(other.driver_, nullptr)), handle_(other.handle_) {}
  device_event& operator=(device_event&&) = delete;
  ~device_event() {
    if (driver_ != nullptr) driver_->destroy(handle_);
  }
  [[nodiscard]] typename Devices::event get() const { return handle_; }

 private:
  Devices* driver_;
  typename Devices::event handle_;
};

/// A stream of one device, destroyed with this object.
template <device_runtime Devices>
class device_stream {
 public:
  /// Throws: device_error.
  device_stream(Devices& driver, int device)
      : driver_(&driver), handle_(driver.make_stream(device)) {}
  device_stream(device_stream&& other) noexcept
      : driver_(std::exchange(other.driver_, nullptr)), handle_(other.handle_) {}
  device_stream& operator=(device_stream&&) = delete;
  ~device_stream() {
    if (driver_ != nullptr) driver_->destroy_stream(handle_);
  }
  [[nodiscard]] typename Devices::stream get() const { return handle_; }

 private:
  Devices* driver_;
  typename Devices::stream handle_;
};

}}  // namespace blink::BLINK_ABI
