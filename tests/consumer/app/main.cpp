// SPDX-License-Identifier: Apache-2.0
// A user's program: blink in two translation units.
#include <blink/collectives.hpp>

#include <cmath>
#include <cstdio>
#include <vector>

double length_of(blink::thread_ranks& threads);

int main() {
  blink::thread_ranks threads(3);
  int wrong = 0;
  threads.run([&](auto& comm) {
    std::vector<int> data(1000, comm.rank());
    blink::all_reduce(comm, blink::star_schedule(3), data.data(), data.data(), data.size(),
                      blink::sum{});
    if (comm.rank() == 0) {
      for (int const value : data) wrong += value == 3 ? 0 : 1;
    }
  });
  double const length = length_of(threads);
  std::printf("blink %s: %d wrong, length %g\n", BLINK_VERSION_TEXT, wrong, length);
  return wrong == 0 && std::abs(length * length - 29) < 1e-12 ? 0 : 1;
}
