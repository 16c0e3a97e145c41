// SPDX-License-Identifier: Apache-2.0
// A user's program: blink in two translation units.
#include <blink/collectives.hpp>

#include <cmath>
#include <cstdio>
#include <vector>

double length_of(blink::thread_world& world);

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
  double const length = length_of(world);
  std::printf("blink %s: %d wrong, length %g\n", BLINK_VERSION_TEXT, wrong, length);
  return wrong == 0 && std::abs(length * length - 29) < 1e-12 ? 0 : 1;
}
