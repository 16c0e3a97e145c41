// SPDX-License-Identifier: Apache-2.0
// Four ranks as threads sum their buffers. The running side alone: no planner, no dependencies.
#include <blink/collectives.hpp>

#include <cstdio>
#include <vector>

int main() {
  constexpr int ranks = 4;
  constexpr std::size_t count = 1'000'000;
  blink::thread_world world(ranks);
  auto const trees = blink::star_schedule(ranks);  // every rank reduces a quarter, then spreads it

  world.run([&](auto& me) {
    std::vector<float> data(count, static_cast<float>(me.rank() + 1));
    blink::all_reduce(me, trees, data.data(), data.data(), count, blink::sum{});
    if (me.rank() == 0) std::printf("1 + 2 + 3 + 4 = %g\n", static_cast<double>(data[count / 2]));
  });
}
