// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/barrier.hpp>

#include <chrono>
#include <vector>

namespace blink_bench {

/// Times calls of all ranks together, from one meeting to the next. The first warms up.
///
/// prepare: before each call, not timed
/// meet:    waits for all ranks
/// into:    of rank 0: the seconds of each call but the first
template <class Comm, class Prepare, class Call, class Meet>
void time_calls(Comm& comm, int rounds, std::vector<double>& into, Prepare const& prepare,
                Call const& call, Meet const& meet) {
  using clock = std::chrono::steady_clock;
  for (int round = 0; round < rounds; ++round) {
    prepare();
    meet();
    auto const start = clock::now();
    call();
    meet();
    std::chrono::duration<double> const passed = clock::now() - start;
    if (comm.rank() == 0 && round > 0) into.push_back(passed.count());
  }
}
/// The same with barriers of the communicator.
template <class Comm, class Prepare, class Call>
void time_calls(Comm& comm, int rounds, std::vector<double>& into, Prepare const& prepare,
                Call const& call) {
  time_calls(comm, rounds, into, prepare, call, [&] { blink::barrier(comm); });
}

}  // namespace blink_bench
