// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/text.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/transports/host/shared_state.hpp>

#include <cstdint>

// Ranks of which one calls a barrier and another one a collective: calls are compared as they are entered, but barriers
// leave no record.

namespace blink { inline namespace BLINK_ABI {

/// Has `caller` entered a call that `in_barrier` has not, and this come to a barrier that `caller` has
/// not? Then they call different things: where all call the same in the same order, of two ranks the one
/// that has entered more calls has come to no fewer barriers, late as the other may be.
///
/// What each is ahead in is read first. So a rank that goes on meanwhile does no harm: whoever sees its
/// new count also sees what it did before.
[[nodiscard]] inline bool can_never_meet(shared_state const& state, int caller, int in_barrier) {
  std::uint64_t const calls = state.calls_of(caller);
  std::uint64_t const barriers = state.barriers_of(in_barrier);
  return state.calls_of(in_barrier) < calls && state.barriers_of(caller) < barriers;
}

/// Two ranks of which that is so, of which this rank is one.
struct barrier_mismatch {
  int caller = -1;  ///< -1: there are none
  int in_barrier = -1;

  [[nodiscard]] bool is_there() const { return caller >= 0; }
};

/// Is there such a pair with this rank, which waits?
[[nodiscard]] inline barrier_mismatch find_mismatch(shared_state const& state, int rank) {
  for (int peer = 0; peer < state.rank_count(); ++peer) {
    if (can_never_meet(state, peer, rank)) return {peer, rank};
    if (can_never_meet(state, rank, peer)) return {rank, peer};
  }
  return {};
}

/// What this rank says then.
template <class = when_used>
[[nodiscard]] BLINK_COLD collective_error describe_mismatch(shared_state const& state, int rank,
                                                            barrier_mismatch const& pair) {
  auto const call = state.calls_of(pair.in_barrier) + 1;
  return collective_error(
      detail::text_of({"rank ", pair.caller, " calls ",
                       state.call_id(pair.caller, call).operation(), ", call ", call, ", and rank ",
                       pair.in_barrier, " barrier ", state.barriers_of(pair.in_barrier)}),
      rank, pair.caller == rank ? pair.in_barrier : pair.caller, -1, -1, true);
}

}}  // namespace blink::BLINK_ABI
