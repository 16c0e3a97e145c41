// SPDX-License-Identifier: Apache-2.0
// Different algorithms for small and large buffers: measured once, kept in a file, used by calls.
#include <blink/collectives.hpp>
#include <blink/collectives/prepared_tuning.hpp>
#include <blink/collectives/tune.hpp>
#include <blink/schedule/default_tuning.hpp>
#include <blink/schedule/tuning_file.hpp>

#include <cstdio>
#include <vector>

int main() {
  constexpr int ranks = 2;
  blink::tuning_options quick;
  quick.last_bytes = 1 << 16;
  quick.calls = 5;
  blink::thread_ranks threads(ranks);
  threads.run([&](auto& comm) {
    auto const kind = blink::collective::all_reduce;
    auto const found = blink::tune(comm, kind, blink::default_algorithms(kind, ranks), quick);
    auto const text = blink::write_tuning({found.table});  // to a file, for the next run
    blink::prepared_tuning const algorithms(comm, blink::read_tuning(text, "methods.json"));
    for (std::size_t const count : {2U, 2000U, 200'000U}) {
      std::vector<float> data(count, static_cast<float>(comm.rank() + 1));
      blink::all_reduce(comm, algorithms, data.data(), data.data(), count, blink::sum{});
      auto const& range = blink::range_of(found.table, count * sizeof(float));
      if (comm.rank() == 0) {
        std::printf("%7zu floats, %s: %g\n", count,
                    found.table.algorithms[range.algorithm].name.c_str(), data[0]);
      }
    }
  });
}
