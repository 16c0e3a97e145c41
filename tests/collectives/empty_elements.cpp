// SPDX-License-Identifier: Apache-2.0
// Elements without a value, compiled with all warnings.

#include <blink/collectives.hpp>

struct empty {};
struct first {
  empty operator()(empty const& a, empty const&) const { return a; }
};

int main() {
  blink::thread_ranks ranks(2);
  ranks.run([](auto& comm) {
    empty input[4];
    empty output[4];
    blink::all_reduce(comm, input, output, 4, first{});
  });
}
