// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/text.hpp>
#include <blink/running/walk/stall.hpp>
#include <blink/transports/host/barrier_mismatch.hpp>
#include <blink/transports/host/describe_stall.hpp>
#include <blink/transports/host/failure_reporters.hpp>
#include <blink/transports/host/host_wait.hpp>
#include <blink/transports/host/shared_state.hpp>

#include <cstdint>
#include <string>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

template <class>
BLINK_COLD void report_stalled(shared_state& state, int rank, stall const& where,
                               std::uint64_t call, wait_record const& waits) {
  state.fail(rank, describe_stall(where, rank, state, call, waits));
}

template <class>
BLINK_COLD void report_unlike(shared_state& state, int rank, int peer, std::uint64_t call) {
  auto const& mine = state.call_id(rank, call);
  state.fail(rank, {text_of({"rank ", rank, " calls ", mine.operation(), ", call ", call, ", with ",
                             mine.difference(state.call_id(peer, call), peer)}),
                    rank, peer, -1, -1, true});
}

template <class>
BLINK_COLD void report_missing(shared_state& state, int rank, int peer, std::uint64_t round) {
  if (auto const pair = find_mismatch(state, rank); pair.is_there()) {
    state.fail(rank, describe_mismatch(state, rank, pair));
    return;
  }
  state.fail(rank, {text_of({"rank ", rank, ", barrier ", round, ": rank ", peer,
                             state.is_gone(peer)   ? " has left without coming to it"
                             : state.is_dead(peer) ? " has died before it"
                                                   : " has not come to it in time"}),
                    rank, peer, -1, -1});
}

template <class>
BLINK_COLD void report_given_up(shared_state& state, int rank, std::string const& why) {
  state.fail(rank, {text_of({"rank ", rank, " gave up: ", why}), rank, rank, -1, -1});
}

}  // namespace detail

/// See `failure_tellers`. A template over its user, so that it is instantiated only where that type
/// is known.
template <class User>
inline constexpr failure_tellers reported_failures{
    &detail::report_stalled<User>, &detail::report_unlike<User>, &detail::report_missing<User>,
    &detail::report_given_up<User>};

}}  // namespace blink::BLINK_ABI
