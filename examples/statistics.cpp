// SPDX-License-Identifier: Apache-2.0
// Mean and variance of samples that are spread over the ranks, in one pass and one all-reduce.
#include <blink/collectives.hpp>
#include <blink/reducers/moments.hpp>

#include <cstdio>

int main() {
  constexpr int ranks = 4;
  blink::thread_ranks threads(ranks);
  threads.run([](auto& comm) {
    blink::moments<double> mine;  // of this rank's samples: every fourth of 1e9 + 0, 1, 2, …
    for (int sample = comm.rank(); sample < 1000; sample += ranks) mine.add(1e9 + sample);

    blink::moments<double> all;
    blink::all_reduce(comm, blink::binomial_schedule(ranks, 0), &mine, &all, 1,
                      blink::merge_moments{});
    if (comm.rank() == 0) {
      std::printf("%g samples, mean 1e9 + %g, variance %g\n", all.count, all.mean - 1e9,
                  all.variance());
    }
  });
}
