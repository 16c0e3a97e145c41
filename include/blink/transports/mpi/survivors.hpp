// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/call/survivor_agreement.hpp>
#include <blink/transports/mpi/notices.hpp>

#include <chrono>
#include <thread>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

BLINK_MODELS(survivor_words<mpi_notices>);

/// Agrees with the other calling ranks on the ranks that continue after a failure. Ends the present
/// call of all ranks.
///
/// longest: a rank that has not called it by then is left out
/// Returns: the ranks that continue, by rising rank; equal on each of them
/// Time:   at most three times `longest`; immediate if all other ranks call it or have left.
/// Throws: collective_error if the other ranks continued without this one, or did not agree in
///         time.
[[nodiscard]] inline std::vector<int> agree_on_survivors(mpi_notices& notices,
                                                         std::chrono::nanoseconds longest) {
  notices.fail({notices.who() + " shrinks the communicator to the ranks that are left",
                notices.rank(), notices.rank(), -1, -1});
  auto const now = [] {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::steady_clock::now().time_since_epoch());
  };
  survivor_agreement agreement(notices, longest);
  agreement.begin(now());
  for (notices.look(); !agreement.advance(now()); notices.look()) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return agreement.group();
}

}}  // namespace blink::BLINK_ABI
