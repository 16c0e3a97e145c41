// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/transports/cuda/runtime/device_handles.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Pauses between polls. At first there are none, because most waits are short. Later each pause is
/// a sixteenth of the time waited so far, so that long waits use little of a core.
class polling_pause {
 public:
  void operator()() const {
    using std::chrono::microseconds;
    auto const waited = std::chrono::steady_clock::now() - begin_;
    if (waited < microseconds(50)) return std::this_thread::yield();
    std::this_thread::sleep_for(
        std::clamp<std::chrono::nanoseconds>(waited / 16, microseconds(10), microseconds(200)));
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Polls until `is_over()`. Returns false if `end` comes first.
template <class IsOver>
[[nodiscard]] bool poll_until(std::chrono::steady_clock::time_point end, IsOver const& is_over) {
  for (polling_pause const pause; !is_over(); pause()) {
    if (std::chrono::steady_clock::now() > end) return false;
  }
  return true;
}

/// Points in streams, one stream for each of some devices, so that waits for them can have a limit.
template <polled_runtime Devices>
class stream_ends {
 public:
  using stream = typename Devices::stream;

  /// Throws: device_error.
  stream_ends(Devices& driver, std::vector<int> const& devices)
      : driver_(driver), devices_(devices) {
    for (int const device : devices_) ends_.emplace_back(driver, device);
  }

  /// Sets the points to the present ends of the streams, by position of the device; forgets earlier
  /// points.
  ///
  /// Throws: precondition_error if a stream is captured, because a captured event never happens
  ///         before a replay; device_error.
  void set(std::vector<stream> const& on) {
    for (std::size_t k = 0; k < on.size(); ++k) {
      if (driver_.capture(on[k]).number == 0) continue;
      throw precondition_error("wait: the stream of device " + std::to_string(devices_[k]) +
                               " is being captured");
    }
    for (std::size_t k = 0; k < on.size(); ++k) set(k, on[k]);
  }
  /// Sets the point of one stream.
  ///
  /// Pre: the stream is not captured.
  void set(std::size_t position, stream on) {
    driver_.record(devices_[position], ends_[position].get(), on);
  }

  /// Returns the position of a device whose stream has not reached its point; nullopt if there is
  /// none.
  ///
  /// Throws: device_error.
  [[nodiscard]] std::optional<std::size_t> find_open() const {
    for (std::size_t k = 0; k < ends_.size(); ++k) {
      if (!driver_.is_reached(devices_[k], ends_[k].get())) return k;
    }
    return std::nullopt;
  }
  /// True if all streams have reached their points.
  [[nodiscard]] bool are_reached() const { return !find_open(); }

 private:
  Devices& driver_;
  std::vector<int> devices_;
  std::vector<device_event<Devices>> ends_;  // by position of the device
};

}}  // namespace blink::BLINK_ABI
