// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/barrier.hpp>

#include <chrono>
#include <vector>

namespace blink_bench {

/// Times calls of all ranks together, from one barrier to the next. The first warms up.
///
/// prepare: before each call, not timed
/// into:    of rank 0: the seconds of each call but the first
template <class Comm, class Prepare, class Call>
void time_calls(Comm& comm, int rounds, std::vector<double>& into, Prepare const& prepare,
                Call const& call) {
  using clock = std::chrono::steady_clock;
  for (int round = 0; round < rounds; ++round) {
    prepare();
    blink::barrier(comm);
    auto const start = clock::now();
    call();
    blink::barrier(comm);
    std::chrono::duration<double> const passed = clock::now() - start;
    if (comm.rank() == 0 && round > 0) into.push_back(passed.count());
  }
}

}  // namespace blink_bench
