// SPDX-License-Identifier: Apache-2.0
// A user's program: blink in two translation units.
#include <blink/collectives.hpp>

#include <cstdio>
#include <vector>

double largest_of(blink::thread_world& world);

int main() {
  blink::thread_world world(3);
  int wrong = 0;
  world.run([&](auto& me) {
    std::vector<int> data(1000, me.rank());
    blink::all_reduce(me, blink::star_schedule(3), data.data(), data.data(), data.size(),
                      blink::sum{});
    if (me.rank() == 0) {
      for (int const value : data) wrong += value == 3 ? 0 : 1;
    }
  });
  double const largest = largest_of(world);
  std::printf("blink %s: %d wrong, largest %g\n", BLINK_VERSION_TEXT, wrong, largest);
  return wrong == 0 && largest == 2 ? 0 : 1;
}
