// SPDX-License-Identifier: Apache-2.0
// Send and receive in any order: a ring in which every rank sends first and no rank blocks.
#include <blink/collectives.hpp>
#include <blink/collectives/exchange.hpp>

#include <cstdio>
#include <vector>

int main() {
  constexpr int ranks = 4;
  blink::thread_ranks threads(ranks);
  threads.run([&](auto& comm) {
    int const next = (comm.rank() + 1) % ranks;
    int const previous = (comm.rank() + ranks - 1) % ranks;
    std::vector<double> const mine(100, comm.rank());
    std::vector<double> theirs(100);
    int const note = 10 * comm.rank();
    int heard = 0;
    blink::transfers list;
    list.send(next, mine.data(), mine.size());
    list.receive(previous, theirs.data(), theirs.size());
    list.send(previous, &note, 1);  // another type, in the other direction
    list.receive(next, &heard, 1);
    blink::exchange(comm, list);
    if (comm.rank() == 0) std::printf("rank 0 has %g from 3 and %d from 1\n", theirs[50], heard);
  });
}
