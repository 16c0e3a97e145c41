// SPDX-License-Identifier: Apache-2.0
// Ranks on several hosts. Start it with `blink run --hosts a:2,b:2 -- example_ucx_hosts`. Without a
// launcher it prints what is missing.
#include <blink/ucx.hpp>

#include <cstdio>
#include <vector>

int main() {
  try {
    blink::launcher_bootstrap all;
    blink::ucx_communicator comm(all);
    std::vector<double> gradient(1000, 1.0 + comm.rank());
    blink::all_reduce(comm, gradient);
    std::printf("rank %d of %d: %g\n", comm.rank(), comm.rank_count(), gradient[0]);
  } catch (blink::input_error const& failure) {  // not started by a launcher
    std::printf("%s\n", failure.what());
  } catch (blink::error const& failure) {  // a rank is lost
    std::printf("%s\n", failure.what());
    return 1;
  }
}
