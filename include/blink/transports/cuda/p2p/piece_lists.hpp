// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/walk/thread_group.hpp>
#include <blink/transports/cuda/p2p/piece_call.hpp>
#include <blink/transports/cuda/runtime/device_allocation.hpp>
#include <blink/transports/cuda/runtime/device_memory.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <type_traits>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The parts of pieces for kernels: in the kernel's argument, or in memory of the device if they
/// are too many. A small kernel before it fills that memory, so that a replayed graph fills it
/// again.
///
/// Memory: of a device, twice the longest list that did not fit. It stays until the end, because
///         graphs may refer to it.
template <device_runtime Devices>
class piece_lists {
 public:
  piece_lists(Devices& driver, device_memory_budget& budget) : driver_(driver), budget_(budget) {}

  /// Sets the parts of a call, or puts a kernel that writes them into the stream.
  ///
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
  /// Never releases the memory, because kernels may still use it.
  void leak_memory() {
    for (auto& [device, own] : rooms_) {
      for (auto& each : own.memory) each.keep_for_ever();
    }
  }

 private:
  struct room {
    std::size_t size = 0;
    std::vector<device_allocation<Devices>> memory;  // the last one is in use
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

/// A part of a list that is too long for the argument of a kernel. It is the argument of a separate
/// kernel that writes it to memory of a device: a stream or a graph repeats the write.
template <class E>
struct list_batch {
  static constexpr std::uint32_t most = (4096 - 16) / sizeof(E);  // as many as arguments hold

  E elements[most] = {};
  E* to = nullptr;  ///< the destination of the first one
  std::uint32_t count = 0;

  template <thread_group Group>
  BLINK_HOST_DEVICE void operator()(Group const group, std::uint32_t) const {
    for (std::uint32_t k = group.thread_rank(); k < count; k += group.size()) to[k] = elements[k];
  }
};

/// Puts writes of a list into the stream, to `to` in memory of the device.
///
/// Pre:    there is room for the list at `to`.
/// Throws: device_error.
template <class Devices, class E>
void put_list(Devices& driver, int device, E* to, std::vector<E> const& list,
              typename Devices::stream on) {
  static_assert(std::is_trivially_copyable_v<E> && sizeof(list_batch<E>) <= 4096);
  list_batch<E> batch;
  for (std::size_t first = 0; first < list.size(); first += batch.count) {
    batch.to = to + first;
    batch.count =
        static_cast<std::uint32_t>(std::min<std::size_t>(batch.most, list.size() - first));
    std::copy_n(list.begin() + static_cast<std::ptrdiff_t>(first), batch.count, batch.elements);
    driver.launch_work(device, 1, 128, batch, on);
  }
}
/// Loads the kernel of `put_list`, which must not happen between launches of kernels that wait for
/// each other.
template <class E, class Devices>
void load_put_list(Devices& driver, int device) {
  (void)driver.template work_blocks_at_once<list_batch<E>>(device, 128);
}

}}  // namespace blink::BLINK_ABI
