// SPDX-License-Identifier: Apache-2.0
#include <blink/collectives.hpp>

double largest_of(blink::thread_world& world);

double largest_of(blink::thread_world& world) {
  double result = 0;
  world.run([&](auto& me) {
    double mine = me.rank();
    double largest = 0;
    blink::reduce(me, blink::binomial_schedule(me.rank_count(), 0), &mine, &largest, 1,
                  blink::max{});
    if (me.rank() == 0) result = largest;
  });
  return result;
}
