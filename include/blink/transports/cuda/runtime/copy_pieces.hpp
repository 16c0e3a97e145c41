// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/transports/cuda/runtime/device_handles.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>
#include <blink/transports/cuda/runtime/rank_placement.hpp>

#include <cstddef>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// One send or one receive of a rank of this process.
struct device_piece {
  int rank = 0;
  int peer = 0;        ///< of another process
  bool sends = false;  ///< false: it receives
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

/// A copy from one rank of this process to another one.
struct piece_copy {
  int sender = 0;
  int receiver = 0;
  void const* from = nullptr;
  void* to = nullptr;
  std::size_t bytes = 0;
};

/// Copies pieces between ranks of this process by copy engines, each piece in the stream of its
/// sender. The copies run after the earlier work in the streams of both ranks, and before later
/// work there.
///
/// on:     by position in `where.devices`
/// Time:   one call of the driver for each piece, two events for each device of `where`.
/// Throws: device_error.
template <device_runtime Devices>
void copy_pieces(Devices& driver, rank_placement const& where,
                 std::vector<piece_copy> const& pieces,
                 std::vector<typename Devices::stream> const& on) {
  std::vector<device_event<Devices>> begins, ends;
  std::vector<bool> sends(on.size()), receives(on.size());
  for (auto const& one : pieces) {
    sends[where.position_of(one.sender)] = true;
    receives[where.position_of(one.receiver)] = true;
  }
  for (std::size_t k = 0; k < on.size(); ++k) {
    begins.emplace_back(driver, where.devices[k]);
    ends.emplace_back(driver, where.devices[k]);
    if (receives[k]) driver.record(where.devices[k], begins[k].get(), on[k]);
  }
  auto const each_pair = [&](auto const& use) {  // pairs of different devices
    std::vector<std::vector<bool>> seen(on.size(), std::vector<bool>(on.size()));
    for (auto const& one : pieces) {
      auto const from = where.position_of(one.sender), to = where.position_of(one.receiver);
      if (from != to && !seen[from][to]) use(from, to);
      seen[from][to] = true;
    }
  };
  each_pair([&](std::size_t from, std::size_t to) {
    driver.wait(where.devices[from], on[from], begins[to].get());
  });
  for (auto const& one : pieces) {
    auto const from = where.position_of(one.sender), to = where.position_of(one.receiver);
    driver.copy_between(where.devices[to], one.to, where.devices[from], one.from, one.bytes,
                        on[from]);
  }
  for (std::size_t k = 0; k < on.size(); ++k) {
    if (sends[k]) driver.record(where.devices[k], ends[k].get(), on[k]);
  }
  each_pair([&](std::size_t from, std::size_t to) {
    driver.wait(where.devices[to], on[to], ends[from].get());
  });
}

}}  // namespace blink::BLINK_ABI
