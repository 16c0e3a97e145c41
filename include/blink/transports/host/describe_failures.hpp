// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/text.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/running/call/wait_chain.hpp>
#include <blink/running/walk/stall.hpp>
#include <blink/transports/host/barrier_mismatch.hpp>
#include <blink/transports/host/host_wait.hpp>
#include <blink/transports/host/shared_state.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace blink { inline namespace BLINK_ABI {

/// Returns the failure of a rank that gave up waiting: the cause as far as it is known, and the
/// chain of waiting ranks that leads to it.
///
/// The cause is, in this order: a rank that calls a barrier instead, or the other way round; a rank
/// that died or left; a rank between two calls; a rank that does not move. The last is found along
/// the ranks that wait for each other, also in earlier calls.
///
/// call:  the number of the call
/// waits: the time that the rank has waited, and the heartbeats that it read meanwhile
template <class = when_used>
[[nodiscard]] BLINK_COLD collective_error describe_stall(stall const& where, int rank,
                                                         shared_state const& state,
                                                         std::uint64_t call,
                                                         wait_record const& waits) {
  if (auto const pair = find_mismatch(state, rank); pair.is_there()) {
    return describe_mismatch(state, rank, pair);
  }
  using detail::text_of;
  using detail::text_piece;
  auto const name = [&](int peer) {
    auto const more = state.describe(peer);
    if (more.empty()) return text_of({"rank ", peer});
    return text_of({"rank ", peer, " (", more, ")"});
  };
  auto const waited = text_of({" (waited ", static_cast<double>(waits.nanoseconds) * 1e-9, " s)"});
  // True if the rank has sent no heartbeat for long.
  auto const silent = [&](int peer) {
    return waits.has_listened &&
           waits.heartbeats[static_cast<std::size_t>(peer)] == state.heartbeats(peer);
  };
  auto const error = [&](int peer, std::initializer_list<text_piece> what) {
    return collective_error(
        text_of({"rank ", rank, ", ", to_text(where.kind), place_of(where), ": ", text_of(what)}),
        rank, peer, where.tree, where.chunk);
  };
  for (int peer = 0; peer < state.rank_count(); ++peer) {
    switch (state.loss_before_end(peer, call)) {
      case shared_state::loss::none:
        break;
      case shared_state::loss::left:
        return error(peer, {name(peer), " has left without entering call ", call});
      case shared_state::loss::died:
        return error(
            peer,
            {name(peer),
             state.has_entered(peer, call) ? " died inside call " : " died before call ", call});
    }
  }
  int culprit = where.peer;
  for (int peer = 0; peer < state.rank_count(); ++peer) {
    if (state.has_entered(peer, call)) continue;
    if (!state.is_inside(peer)) {
      return error(peer, {name(peer), " has not entered call ", call, waited});
    }
    if (culprit < 0) culprit = peer;  // blocked in an earlier call: find the cause
  }
  auto const way = wait_chain(where, rank, culprit, name, [&](int peer) {
    return silent(peer) ? reported_stall{} : state.waiting(peer);
  });
  if (way.has_end) {
    return error(way.ranks.back(), {"waits for ", way.text, ", which makes no progress", waited});
  }
  for (int peer = 0; peer < state.rank_count(); ++peer) {
    if (peer != rank && !state.has_ended(peer, call) && silent(peer)) {
      return error(peer, {name(peer), " makes no progress", waited});
    }
  }
  if (way.ranks.empty()) return error(where.peer, {"no progress", waited});
  return error(where.peer, {"waits for ", way.text, waited});
}

/// Returns the failure of a rank whose peer has called something else.
template <class = when_used>
[[nodiscard]] BLINK_COLD collective_error describe_other_call(int rank, int peer,
                                                              shared_state const& state,
                                                              std::uint64_t call) {
  auto const& mine = state.call_id(rank, call);
  return {detail::text_of({"rank ", rank, " calls ", mine.operation(), ", call ", call, ", with ",
                           mine.difference(state.call_id(peer, call), peer)}),
          rank,
          peer,
          -1,
          -1,
          true};
}

/// Returns the failure of a barrier that a peer does not enter.
template <class = when_used>
[[nodiscard]] BLINK_COLD collective_error describe_missing(int rank, int peer,
                                                           shared_state const& state,
                                                           std::uint64_t round) {
  if (auto const pair = find_mismatch(state, rank); pair.is_there()) {
    return describe_mismatch(state, rank, pair);
  }
  auto const lost = state.loss_before_arrival(peer, round);
  return {detail::text_of({"rank ", rank, ", barrier ", round, ": rank ", peer,
                           lost == shared_state::loss::left   ? " has left without entering it"
                           : lost == shared_state::loss::died ? " has died before it"
                                                              : " has not entered it in time"}),
          rank, peer, -1, -1};
}

}}  // namespace blink::BLINK_ABI
