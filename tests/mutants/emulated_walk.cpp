// SPDX-License-Identifier: Apache-2.0
// Detects planted ordering bugs in walks. Emulated blocks of three threads run under
// ThreadSanitizer. They use slots, packets and peers' buffers, with many chunks through few slots,
// in place or not. Every element is compared, and a rank that has ended overwrites its input. Exits
// with 0 if nothing was noticed.

#include <blink/reducers/epilogue.hpp>

#include "support/emulated_blocks.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

template <class Transport, class Protocol>
bool is_right(blink::schedule const& plan, blink::collective kind) {
  blink_test::emulation how;
  how.block_threads = 3;
  how.slot_bytes = 128;
  how.deadline_nanoseconds = 10'000'000'000;
  how.overwrites_inputs = true;
  blink_test::emulated_device<Transport, Protocol> device(plan, how);
  for (std::size_t const count : {301U, 64U}) {
    for (bool const is_in_place : {false, true}) {
      if (is_in_place && blink::sends_and_receives(kind)) continue;  // from a copy
      auto const wrong =
          device.template run<float>({kind, count, is_in_place, 0, count}, blink::sum{});
      if (wrong.empty()) continue;
      std::printf("%s: %s\n", to_text(kind).data(), wrong.c_str());
      return false;
    }
  }
  return true;
}

/// Reads data that other threads of the block have written.
struct mirror {
  float* kept;
  template <class Group>
  void operator()(Group const group, float const* results, std::uint64_t index,
                  std::size_t count) const {
    for (std::size_t k = group.thread_rank(); k < count; k += group.size()) {
      kept[index + k] = results[count - 1 - k];
    }
  }
};

bool is_right_with_an_epilogue(blink::schedule const& plan) {
  constexpr std::size_t chunk = 16;
  constexpr std::size_t count = 300 * chunk;
  std::vector<float> kept(count);
  blink_test::emulation how;
  how.slot_bytes = chunk * sizeof(float);
  for (how.block_threads = 2; how.block_threads <= 5; ++how.block_threads) {
    blink_test::emulated_device<blink::slot_peer_transport> device(plan, how);
    auto const wrong = device.run<float>({blink::collective::reduce, count, false, 0, 3},
                                         blink::with_epilogue(blink::sum{}, mirror{kept.data()}));
    if (wrong.empty()) continue;
    std::printf("with an epilogue: %s\n", wrong.c_str());
    return false;
  }
  return true;
}

bool all_ways_are_right(blink::schedule const& plan, blink::collective kind) {
  using namespace blink;
  return is_right<slot_peer_transport, whole_chunks>(plan, kind) &&
         is_right<slot_peer_transport, small_packets>(plan, kind) &&
         is_right<reaching_peer_transport, whole_chunks>(plan, kind);
}

}  // namespace

int main() {
  using enum blink::collective;
  bool right = true;
  for (auto const& plan : {blink::chain_schedule(3, 1), blink::flat_schedule(3, 0)}) {
    for (auto const kind : {all_reduce, reduce, broadcast}) {
      right = right && all_ways_are_right(plan, kind);
    }
  }
  right = right && is_right_with_an_epilogue(blink::chain_schedule(3, 1));
  auto const star = blink::star_schedule(3);
  for (auto const kind : {reduce_scatter, all_gather}) {
    right = right && all_ways_are_right(star, kind);
  }
  right = right && all_ways_are_right(blink::all_to_all_schedule(3), all_to_all);
  return right ? 0 : 1;
}
