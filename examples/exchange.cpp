// SPDX-License-Identifier: Apache-2.0
// Send and receive in any order: a ring in which everybody sends first, and nobody blocks.
#include <blink/collectives.hpp>
#include <blink/collectives/exchange.hpp>

#include <cstdio>
#include <vector>

int main() {
  constexpr int ranks = 4;
  blink::thread_world world(ranks);
  auto& ways = world.prepare(blink::all_to_all_schedule(ranks));
  world.run([&](auto& me) {
    int const next = (me.rank() + 1) % ranks;
    int const previous = (me.rank() + ranks - 1) % ranks;
    std::vector<double> const mine(100, me.rank());
    std::vector<double> theirs(100);
    int const note = 10 * me.rank();
    int heard = 0;
    blink::transfers list;
    list.send(next, mine.data(), mine.size());
    list.receive(previous, theirs.data(), theirs.size());
    list.send(previous, &note, 1);  // of another type, the other way
    list.receive(next, &heard, 1);
    blink::exchange(me, ways, list);
    if (me.rank() == 0) std::printf("rank 0 has %g from 3 and %d from 1\n", theirs[50], heard);
  });
}
