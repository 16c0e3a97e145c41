// SPDX-License-Identifier: Apache-2.0
// Ranks that are processes. Start it with `blink run -n 4 -- example_processes`. Without a launcher
// it prints what is missing.
#include <blink/collectives.hpp>
#include <blink/transports/host/processes.hpp>

#include <cstdio>
#include <vector>

int main() {
  try {
    blink::process_communicator comm;
    std::vector<double> gradient(1000, 1.0 + comm.rank());
    blink::all_reduce(comm, gradient);
    std::printf("rank %d of %d: %g\n", comm.rank(), comm.rank_count(), gradient[0]);
  } catch (blink::input_error const& failure) {  // not started by a launcher
    std::printf("%s\n", failure.what());
  }
}
