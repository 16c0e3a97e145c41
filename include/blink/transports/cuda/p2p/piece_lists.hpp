// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/transports/cuda/p2p/list_batch.hpp>
#include <blink/transports/cuda/p2p/piece_call.hpp>
#include <blink/transports/cuda/runtime/device_allocation.hpp>
#include <blink/transports/cuda/runtime/device_memory.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Where kernels find the parts of pieces: in their argument, or, if they are too many, in memory of their
/// device, which a small kernel before them fills, so that graphs do it again.
///
/// Memory: of a device, twice the longest list that did not fit; that stays until the end, as graphs may
///         refer to it.
template <device_runtime Devices>
class piece_lists {
 public:
  piece_lists(Devices& driver, device_memory_budget& budget) : driver_(driver), budget_(budget) {}

  /// Throws: resource_error, device_error.
  void put(piece_call& call, int device, std::vector<piece_part> const& parts,
           typename Devices::stream on) {
    call.more_parts = nullptr;
    if (parts.size() <= piece_call::most_parts) {
      std::copy(parts.begin(), parts.end(), call.parts);
      return;
    }
    auto* const there = room_for(device, parts.size());
    put_list(driver_, device, there, parts, on);
    call.more_parts = there;
  }
  /// Somebody may still use the memory.
  void keep_memory_for_ever() {
    for (auto& [device, own] : rooms_) {
      for (auto& each : own.memory) each.keep_for_ever();
    }
  }

 private:
  struct room {
    std::size_t size = 0;
    std::vector<device_allocation<Devices>> memory;  // the last is the present one
  };

  [[nodiscard]] piece_part* room_for(int device, std::size_t parts) {
    auto& own = rooms_[device];
    if (parts > own.size) {
      device_memory_use const use{2 * parts * sizeof(piece_part), 0, 0};
      own.memory.emplace_back(driver_, budget_, device, use, "a list of sends and receives");
      own.size = 2 * parts;
    }
    return reinterpret_cast<piece_part*>(own.memory.back().get());
  }

  Devices& driver_;
  device_memory_budget& budget_;
  std::map<int, room> rooms_;  // by device
};

}}  // namespace blink::BLINK_ABI
