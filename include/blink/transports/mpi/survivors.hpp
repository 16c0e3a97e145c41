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

/// Agrees with the other ranks that call it who goes on after a failure, and ends the present call of all.
///
/// longest: a rank that does not call it until then is left out
/// Returns: the ranks that go on, by rising rank: the same on each of them.
/// Time:    at most three times `longest`; at once if all others call it or have left.
/// Throws:  collective_error if the others went on without this rank, or did not agree in time.
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
