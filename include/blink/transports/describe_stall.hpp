// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collective.hpp>
#include <blink/collectives/collective_error.hpp>
#include <blink/collectives/stall.hpp>
#include <blink/config.hpp>
#include <blink/transports/barrier_mismatch.hpp>
#include <blink/transports/follow_waits.hpp>
#include <blink/transports/world_state.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace blink::inline BLINK_ABI {

/// What a rank says that gave up waiting: who is the cause, as far as can be known, and who waits
/// for whom on the way there.
///
/// The cause is, in this order: a rank that calls a barrier instead, or the other way round; one that died
/// or has left; one that is between two calls; one that does not move, found by following who waits for
/// whom, also in calls before this one.
///
/// silent:  has the rank not said for long that it waits?
/// call:    the number of the call
/// seconds: how long it waited
template <class Silent>
[[nodiscard]] BLINK_COLD collective_error describe_stall(stall const& where, int rank,
                                                         world_state const& world,
                                                         std::uint64_t call, double seconds,
                                                         Silent const& silent) {
  if (auto const difference = describe_difference(rank, world)) return *difference;
  auto const name = [&](int peer) {
    auto const more = world.describe(peer);
    return "rank " + std::to_string(peer) + (more.empty() ? "" : " (" + more + ")");
  };
  std::string text = "rank " + std::to_string(rank) + ", " + std::string(to_text(where.kind));
  text += place_of(where) + ": ";
  auto const cause = [&](int peer, std::string const& what) {
    return collective_error(text + name(peer) + what, rank, peer, where.tree, where.chunk);
  };
  auto const waited = " (waited " + std::to_string(seconds) + " s)";
  auto const number = std::to_string(call);
  for (int peer = 0; peer < world.rank_count(); ++peer) {
    if (world.has_ended(peer, call)) continue;
    auto const when =
        world.has_entered(peer, call) ? " inside call " + number : " before call " + number;
    if (world.is_gone(peer)) return cause(peer, " has left without entering call " + number);
    if (world.has_died(peer)) return cause(peer, " died" + when);
  }
  int culprit = where.peer;
  for (int peer = 0; peer < world.rank_count(); ++peer) {
    if (world.has_entered(peer, call)) continue;
    if (!world.is_inside(peer)) return cause(peer, " has not entered call " + number + waited);
    if (culprit < 0) culprit = peer;  // held up in a call before: who holds it up?
  }
  auto const way = follow_waits(where, rank, culprit, name, [&](int peer) {
    return silent(peer) ? std::nullopt : world.waiting(peer);
  });
  if (way.has_end) {
    return {text + "waits for " + way.text + ", which does not go on" + waited, rank,
            way.ranks.back(), where.tree, where.chunk};
  }
  for (int peer = 0; peer < world.rank_count(); ++peer) {
    if (peer != rank && !world.has_ended(peer, call) && silent(peer)) {
      return cause(peer, " does not go on" + waited);
    }
  }
  return {text + (way.ranks.empty() ? "no progress" : "waits for " + way.text) + waited, rank,
          where.peer, where.tree, where.chunk};
}

}  // namespace blink::inline BLINK_ABI
