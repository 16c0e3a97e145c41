// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/connections/connection.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/transports/cuda/kernels/call_watch.hpp>
#include <blink/transports/cuda/runtime/device_allocation.hpp>
#include <blink/transports/cuda/runtime/device_memory.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>
#include <blink/transports/cuda/runtime/rank_placement.hpp>
#include <blink/transports/cuda/runtime/reachable_memory.hpp>
#include <blink/transports/host/host_processes.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// An abort flag on each device of a communicator, and on each device a list of the flags that it
/// reaches. Kernels read their device's flag while they wait; a kernel that gives up sets the flags
/// of the list.
template <device_runtime Devices>
class abort_flags {
 public:
  /// Called by all processes together.
  ///
  /// others: null if all devices are of this process
  /// Throws: what `reachable_memory` throws.
  abort_flags(Devices& driver, rank_placement const& where, device_memory_budget& budget,
              host_processes* others)
      : driver_(driver), where_(where), others_(others) {
    std::vector<device_memory_use> const use(where.devices.size(),
                                             {sizeof(connection_counters), 0, 0});
    flags_ = {driver, where, budget, others, use, "the communicator"};
    agree(others, "construction: flags", [&] {
      for (std::size_t k = 0; k < where.devices.size(); ++k) {
        int const device = where.devices[k];
        driver.clear(device, flags_.own(k), sizeof(connection_counters));
        std::vector<counter*> list;
        for (std::size_t place = 0; place < where.places.size(); ++place) {
          if (reaches(k, place)) list.push_back(seen(k, place));
        }
        std::size_t const bytes = list.size() * sizeof(counter*);
        auto const& made = lists_.emplace_back(driver, budget, device,
                                               device_memory_use{bytes, 0, 0}, "the communicator");
        driver.write(device, made.get(), list.data(), bytes);
        counts_.push_back(static_cast<std::uint32_t>(list.size()));
      }
    });
  }

  /// The flag and the list of a device of this process, in the form that its kernels take.
  [[nodiscard]] call_watch watch(std::size_t position) const {
    call_watch result;
    result.abort = reinterpret_cast<counter*>(flags_.own(position));
    result.aborts = reinterpret_cast<counter* const*>(lists_[position].get());
    result.abort_count = counts_[position];
    return result;
  }
  /// Ends the kernels of all devices that this process reaches.
  void raise() {
    counter const one = 1;
    for (std::size_t place = 0; place < where_.places.size(); ++place) {
      auto const& there = where_.places[place];
      for (std::size_t k = 0; k < where_.devices.size(); ++k) {
        bool const is_own = &where_.here(k) == &there;
        bool const is_open = !where_.is_here(there) && seen(k, place) != nullptr &&
                             others_->loss_of(there.process).empty();
        if (!is_own && !is_open) continue;
        driver_.write(where_.devices[k], seen(k, place), &one, sizeof one);
        break;
      }
    }
  }
  /// Clears the flags of the devices of this process.
  ///
  /// Pre: no kernel runs on them.
  void clear() {
    for (std::size_t k = 0; k < where_.devices.size(); ++k) {
      driver_.clear(where_.devices[k], flags_.own(k), sizeof(counter));
    }
  }

  /// Never releases the memory, because kernels may still use it.
  void leak_memory() {
    flags_.leak_memory();
    for (auto& each : lists_) each.keep_for_ever();
  }

 private:
  [[nodiscard]] counter* seen(std::size_t position, std::size_t place) const {
    return reinterpret_cast<counter*>(flags_.seen(position, place));
  }
  // A device cannot end kernels of a device that it does not reach. Those end by their own
  // deadline, or by their host.
  [[nodiscard]] bool reaches(std::size_t position, std::size_t place) {
    auto const& there = where_.places[place];
    if (!where_.is_here(there)) return seen(position, place) != nullptr;
    int const device = where_.devices[position];
    try {
      return there.device == device || driver_.reach(device, there.device);
    } catch (device_error const&) {  // for example more peers than a device may have
      return false;
    }
  }

  Devices& driver_;
  rank_placement const& where_;
  host_processes* others_;
  reachable_memory<Devices> flags_;
  std::vector<device_allocation<Devices>> lists_;  // by device of this process
  std::vector<std::uint32_t> counts_;              // of each list
};

}}  // namespace blink::BLINK_ABI
