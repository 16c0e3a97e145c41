// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/text.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/running/call/describe_stall.hpp>
#include <blink/running/walk/stall.hpp>
#include <blink/transports/host/barrier_mismatch.hpp>
#include <blink/transports/host/host_wait.hpp>
#include <blink/transports/host/shared_state.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// The peers of a rank that gave up waiting, as they show in the shared memory.
struct visible_peers {
  shared_state const& state;
  std::uint64_t call;  ///< its number
  /// the heartbeats that the rank read while it waited
  wait_record const& waits;

  [[nodiscard]] std::vector<int> ranks() const {
    std::vector<int> result;
    for (int rank = 0; rank < state.rank_count(); ++rank) result.push_back(rank);
    return result;
  }
  [[nodiscard]] std::string name(int peer) const {
    auto const more = state.describe(peer);
    if (more.empty()) return text_of({"rank ", peer});
    return text_of({"rank ", peer, " (", more, ")"});
  }
  [[nodiscard]] peer_status status(int peer) const {
    using place = peer_status::place;
    peer_status result;
    result.does = "makes no progress";
    bool const has_entered = state.has_entered(peer, call);
    switch (state.loss_before_end(peer, call)) {
      case shared_state::loss::left:
        result.at = place::lost;
        result.how = text_of({"has left without entering call ", call});
        return result;
      case shared_state::loss::died:
        result.at = place::lost;
        result.how = text_of({has_entered ? "died inside call " : "died before call ", call});
        return result;
      case shared_state::loss::none:
        break;
    }
    if (!has_entered) {
      result.at = state.is_inside(peer) ? place::earlier_call : place::no_call;
      result.how = text_of({"has not entered call ", call});
    }
    // It has sent no heartbeat for long.
    bool const is_silent = waits.has_listened && waits.heartbeats[static_cast<std::size_t>(peer)] ==
                                                     state.heartbeats(peer);
    result.is_silent = is_silent && !state.has_ended(peer, call);
    if (!is_silent) result.waits = state.waiting(peer);
    return result;
  }
};

}  // namespace detail

/// Returns the failure of a rank that gave up waiting; see the other `describe_stall`. A rank that
/// calls a barrier instead, or the other way round, is a cause before all others.
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
  return describe_stall(where, rank, static_cast<double>(waits.nanoseconds) * 1e-9,
                        detail::visible_peers{state, call, waits});
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
