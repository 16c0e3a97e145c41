// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/running/call/describe_stall.hpp>
#include <blink/running/walk/stall.hpp>
#include <blink/transports/messages/control_messages.hpp>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// The neighbours of a rank that gave up waiting, and their answers.
template <message_channel Channel>
class answering_peers {
 public:
  explicit answering_peers(control_messages<Channel>& messages) : messages_(&messages) {
    // At this time: a late one may enter while other peers answer.
    for (int const peer : messages.neighbours()) {
      if (!messages.is_lost(peer) && !messages.is_present(peer)) absent_.push_back(peer);
    }
  }
  /// True if a neighbour is the cause, whatever the others answer.
  [[nodiscard]] bool have_lost_one() const {
    auto const& all = messages_->neighbours();
    return std::any_of(all.begin(), all.end(), [&](int peer) { return is_without_its_part(peer); });
  }

  [[nodiscard]] std::vector<int> const& ranks() const { return messages_->neighbours(); }
  [[nodiscard]] std::string name(int peer) const { return "rank " + std::to_string(peer); }
  [[nodiscard]] peer_status status(int peer) const {
    using place = peer_status::place;
    peer_status result;
    auto const call = " call " + std::to_string(messages_->call());
    if (is_without_its_part(peer)) {
      result.at = place::lost;
      result.how = messages_->is_lost(peer) ? "is lost" : "has left without entering" + call;
      return result;
    }
    auto const& answer = messages_->answer_of(peer);
    if (is_absent(peer)) {
      result.at = answer ? place::earlier_call : place::no_call;
      result.how = (messages_->is_present(peer) ? "was late for" : "has not entered") + call;
    }
    bool const is_gone = messages_->is_gone(peer);
    result.does = is_gone ? (messages_->is_lost(peer) ? "is lost" : "has left")
                          : (answer ? "is busy" : "does not answer");
    if (!answer) return result;
    result.waits = {answer->where.peer >= 0, answer->where};
    result.waited_nanoseconds = answer->nanoseconds;
    return result;
  }

 private:
  [[nodiscard]] bool is_absent(int peer) const {
    return std::find(absent_.begin(), absent_.end(), peer) != absent_.end();
  }
  // A neighbour that is lost, or has left before this call.
  [[nodiscard]] bool is_without_its_part(int peer) const {
    auto const& all = messages_->neighbours();
    if (std::find(all.begin(), all.end(), peer) == all.end()) return false;
    return messages_->is_lost(peer) || messages_->has_left_before(peer);
  }

  control_messages<Channel>* messages_;
  std::vector<int> absent_;  // neighbours
};

}  // namespace detail

/// Returns the error of a rank that gave up waiting; see the other `describe_stall`.
///
/// Time:   none, if `message_wait` has already asked the peers. Otherwise at most a quarter of the
///         deadline, for the answers: a stopped rank gives none.
template <message_channel Channel>
[[nodiscard]] BLINK_COLD collective_error describe_stall(stall const& where,
                                                         control_messages<Channel>& messages,
                                                         std::chrono::nanoseconds deadline) {
  detail::answering_peers const peers(messages);
  bool const has_asked_now = messages.ask();
  if (!peers.have_lost_one()) {
    messages.wait_for_answers(has_asked_now ? deadline / 4 : std::chrono::nanoseconds{0});
    if (messages.has_failed(messages.call())) return messages.failure();
  }
  auto const seconds = std::chrono::duration<double>(deadline).count();
  return describe_stall(where, messages.rank(), seconds, peers);
}

}}  // namespace blink::BLINK_ABI
