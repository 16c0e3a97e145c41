// SPDX-License-Identifier: Apache-2.0
// Four ranks, as threads, sum their buffers. It needs no planner and no dependencies.
#include <blink/collectives.hpp>

#include <cstdio>
#include <vector>

int main() {
  constexpr int ranks = 4;
  constexpr std::size_t count = 1'000'000;
  blink::thread_ranks threads(ranks);
  threads.run([&](auto& comm) {
    std::vector<float> data(count, static_cast<float>(comm.rank() + 1));
    blink::all_reduce(comm, data);  // in place, the sum, with the fastest algorithm for this size
    if (comm.rank() == 0) std::printf("1 + 2 + 3 + 4 = %g\n", static_cast<double>(data[count / 2]));
  });
}
