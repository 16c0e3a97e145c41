// SPDX-License-Identifier: Apache-2.0
// A reducer of any callable and any trivially copyable type: the largest value and its rank.
#include <blink/collectives.hpp>

#include <cstdio>
#include <vector>

struct place {
  double value;
  int rank;
};

int main() {
  auto const larger = [](place a, place b) {
    return b.value > a.value || (b.value == a.value && b.rank < a.rank) ? b : a;
  };
  blink::thread_ranks threads(5);
  threads.run([&](auto& comm) {
    std::vector<place> mine(3);
    for (int i = 0; i < 3; ++i) {
      mine[static_cast<std::size_t>(i)] = {static_cast<double>((comm.rank() * 7 + i * 3) % 5),
                                           comm.rank()};
    }
    std::vector<place> best(3);
    blink::reduce(comm, mine, best, 0, larger);  // to rank 0
    if (comm.rank() == 0) {
      for (auto const& b : best) std::printf("largest %g at rank %d\n", b.value, b.rank);
    }
  });
}
