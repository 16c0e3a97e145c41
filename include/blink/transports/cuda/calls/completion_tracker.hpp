// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>
#include <blink/transports/cuda/runtime/stream_ends.hpp>

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Tracks when the calls of a communicator have ended. Calls on a device follow each other
/// (`device_order`), so that the end of the last one implies the end of all.
template <polled_runtime Devices>
class completion_tracker {
 public:
  using stream = typename Devices::stream;

  /// Throws: device_error.
  completion_tracker(Devices& driver, std::vector<int> const& devices)
      : driver_(driver), devices_(devices), last_(driver, devices) {}

  /// Tracks the present content of the stream of the device at this position as calls.
  ///
  /// Throws: device_error.
  void add(std::size_t position, stream on) {
    if (driver_.capture(on).number != 0) {
      lose_track();
    } else {
      last_.set(position, on);
    }
  }
  /// Records that calls may run whose ends are unknown: calls of graphs, or a call that was refused
  /// halfway.
  void lose_track() { are_known_ = false; }
  /// True if all calls with known ends have ended.
  [[nodiscard]] bool are_over() const { return last_.are_reached(); }

  /// Waits for at most `limit` until the calls have ended. Returns the position of a device where a
  /// call has not ended. If the ends of some calls are unknown, it then waits for all work on the
  /// devices, without a limit.
  ///
  /// Throws: device_error.
  [[nodiscard]] std::optional<std::size_t> settle(std::chrono::nanoseconds limit) {
    if (!poll_until(std::chrono::steady_clock::now() + limit, [&] { return are_over(); })) {
      if (auto const open = last_.find_open()) return open;
    }
    for (std::size_t k = 0; !are_known_ && k < devices_.size(); ++k) {
      driver_.synchronize(devices_[k]);
    }
    return std::nullopt;
  }

 private:
  Devices& driver_;
  std::vector<int> devices_;
  stream_ends<Devices> last_;
  bool are_known_ = true;
};

}}  // namespace blink::BLINK_ABI
