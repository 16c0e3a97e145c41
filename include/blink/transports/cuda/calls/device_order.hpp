// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/transports/cuda/calls/call_order_check.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The order of the calls of all communicators of a process. It prevents deadlock between calls,
/// whose kernels wait for each other. Two calls would never end if they began in different orders
/// on two devices. The same holds if each had room for only some of its blocks beside the other.
///
/// The rule: calls that share a device run one after the other, in the order in which the host made
/// them, whatever their streams. A call is made on all its devices before the next one is made on
/// any. Streams wait for each other by events; the host does not wait.
///
/// Within one captured graph the same rule holds. The caller orders launches of graphs and calls
/// outside of them, by one stream or by events.
///
/// Other processes are expected to keep the same order; see `call_order_check`.
template <class Devices>
class device_order {
 public:
  using stream = typename Devices::stream;
  using event = typename Devices::event;

  /// The right to make a call on some devices. Meanwhile no other call on one of these devices is
  /// made, but calls on other devices are. That matters because a full stream may block this thread
  /// until other threads of the host have made their calls.
  class turn {
   public:
    /// Waits for the turns on any of these devices to end.
    turn(device_order& order, Devices& driver, std::vector<int> const& devices)
        : order_(&order), driver_(&driver), devices_(devices) {
      std::unique_lock lock(order.mutex_);
      order.changed_.wait(lock, [&] {  // takes all at once, so that no thread holds some and waits
                                       // for others
        return std::none_of(devices_.begin(), devices_.end(),
                            [&](int device) { return order.taken_.contains(device); });
      });
      order.taken_.insert(devices_.begin(), devices_.end());
    }
    turn(turn const&) = delete;
    turn& operator=(turn const&) = delete;
    ~turn() {
      {
        std::lock_guard const lock(order_->mutex_);
        for (int const device : devices_) order_->taken_.erase(device);
      }
      order_->changed_.notify_all();
    }

    /// Makes later work in the stream run after the last call on this device.
    void begin(int device, stream on) {
      auto& last = order_->at(*driver_, device);
      auto const capture = driver_->capture(on);
      if (capture.number == 0) {
        if (last.has_call) driver_->wait(device, on, last.outside);
      } else if (capture == last.capture) {
        driver_->wait(device, on, last.inside);
      }
    }
    /// Records that all work of the call on this device is in the stream.
    void end(int device, stream on) {
      auto& last = order_->at(*driver_, device);
      auto const capture = driver_->capture(on);
      if (capture.number == 0) {
        last.has_call = true;
        driver_->record(device, last.outside, on);
      } else {
        last.capture = capture;
        driver_->record(device, last.inside, on);
      }
    }

   private:
    device_order* order_;
    Devices* driver_;
    std::vector<int> devices_;
  };

  /// The counts of calls of communicators that span several processes.
  [[nodiscard]] call_counts& counts() { return counts_; }

 private:
  struct last_call {
    event outside{};        // of streams that are not captured
    event inside{};         // of the graph that is being captured
    capture_state capture;  // identifies that graph
    bool has_call = false;
  };

  last_call& at(Devices& driver, int device) {
    std::lock_guard const lock(mutex_);
    auto const found = calls_.find(device);
    if (found != calls_.end()) return found->second;
    last_call made;
    made.outside = driver.make_event(device);
    made.inside = driver.make_event(device);
    return calls_.emplace(device, made).first->second;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<int> taken_;  // devices of calls that are being made
  call_counts counts_;
  std::map<int, last_call> calls_;  // events live as long as the process
};

}}  // namespace blink::BLINK_ABI
