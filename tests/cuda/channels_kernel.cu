// SPDX-License-Identifier: Apache-2.0
// Collectives called from the user's own kernel, on virtual ranks of one GPU. Blocks and parts of
// four warps call repeatedly, by chunks and by packets; one block does not call. Exits with 77,
// "skipped", without a GPU.

#include <blink/reducers/arithmetic.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/warps.cuh>
#include <blink/schedule/default_schedules.hpp>
#include <blink/transports/cuda.cuh>

#include "on_gpu.cuh"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace channels_test {

constexpr int ranks = 4;
constexpr std::uint32_t threads = 256;

/// One buffer of each rank.
class rank_memory {
 public:
  explicit rank_memory(std::size_t count) : data_(ranks * count), count_(count) {}
  [[nodiscard]] float* of(std::size_t rank) const { return data_.data() + rank * count_; }
  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  gpu_test::managed<float> data_;
  std::size_t count_;
};

/// Sums in place, `calls` times in each channel; by blocks, or by parts of `Warps` warps.
template <std::uint32_t Warps>
struct summing {
  float* data;        ///< `count` elements of each channel
  std::size_t count;  ///< the calls of channel c have c elements fewer
  std::uint32_t calls;
  std::uint32_t silent_channel;  ///< the channel that is not called; ~0: none

  template <class Group, class Channels>
  BLINK_HOST_DEVICE void operator()(Group const group, Channels const& all,
                                    std::uint32_t block) const {
    if constexpr (Warps == 0) {
      sum_up(group, all, block);
    } else {
      auto const part = part_of<Warps>(group);
      sum_up(part, all, block * part.count() + part.index());
    }
  }

 private:
  template <class Group, class Channels>
  BLINK_HOST_DEVICE void sum_up(Group const group, Channels const& all,
                                std::uint32_t channel) const {
    if (channel == silent_channel) return;
    float* const own = data + channel * count;
    for (std::uint32_t call = 0; call < calls; ++call) {
      auto const end = all.run(group, channel, own, own, count - channel, blink::sum{});
      if (end != blink::status::ok) return;
    }
  }
};

template <std::uint32_t Warps>
std::vector<summing<Warps>> kernels_of(rank_memory const& all, std::size_t count,
                                       std::uint32_t calls) {
  std::vector<summing<Warps>> result;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t k = 0; k < all.count(); ++k) {
      all.of(rank)[k] = static_cast<float>(rank + k % 5);
    }
    result.push_back({all.of(rank), count, calls, ~std::uint32_t{0}});
  }
  return result;
}

/// The number of wrong elements after two launches of two calls each.
template <std::uint32_t Warps, class Protocol>
std::size_t sum_in_channels(blink::device_ranks& all_ranks, std::size_t count) {
  constexpr std::uint32_t blocks = 6, parts = Warps == 0 ? 1 : threads / 32 / Warps;
  constexpr std::uint32_t channels = blocks * parts;
  auto const made = all_ranks.prepare_channels<float, Protocol>(
      blink::ring_schedule(ranks), {.most_count = count, .channels = channels});
  rank_memory const all(channels * count);
  std::size_t wrong = 0;
  for (int launch = 0; launch < 2; ++launch) {
    auto const kernels = kernels_of<Warps>(all, count, 2);
    all_ranks.launch(made, kernels, {.blocks = blocks, .threads = threads});
    all_ranks.wait();
    for (std::size_t k = 0; k < all.count(); ++k) {
      bool const is_summed = k % count < count - k / count;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        float const sum = static_cast<float>(ranks * (ranks - 1) / 2 + ranks * (k % 5));
        float const expected = is_summed ? ranks * sum : static_cast<float>(rank + k % 5);
        wrong += all.of(rank)[k] != expected ? 1 : 0;
      }
    }
  }
  return wrong;
}

/// The error for a block that does not call. Afterwards the communicator has recovered.
std::string error_of_silence(blink::device_ranks& all_ranks) {
  auto const made = all_ranks.prepare_channels<float>(blink::chain_schedule(ranks, 0),
                                                      {.most_count = 100, .channels = 3});
  rank_memory const all(300);
  auto kernels = kernels_of<0>(all, 100, 1);
  kernels[ranks - 1].silent_channel = 1;
  all_ranks.launch(made, kernels, {.blocks = 3, .threads = threads});
  try {
    all_ranks.wait();
  } catch (blink::collective_error const& failure) {
    all_ranks.recover();
    return failure.what();
  }
  return "nothing";
}

int run() {
  blink::device_options options;
  options.devices.assign(ranks, 0);
  options.deadline = std::chrono::seconds(3);
  blink::device_ranks all_ranks(options);
  std::size_t wrong = sum_in_channels<0, blink::whole_chunks>(all_ranks, 20000);
  wrong += sum_in_channels<4, blink::whole_chunks>(all_ranks, 3333);
  wrong += sum_in_channels<0, blink::small_packets>(all_ranks, 700);
  wrong += sum_in_channels<4, blink::small_packets>(all_ranks, 70);
  auto const text = error_of_silence(all_ranks);
  bool const is_named = text.find("in channel 1") != std::string::npos &&
                        text.find("its kernel has made 0 calls") != std::string::npos;
  wrong += sum_in_channels<0, blink::whole_chunks>(all_ranks, 100);
  std::printf("calls from kernels: %zu elements are wrong; a block that does not call: %s\n", wrong,
              text.c_str());
  return wrong == 0 && is_named ? 0 : 1;
}

}  // namespace channels_test

int main() {
  return gpu_test::run_on_gpu(channels_test::run);
}
