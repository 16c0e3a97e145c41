// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/collective_error.hpp>
#include <blink/config.hpp>
#include <blink/text.hpp>
#include <blink/transports/world_state.hpp>

#include <cstdint>
#include <optional>

// Ranks of which one calls a barrier and another one a collective: calls are compared as they are entered, but barriers
// leave no record.

namespace blink::inline BLINK_ABI {

/// Has `caller` entered a call that `in_barrier` has not, and this come to a barrier that `caller` has
/// not? Then they call different things: where all call the same in the same order, of two ranks the one
/// that has entered more calls has come to no fewer barriers, late as the other may be.
///
/// What each is ahead in is read first. So a rank that goes on meanwhile does no harm: whoever sees its
/// new count also sees what it did before.
[[nodiscard]] inline bool can_never_meet(world_state const& world, int caller, int in_barrier) {
  std::uint64_t const calls = world.calls_of(caller);
  std::uint64_t const barriers = world.barriers_of(in_barrier);
  return world.calls_of(in_barrier) < calls && world.barriers_of(caller) < barriers;
}

/// Is there such a pair with this rank, which waits?
[[nodiscard]] inline bool differs_from_a_peer(world_state const& world, int rank) {
  for (int peer = 0; peer < world.rank_count(); ++peer) {
    if (can_never_meet(world, peer, rank) || can_never_meet(world, rank, peer)) return true;
  }
  return false;
}

/// What this rank says then; nothing if there is none.
template <class = when_used>
[[nodiscard]] BLINK_COLD std::optional<collective_error> describe_difference(
    int rank, world_state const& world) {
  auto const describe = [&](int peer, int caller, int in_barrier) {
    auto const call = world.calls_of(in_barrier) + 1;
    return collective_error(
        detail::text_of({"rank ", caller, " calls ", world.signature(caller, call).operation(),
                         ", call ", call, ", and rank ", in_barrier, " barrier ",
                         world.barriers_of(in_barrier)}),
        rank, peer, -1, -1, true);
  };
  for (int peer = 0; peer < world.rank_count(); ++peer) {
    if (can_never_meet(world, peer, rank)) return describe(peer, peer, rank);
    if (can_never_meet(world, rank, peer)) return describe(peer, rank, peer);
  }
  return std::nullopt;
}

}  // namespace blink::inline BLINK_ABI
