// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/duration.hpp>
#include <blink/core/text.hpp>
#include <blink/running/walk/detail/host_clock.hpp>
#include <blink/transports/host/shared_state.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Agrees with the other ranks on those that remain after a failure.
///
/// The rank asks, and waits until every other rank also asks, is dead or has left. It waits at most
/// until `longest` has passed since a rank in an earlier call moved. Ranks that did not ask until
/// then are left out. Calls that this rank does not enter any more end for all ranks.
///
/// A rank that has waited enough writes its proposal of the remaining ranks, and then tries to be
/// the first to decide. All ranks follow the first proposal. So ranks may die here at any moment.
///
/// Returns: the remaining ranks, by rising rank, the same on all ranks; without this rank if it
///          called too late.
template <class>
std::vector<int> agree_on_survivors(shared_state& state, int rank, nanoseconds longest) {
  state.fail(
      rank,
      {detail::text_of({"rank ", rank, " shrinks the communicator to the ranks that are left"}),
       rank, rank, -1, -1});
  state.at(rank).asks.store(1);
  state.wake_all();
  auto const is_settled = [&](int peer) {
    return state.at(peer).asks.load() != 0 || state.is_gone(peer) || state.is_dead(peer);
  };
  // Ranks that are still in an earlier call end it first. As long as they move, no rank is late.
  auto const moves = [&] {
    std::uint64_t sum = 0;
    for (int peer = 0; peer < state.rank_count(); ++peer) {
      bool const is_later =
          state.present_call(peer) >= shared_state::call_of(state.head_->failure.load());
      if (is_settled(peer) || is_later) continue;
      sum += state.present_call(peer) + state.heartbeats(peer) + 1;
    }
    return sum;
  };
  auto end = shared_state::time_after(longest);
  std::uint64_t moved = moves();
  for (int peer = 0; peer < state.rank_count();) {
    if (auto const now = moves(); std::exchange(moved, now) != now) {
      end = shared_state::time_after(longest);
    }
    if (state.head_->decided_by.load() != 0 || detail::host_nanoseconds() > end) break;
    if (is_settled(peer)) {
      ++peer;
      continue;
    }
    std::uint32_t const ticket = state.prepare_sleep(rank);
    if (!is_settled(peer)) state.sleep(rank, ticket, nanoseconds(1'000'000));
    state.end_sleep(rank);
  }
  std::uint64_t* const own = state.proposal(rank);
  for (int peer = 0; peer < state.rank_count() && state.head_->decided_by.load() == 0; ++peer) {
    bool const is_left =
        state.at(peer).asks.load() != 0 && !state.is_gone(peer) && !state.is_dead(peer);
    if (is_left) own[peer / 64] |= std::uint64_t{1} << peer % 64;
  }
  std::uint32_t nobody = 0;
  state.head_->decided_by.compare_exchange_strong(nobody, static_cast<std::uint32_t>(rank) + 1);
  std::uint64_t const* const chosen =
      state.proposal(static_cast<int>(state.head_->decided_by.load()) - 1);
  std::vector<int> result;
  for (int peer = 0; peer < state.rank_count(); ++peer) {
    if ((chosen[peer / 64] >> peer % 64 & 1) != 0) result.push_back(peer);
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
