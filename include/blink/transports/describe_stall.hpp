// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/collective_error.hpp>
#include <blink/collectives/session.hpp>
#include <blink/config.hpp>

#include <cstdint>
#include <string>

namespace blink::inline BLINK_ABI {

/// What a rank says that gave up waiting.
///
/// World: tells of any peer whether it `has_entered(peer, call)` and `is_gone(peer)`
/// call: the number of the call
template <class World>
[[nodiscard]] collective_error describe_stall(stall const& where, int rank, World const& world,
                                              std::uint64_t call, double seconds) {
  auto const whole = std::to_string(seconds);
  auto const who = "rank " + std::to_string(rank) + ", " + std::string(to_text(where.kind));
  auto const place = where.peer < 0
                         ? std::string()
                         : ", tree " + std::to_string(where.tree) + ", chunk " +
                               std::to_string(where.chunk) + " of " + std::to_string(where.chunks);
  for (int peer = 0; peer < world.rank_count(); ++peer) {  // the cause, if it is elsewhere
    if (world.has_entered(peer, call)) continue;
    auto const how =
        world.is_gone(peer) ? " has left without entering call " : " has not entered call ";
    return {who + place + ": rank " + std::to_string(peer) + how + std::to_string(call) +
                " (waited " + whole + " s)",
            rank, peer, where.tree, where.chunk};
  }
  if (where.peer < 0) return {who + ": no progress in " + whole + " s", rank, -1, -1, -1};
  auto const how = where.sends ? " has not taken it in " : " has not sent it in ";
  return {who + place + ": rank " + std::to_string(where.peer) + how + whole + " s", rank,
          where.peer, where.tree, where.chunk};
}

}  // namespace blink::inline BLINK_ABI
