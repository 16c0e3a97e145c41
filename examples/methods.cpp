// SPDX-License-Identifier: Apache-2.0
// Small buffers go another way than large ones: measured once, kept in a file, used by calls.
#include <blink/collectives.hpp>
#include <blink/collectives/prepared_methods.hpp>
#include <blink/collectives/tune.hpp>
#include <blink/schedule/default_methods.hpp>
#include <blink/schedule/method_file.hpp>

#include <cstdio>
#include <vector>

int main() {
  constexpr int ranks = 2;
  blink::tuning_options quick;
  quick.last_bytes = 1 << 16;
  quick.calls = 5;
  blink::thread_world world(ranks);
  world.run([&](auto& me) {
    auto const kind = blink::collective::all_reduce;
    auto const found = blink::tune(me, kind, blink::default_methods(kind, ranks), quick);
    auto const text = blink::write_methods({found.table});  // to a file, for the next run
    blink::prepared_methods const methods(me, blink::read_methods(text, "methods.json"));
    for (std::size_t const count : {2U, 2000U, 200'000U}) {
      std::vector<float> data(count, static_cast<float>(me.rank() + 1));
      blink::all_reduce(me, methods, data.data(), data.data(), count, blink::sum{});
      auto const& range = blink::range_of(found.table, count * sizeof(float));
      if (me.rank() == 0) {
        std::printf("%7zu floats, %s: %g\n", count, found.table.methods[range.method].name.c_str(),
                    data[0]);
      }
    }
  });
}
