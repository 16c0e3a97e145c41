// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>

namespace blink { inline namespace BLINK_ABI {

/// The memory of one device that a communicator holds, in bytes.
struct device_memory_use {
  std::size_t tables = 0;       ///< tasks, connections, states
  std::size_t connections = 0;  ///< counters and slots
  std::size_t scratch = 0;      ///< copies of inputs that are overwritten while they are sent

  [[nodiscard]] std::size_t total() const { return tables + connections + scratch; }
};

/// Returns text of the form "30 bytes (tables 10 bytes, counters and slots 10 bytes, scratch 10
/// bytes)".
[[nodiscard]] inline std::string to_text(device_memory_use const& use) {
  auto const in = [](std::size_t bytes) { return std::to_string(bytes) + " bytes"; };
  return in(use.total()) + " (tables " + in(use.tables) + ", counters and slots " +
         in(use.connections) + ", scratch " + in(use.scratch) + ")";
}

/// A function that is called before the driver allocates; `what` describes the allocation. It may
/// throw to refuse the allocation.
using memory_listener = std::function<void(std::string const& what)>;

/// Counts the allocations of a communicator on each device, and refuses those above a cap before
/// the driver is called.
class device_memory_budget {
 public:
  /// cap:      bytes on each device
  /// listener: called before each allocation; may be empty
  explicit device_memory_budget(std::size_t cap, memory_listener listener = {})
      : cap_(cap), listener_(std::move(listener)) {}

  /// Adds `more` to the bytes held on `device`; a call that throws adds nothing.
  ///
  /// Throws: resource_error with the bytes requested, held and allowed, if the cap does not
  ///         suffice; what the listener throws.
  void consume(int device, device_memory_use const& more, std::string const& what) {
    auto& held = held_[device];
    auto const of_cap = [&](std::size_t bytes) {
      return std::to_string(bytes) + " of at most " + std::to_string(cap_);
    };
    auto const wanted = to_text(more) + " on device " + std::to_string(device);
    if (more.total() > cap_ || held.total() > cap_ - more.total()) {
      throw resource_error(what + " needs " + wanted + "; the communicator holds " +
                           of_cap(held.total()) + " there (device_options::memory_cap)");
    }
    if (listener_ && more.total() > 0) {
      listener_(what + " takes " + wanted + "; with that the communicator holds " +
                of_cap(held.total() + more.total()) + " there");
    }
    held.tables += more.tables;
    held.connections += more.connections;
    held.scratch += more.scratch;
  }

  /// Subtracts `less` from the bytes held on `device`.
  ///
  /// Pre: `consume` has added them.
  void give_back(int device, device_memory_use const& less) noexcept {
    auto const held = held_.find(device);
    held->second.tables -= less.tables;
    held->second.connections -= less.connections;
    held->second.scratch -= less.scratch;
  }

  /// The memory held, by device.
  [[nodiscard]] std::map<int, device_memory_use> const& held() const { return held_; }
  /// The largest number of bytes on each device.
  [[nodiscard]] std::size_t cap() const { return cap_; }

 private:
  std::size_t cap_;
  memory_listener listener_;
  std::map<int, device_memory_use> held_;
};

/// Returns the bytes held and the cap, one line for each device.
[[nodiscard]] inline std::string to_text(device_memory_budget const& budget) {
  std::string result;
  for (auto const& [device, use] : budget.held()) {
    result += "device " + std::to_string(device) + ": " + to_text(use) + " of at most " +
              std::to_string(budget.cap()) + "\n";
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
