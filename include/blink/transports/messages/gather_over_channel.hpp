// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/transports/messages/message_channel.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Waits a moment, in the channel's own way if it has one.
template <message_channel Channel>
void yield_over(Channel& channel) {
  if constexpr (requires { channel.yield(); }) {
    channel.yield();
  } else {
    std::this_thread::yield();
  }
}

/// Returns the value of each rank, by rank. Collective. The channel has no other message with the
/// tag in flight.
///
/// purpose: what a missing rank has not done, for the error
/// longest: a peer that has sent nothing by then counts as missing
/// Moves:   ceil(log2 n) messages from each rank, in as many steps, with the values of all others.
/// Throws:  collective_error if a peer is missing; error if the channel breaks.
/// Source:  J. Bruck et al., "Efficient algorithms for all-to-all communications in multiport
///          message-passing systems", 1997.
template <message_channel Channel, class T>
[[nodiscard]] std::vector<T> gather_over_channel(Channel& channel, int tag, T const& own,
                                                 std::chrono::nanoseconds longest,
                                                 std::string const& purpose) {
  static_assert(std::is_trivially_copyable_v<T>);
  struct gathering {
    std::vector<T> values;  // of this rank and the ranks after it
    typename Channel::request sending{}, receiving{};
  };
  int const ranks = channel.rank_count();
  auto all = std::make_unique<gathering>();
  all->values.resize(static_cast<std::size_t>(ranks));
  all->values[0] = own;
  auto const end = std::chrono::steady_clock::now() + longest;
  for (int known = 1; known < ranks; known *= 2) {
    int const from = (channel.rank() + known) % ranks;
    int const to = (channel.rank() + ranks - known) % ranks;
    auto const bytes = static_cast<std::size_t>(std::min(known, ranks - known)) * sizeof(T);
    channel.receive(all->values.data() + known, bytes, from, tag, all->receiving);
    channel.send(all->values.data(), bytes, to, tag, all->sending);
    auto const are_done = [&] {  // both are tested, so that each of them is complete at the end
      bool const is_sent = channel.is_done(all->sending);
      return channel.is_done(all->receiving) && is_sent;
    };
    while (!are_done()) {
      if (!channel.is_intact() || is_lost_on(channel, from) ||
          std::chrono::steady_clock::now() > end) {
        if (channel.is_intact() && channel.is_done(all->sending)) {
          take_back(channel, all->receiving);
        } else {
          static_cast<void>(all.release());  // the channel may still use it
        }
        if (!channel.is_intact()) throw error(channel.problem());
        throw collective_error(
            communicator_text<Channel>("rank " + std::to_string(from) + " has not " + purpose +
                                       ", expected all ranks to"),
            channel.rank(), from, -1, -1);
      }
      yield_over(channel);
    }
  }
  auto& values = all->values;
  std::rotate(values.begin(), values.end() - channel.rank(), values.end());
  return std::move(values);
}

}}}  // namespace blink::BLINK_ABI::detail
