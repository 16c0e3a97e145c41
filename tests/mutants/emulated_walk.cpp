// SPDX-License-Identifier: Apache-2.0
// What a planted ordering bug has to get past: emulated blocks of three threads under ThreadSanitizer,
// many chunks through few slots, and every element compared. 0: nothing was noticed.

#include "support/emulated_blocks.hpp"

#include <cstddef>
#include <cstdio>

namespace {

template <class Protocol>
bool is_right(blink::schedule const& plan) {
  blink_test::emulation how;
  how.block_threads = 3;
  how.slot_bytes = 128;
  how.deadline_nanoseconds = 10'000'000'000;
  blink_test::emulated_device<blink::slot_peer_link, Protocol> device(plan, how);
  for (std::size_t const count : {301U, 64U}) {
    auto const wrong = device.template run<float>(
        {blink::collective::all_reduce, count, false, 0, count}, blink::sum{});
    if (wrong.empty()) continue;
    std::printf("%s\n", wrong.c_str());
    return false;
  }
  return true;
}

}  // namespace

int main() {
  bool right = true;
  for (auto const& plan : {blink::chain_schedule(3, 1), blink::flat_schedule(3, 0)}) {
    right = right && is_right<blink::whole_chunks>(plan) && is_right<blink::small_packets>(plan);
  }
  return right ? 0 : 1;
}
