// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/text.hpp>
#include <blink/running/walk/stall.hpp>
#include <blink/transports/host/barrier_mismatch.hpp>
#include <blink/transports/host/describe_stall.hpp>
#include <blink/transports/host/failure_tellers.hpp>
#include <blink/transports/host/patience.hpp>
#include <blink/transports/host/world_state.hpp>

#include <cstdint>
#include <string>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

template <class>
BLINK_COLD void tell_stalled(world_state& world, int rank, stall const& where, std::uint64_t call,
                             waiting_memory const& waits) {
  world.fail(rank, describe_stall(where, rank, world, call, waits));
}

template <class>
BLINK_COLD void tell_unlike(world_state& world, int rank, int peer, std::uint64_t call) {
  auto const& mine = world.signature(rank, call);
  world.fail(rank, {text_of({"rank ", rank, " calls ", mine.operation(), ", call ", call, ", with ",
                             mine.difference(world.signature(peer, call), peer)}),
                    rank, peer, -1, -1, true});
}

template <class>
BLINK_COLD void tell_missing(world_state& world, int rank, int peer, std::uint64_t round) {
  if (auto const pair = find_mismatch(world, rank); pair.is_there()) {
    world.fail(rank, describe_mismatch(world, rank, pair));
    return;
  }
  world.fail(rank, {text_of({"rank ", rank, ", barrier ", round, ": rank ", peer,
                             world.is_gone(peer)    ? " has left without coming to it"
                             : world.has_died(peer) ? " has died before it"
                                                    : " has not come to it in time"}),
                    rank, peer, -1, -1});
}

template <class>
BLINK_COLD void tell_given_up(world_state& world, int rank, std::string const& why) {
  world.fail(rank, {text_of({"rank ", rank, " gave up: ", why}), rank, rank, -1, -1});
}

}  // namespace detail

/// See `failure_tellers`. Of whatever type whoever uses it depends on: so it is made when that is known.
template <class User>
inline constexpr failure_tellers told_failures{
    &detail::tell_stalled<User>, &detail::tell_unlike<User>, &detail::tell_missing<User>,
    &detail::tell_given_up<User>};

}}  // namespace blink::BLINK_ABI
