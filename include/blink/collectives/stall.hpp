// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collective.hpp>
#include <blink/collectives/lane.hpp>
#include <blink/config.hpp>

#include <cstddef>
#include <cstdint>

namespace blink::inline BLINK_ABI {

/// Where a rank stands that cannot go on.
struct stall {
  collective kind = collective::broadcast;
  int peer = -1;       ///< whom it waits for; -1: no lane is blocked
  bool sends = false;  ///< would it send to the peer, or receive?
  int tree = -1;
  long long chunk = -1;
  std::uint64_t chunks = 0;  ///< of that lane
};

/// The first of a rank's lanes that is blocked.
[[nodiscard]] inline stall find_stall(collective kind, lane const* lanes, std::size_t lane_count) {
  stall result;
  result.kind = kind;
  for (std::size_t k = 0; k < lane_count; ++k) {
    lane const& here = lanes[k];
    if (here.is_finished || here.blocked_on == nullptr) continue;
    result.peer = here.blocked_on->peer;
    result.sends = here.blocked_on->sends;
    result.tree = static_cast<int>(here.tree);
    result.chunk = static_cast<long long>(here.done);
    result.chunks = here.chunks;
    break;
  }
  return result;
}

}  // namespace blink::inline BLINK_ABI
