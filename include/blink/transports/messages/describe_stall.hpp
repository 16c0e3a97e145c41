// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/running/call/wait_chain.hpp>
#include <blink/running/walk/stall.hpp>
#include <blink/transports/messages/control_messages.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Returns the error of a rank that gave up waiting. It names the cause, as far as known, and the
/// chain of waits that leads to it.
///
/// The cause is the first of these:
/// - a neighbour that is lost, or has left;
/// - a neighbour that has not entered the call and does not answer;
/// - the rank at the end of the chain of waits, which does not answer or is busy;
/// - in a cycle of waits, the rank that has waited for the shortest time, because it was late.
///
/// Time:   none, if `message_wait` has already asked the peers. Otherwise at most a quarter of the
///         deadline, for the answers: a stopped rank gives none.
template <message_channel Channel>
[[nodiscard]] BLINK_COLD collective_error describe_stall(stall const& where,
                                                         control_messages<Channel>& messages,
                                                         std::chrono::nanoseconds deadline) {
  auto const name = [](int peer) { return "rank " + std::to_string(peer); };
  int const rank = messages.rank();
  auto const text = name(rank) + ", " + std::string(to_text(where.kind)) + place_of(where) + ": ";
  auto const cause = [&](int peer, std::string const& what) {
    return collective_error(text + what, rank, peer, where.tree, where.chunk);
  };
  auto const waited =
      " (waited " + std::to_string(std::chrono::duration<double>(deadline).count()) + " s)";
  auto const call = " call " + std::to_string(messages.call());
  // The absent peers at this time: a late one may enter while other peers answer.
  std::vector<int> absent;
  for (int const peer : messages.neighbours()) {
    if (messages.is_lost(peer)) return cause(peer, name(peer) + " is lost");
    if (messages.is_present(peer)) continue;
    if (messages.is_gone(peer))
      return cause(peer, name(peer) + " has left without entering" + call);
    absent.push_back(peer);
  }
  messages.wait_for_answers(messages.ask() ? deadline / 4 : std::chrono::nanoseconds{0});
  if (messages.has_failed(messages.call())) return messages.failure();
  for (int const peer : absent) {
    if (messages.answer_of(peer))
      continue;  // delayed in an earlier call, by a rank that the chain
                 // of waits finds
    auto const how = messages.is_present(peer) ? " was late for" : " has not entered";
    return cause(peer, name(peer) + how + call + waited);
  }
  int const first = where.peer < 0 && !absent.empty() ? absent.front() : where.peer;
  auto const way = wait_chain(where, rank, first, name, [&](int peer) -> reported_stall {
    auto const& answer = messages.answer_of(peer);
    if (!answer || answer->where.peer < 0) return {};
    return {true, answer->where};
  });
  if (way.ranks.empty()) return {text + "no progress" + waited, rank, -1, -1, -1};
  int culprit = way.ranks.back();
  if (way.has_end) {
    return cause(culprit, "waits for " + way.text + ", which " +
                              (messages.is_lost(culprit)     ? "is lost"
                               : messages.is_gone(culprit)   ? "has left"
                               : messages.answer_of(culprit) ? "is busy"
                                                             : "does not answer") +
                              waited);
  }
  std::uint64_t shortest = UINT64_MAX;
  for (int const peer : way.ranks) {
    auto const nanoseconds = messages.answer_of(peer)->nanoseconds;
    if (nanoseconds < shortest) culprit = peer;
    shortest = std::min(shortest, nanoseconds);
  }
  return cause(culprit,
               "waits for " + way.text + "; " + name(culprit) + " has entered last" + waited);
}

}}  // namespace blink::BLINK_ABI
