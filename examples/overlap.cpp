// SPDX-License-Identifier: Apache-2.0
// Start a sum, compute something else, wait: a thread of the queue moves the data.
#include <blink/collectives.hpp>
#include <blink/collectives/call_queue.hpp>

#include <cstdio>
#include <vector>

int main() {
  blink::thread_ranks threads(2);
  auto& trees = threads.prepare(blink::star_schedule(2));
  threads.run([&](auto& comm) {
    std::vector<float> const gradient(1 << 20, static_cast<float>(comm.rank() + 1));
    std::vector<float> sum(gradient.size());
    blink::call_queue queue(comm, blink::progress::thread);
    // Checked and planned once, started any number of times.
    auto all_reduce = queue.make(blink::collective::all_reduce, trees, gradient.data(), sum.data(),
                                 sum.size(), blink::sum{});
    double pi = 0;
    for (int step = 0; step < 3; ++step) {
      all_reduce.start();
      pi = 0;
      for (int k = 0; k < 1000000; ++k) pi += (k % 2 == 0 ? 4.0 : -4.0) / (2 * k + 1);
      all_reduce.wait();
    }
    if (comm.rank() == 0) std::printf("1 + 2 = %g, pi is about %.4f\n", double{sum[7]}, pi);
  });
}
