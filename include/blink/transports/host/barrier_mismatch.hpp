// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/text.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/transports/host/shared_state.hpp>

#include <cstdint>

// A pair of ranks of which one calls a barrier and the other a collective. Calls are compared as
// they are entered, but barriers leave no record.

namespace blink { inline namespace BLINK_ABI {

/// True if `caller` has entered a call that `in_barrier` has not, and `in_barrier` a barrier that
/// `caller` has not.
///
/// Then the two ranks call different things. With the same order on all ranks, a rank that has
/// entered more calls has also entered at least as many barriers. That holds however late the other
/// rank is.
///
/// The counts that are ahead are read first. A rank that advances meanwhile does no harm, because a
/// reader of its new count also sees its earlier steps.
[[nodiscard]] inline bool can_never_meet(shared_state const& state, int caller, int in_barrier) {
  std::uint64_t const calls = state.calls_of(caller);
  std::uint64_t const barriers = state.barriers_of(in_barrier);
  return state.calls_of(in_barrier) < calls && state.barriers_of(caller) < barriers;
}

/// Two ranks that can never meet, of which this rank is one.
struct barrier_mismatch {
  int caller = -1;  ///< -1: there are none
  int in_barrier = -1;

  [[nodiscard]] bool is_there() const { return caller >= 0; }
};

/// Returns this rank and the peer if the two can never meet.
[[nodiscard]] inline barrier_mismatch mismatch_of(shared_state const& state, int rank, int peer) {
  if (can_never_meet(state, peer, rank)) return {peer, rank};
  if (can_never_meet(state, rank, peer)) return {rank, peer};
  return {};
}
/// Returns this rank, which waits, and a peer that it can never meet, if there is one.
[[nodiscard]] inline barrier_mismatch find_mismatch(shared_state const& state, int rank) {
  for (int peer = 0; peer < state.rank_count(); ++peer) {
    if (auto const found = mismatch_of(state, rank, peer); found.is_there()) return found;
  }
  return {};
}

/// Returns the failure of this rank, which belongs to `pair` or waits for it.
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
