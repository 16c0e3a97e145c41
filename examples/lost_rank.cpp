// SPDX-License-Identifier: Apache-2.0
// Rank 2 leaves. The other ranks get an error, continue without it, and end with the right sum.
#include <blink/collectives.hpp>

#include <cstdio>
#include <vector>

int main() {
  blink::thread_ranks threads(4);
  bool is_right = true;
  threads.run([&](auto& comm) {
    if (comm.rank() == 2) return;
    std::vector<int> const ones(1000, 1);
    std::vector<int> sums(1000);
    try {
      blink::all_reduce(comm, blink::star_schedule(4), ones.data(), sums.data(), 1000,
                        blink::sum{});
    } catch (blink::collective_error const& failure) {
      auto smaller = comm.shrink();
      if (smaller.rank() == 0) std::printf("%s\n", failure.what());
      blink::all_reduce(smaller, blink::star_schedule(smaller.rank_count()), ones.data(),
                        sums.data(), 1000, blink::sum{});
      if (smaller.rank() == 0) is_right = sums[999] == 3;
      if (smaller.rank() == 0) std::printf("%d ranks went on\n", smaller.rank_count());
    }
  });
  return is_right ? 0 : 1;
}
