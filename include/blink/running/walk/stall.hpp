// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/running/walk/lane.hpp>

#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// Where a rank stands that cannot go on.
struct stall {
  collective kind = collective::broadcast;
  int peer = -1;       ///< whom it waits for; -1: no lane is blocked
  bool sends = false;  ///< would it send to the peer, or receive?
  int tree = -1;
  long long chunk = -1;
  std::uint64_t chunks = 0;  ///< of that lane
};

/// Where a rank stands, if it says so.
struct told_stall {
  bool is_told = false;
  stall where{};
};

/// The blocked lane of the lowest tree, or nothing. Where all ranks answer so, whoever follows from one to the next
/// whom it waits for never comes to a higher tree, so not round in a circle either.
[[nodiscard]] inline lane const* find_blocked(lane const* lanes, std::size_t lane_count) {
  lane const* result = nullptr;
  for (std::size_t k = 0; k < lane_count; ++k) {
    lane const& here = lanes[k];
    if (here.is_finished || here.blocked_on == nullptr) continue;
    if (result == nullptr || here.tree < result->tree) result = &here;
  }
  return result;
}

/// Where a rank stands with its lanes.
[[nodiscard]] inline stall find_stall(collective kind, lane const* lanes, std::size_t lane_count) {
  stall result;
  result.kind = kind;
  auto const* const blocked = find_blocked(lanes, lane_count);
  if (blocked == nullptr) return result;
  result.peer = blocked->blocked_on->peer;
  result.sends = blocked->blocked_on->sends;
  result.tree = static_cast<int>(blocked->tree);
  result.chunk = static_cast<long long>(blocked->done);
  result.chunks = blocked->chunks;
  return result;
}

}}  // namespace blink::BLINK_ABI
