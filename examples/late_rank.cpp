// SPDX-License-Identifier: Apache-2.0
// No wait is without end: rank 2 never enters the call, and the error names it.
#include <blink/collectives.hpp>

#include <chrono>
#include <cstdio>
#include <vector>

int main() {
  blink::communicator_options options;
  options.waits.deadline = std::chrono::milliseconds(200);
  blink::thread_ranks threads(4, options);
  try {
    threads.run([&](auto& comm) {
      if (comm.rank() == 2) return;
      std::vector<int> data(1000, 1);
      blink::all_reduce(comm, blink::star_schedule(4), data.data(), data.data(), data.size(),
                        blink::sum{});
    });
  } catch (blink::collective_error const& failure) {
    std::printf("%s\n", failure.what());
    return failure.peer == 2 ? 0 : 1;
  }
  return 1;
}
