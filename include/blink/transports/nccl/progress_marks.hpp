// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/transports/cuda/runtime/device_allocation.hpp>
#include <blink/transports/cuda/runtime/device_memory.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Words by which the host sees the progress of streams, also within a replayed graph. A mark in a
/// stream copies the next number of a row to memory of the host.
template <polled_runtime Devices>
class progress_marks {
 public:
  /// Throws: resource_error if the budget does not suffice; device_error.
  progress_marks(Devices& driver, device_memory_budget& budget, std::vector<int> const& devices)
      : driver_(driver),
        devices_(devices),
        memory_(driver, devices.size() * sizeof(counter)),
        words_(reinterpret_cast<counter*>(memory_.get())) {
    std::vector<counter> numbers(distinct);
    for (std::size_t k = 0; k < distinct; ++k) numbers[k] = k + 1;
    std::size_t const bytes = distinct * sizeof(counter);
    for (int const device : devices) {
      device_memory_use const use{bytes, 0, 0};
      numbers_.emplace_back(driver, budget, device, use, "marks of progress");
      driver.write(device, numbers_.back().get(), numbers.data(), bytes);
    }
    next_.resize(devices.size());
    for (std::size_t k = 0; k < devices.size(); ++k) words_[k] = 0;
  }
  progress_marks(progress_marks const&) = delete;
  progress_marks& operator=(progress_marks const&) = delete;

  /// Puts a mark into a stream of the device at this position.
  void put(std::size_t position, typename Devices::stream on) {
    std::size_t const number = next_[position]++ % distinct;
    driver_.copy(devices_[position], words_ + position,
                 numbers_[position].get() + number * sizeof(counter), sizeof(counter), on);
  }
  /// The last marks; the result changes when a stream reaches a mark.
  [[nodiscard]] std::vector<counter> seen() const {
    std::vector<counter> result;
    for (std::size_t k = 0; k < devices_.size(); ++k) result.push_back(observe(words_[k]));
    return result;
  }
  /// Never releases the memory, because streams may still use it.
  void leak_memory() {
    for (auto& each : numbers_) each.keep_for_ever();
    memory_.keep_for_ever();
  }

 private:
  static constexpr std::size_t distinct = 256;

  Devices& driver_;
  std::vector<int> devices_;
  std::vector<device_allocation<Devices>> numbers_;  // by position of the device
  std::vector<std::size_t> next_;
  pinned_allocation<Devices> memory_;
  counter* words_;  // in this memory, by position of the device
};

}}  // namespace blink::BLINK_ABI
