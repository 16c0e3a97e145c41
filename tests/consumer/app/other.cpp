// SPDX-License-Identifier: Apache-2.0
#include <blink/collectives.hpp>

#include <cmath>

double length_of(blink::thread_ranks& threads);

namespace {

/// A reducer of one's own, of which compilers make no vectors.
struct hypotenuse {
  double operator()(double a, double b) const { return std::hypot(a, b); }
};

}  // namespace

double length_of(blink::thread_ranks& threads) {
  double result = 0;
  threads.run([&](auto& comm) {
    double mine = comm.rank() + 2;  // 2, 3, 4: the length is the root of 29
    double length = 0;
    blink::reduce(comm, blink::binomial_schedule(comm.rank_count(), 0), &mine, &length, 1,
                  hypotenuse{});
    if (comm.rank() == 0) result = length;
  });
  return result;
}
