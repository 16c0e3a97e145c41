// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/call/survivor_agreement.hpp>
#include <blink/transports/messages/control_messages.hpp>

#include <chrono>
#include <thread>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Agrees with the other calling ranks on the ranks that continue after a failure. Ends the present
/// call of all ranks.
///
/// longest: a rank that has not called this function by then is left out
/// Returns: the ranks that continue, by rising rank; equal on each of them
/// Time:    at most three times `longest`; none if all other ranks have already called it or left.
/// Throws:  collective_error if the other ranks continued without this one, or did not agree in
///         time.
template <message_channel Channel>
[[nodiscard]] std::vector<int> agree_on_survivors(control_messages<Channel>& messages,
                                                  std::chrono::nanoseconds longest) {
  messages.fail({messages.who() + " shrinks the communicator to the ranks that are left",
                 messages.rank(), messages.rank(), -1, -1});
  auto const now = [] {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::steady_clock::now().time_since_epoch());
  };
  survivor_agreement agreement(messages, longest);
  agreement.begin(now());
  for (messages.look(); !agreement.advance(now()); messages.look()) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return agreement.group();
}

}}  // namespace blink::BLINK_ABI
