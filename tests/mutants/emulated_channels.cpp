// SPDX-License-Identifier: Apache-2.0
// Detects planted ordering bugs in collectives within kernels. Emulated blocks of three threads run
// under ThreadSanitizer. They fill the input, call and check the output in turn, with no barrier of
// their own. There are two channels, more chunks than slots, and several launches. Exits with 0 if
// nothing was noticed.

#include <blink/reducers/arithmetic.hpp>
#include <blink/running/walk/choose_protocol.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/transports/cuda/ranks/device_ranks.hpp>
#include <blink/transports/cuda/runtime/peer_memory.hpp>

#include "support/device_case.hpp"
#include "support/emulated_devices.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <vector>

namespace {

constexpr int ranks = 3;
constexpr std::uint32_t channels = 2, calls_each = 8;
constexpr std::size_t most = 300;

BLINK_HOST_DEVICE int value_of(int rank, std::uint32_t call, std::size_t e) {
  return static_cast<int>((static_cast<std::uint32_t>(e) + 7919 * call) * (rank + 1) % 1000003);
}

/// Sums over all ranks, one block for each channel.
struct calling_kernel {
  int* input = nullptr;   // by channel
  int* output = nullptr;  // by channel
  blink::counter* wrong = nullptr;
  std::uint32_t round = 0;

  template <class Group, class Channels>
  BLINK_HOST_DEVICE void operator()(Group const group, Channels const& own,
                                    std::uint32_t channel) const {
    int* const in = input + channel * most;
    int* const out = output + channel * most;
    for (std::uint32_t k = 0; k < calls_each; ++k) {
      std::uint32_t const call = (round * calls_each + k) * channels + channel;
      std::size_t const count = (call * 37 + 291) % most + 1;
      for (std::size_t e = group.thread_rank(); e < count; e += group.size()) {
        in[e] = value_of(own.rank(), call, e);
      }
      if (own.run(group, channel, in, out, count, blink::sum{}) != blink::status::ok) return;
      for (std::size_t e = group.thread_rank(); e < count; e += group.size()) {
        std::size_t const other = count - 1 - e;  // usually written by another thread
        int expected = 0;
        for (int rank = 0; rank < ranks; ++rank) expected += value_of(rank, call, other);
        if (out[other] != expected) blink::publish(*wrong, 1);
      }
    }
  }
};

/// Launches in one communicator; throws the error of a failed call.
template <class Protocol>
void run(std::vector<int>& memory, blink::counter& wrong) {
  blink_test::emulated_devices machine({.devices = 2, .threads_each = 3});
  auto options = blink_test::options_in_vectors({0, 1, 1});
  options.window = 2;
  options.slot_bytes = 128;
  options.packet_slot_bytes = 2048;  // all data that a task sends has to fit
  options.deadline = std::chrono::seconds(5);
  blink::basic_device_ranks<blink_test::emulated_devices, blink::slot_peer_transport,
                            blink::fixed_protocol<blink::whole_chunks>>
      all(machine, options);
  auto const made = all.prepare_channels<int, Protocol>(
      blink::chain_schedule(ranks, 0),
      {.kind = blink::collective::all_reduce, .most_count = most, .channels = channels});
  for (std::uint32_t round = 0; round < 5; ++round) {
    std::vector<calling_kernel> kernels;
    for (int rank = 0; rank < ranks; ++rank) {
      int* const own = memory.data() + static_cast<std::size_t>(rank) * 2 * channels * most;
      kernels.push_back({own, own + channels * most, &wrong, round});
    }
    all.launch(made, kernels, {.blocks = channels, .threads = 96});
    all.wait();
  }
}

}  // namespace

int main() {
  std::vector<int> memory(2 * ranks * channels * most);
  blink::counter wrong = 0;
  try {
    run<blink::whole_chunks>(memory, wrong);
    run<blink::small_packets>(memory, wrong);
  } catch (std::exception const& failure) {
    std::printf("%s\n", failure.what());
    return 1;
  }
  if (blink::observe(wrong) != 0) std::printf("wrong sums\n");
  return blink::observe(wrong) == 0 ? 0 : 1;
}
