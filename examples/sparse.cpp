// SPDX-License-Identifier: Apache-2.0
// A gradient with few nonzero blocks: ranks agree on them, and reduce only those.
#include <blink/collectives.hpp>
#include <blink/collectives/all_reduce_sparse.hpp>

#include <cstdio>
#include <vector>

int main() {
  constexpr int ranks = 2;
  constexpr std::size_t count = 1 << 20;
  constexpr std::size_t row = 256;  // such as a row of an embedding table
  blink::thread_ranks threads(ranks);
  threads.run([&](auto& comm) {
    std::vector<float> gradient(count, 0.0F);
    blink::block_mask rows(count, row);
    for (std::size_t const touched : {17U, 400U + static_cast<unsigned>(comm.rank())}) {
      rows.set(touched);
      for (std::size_t k = 0; k < row; ++k) gradient[touched * row + k] = 1.0F;
    }
    auto const report = blink::all_reduce_sparse(comm, gradient.data(), rows);
    if (comm.rank() == 0) {
      std::printf("%zu of %zu elements were reduced; row 17 holds %g, row 401 %g\n",
                  report.elements, count, double{gradient[17 * row]}, double{gradient[401 * row]});
    }
  });
}
