// SPDX-License-Identifier: Apache-2.0
// All-reduce of 24 blocks of floats in their own order among threads. Beside it, in one run, each
// rank adds its blocks in a loop and an all-reduce follows. `times_plain`: ratio of the medians.

#include <blink/collectives.hpp>
#include <blink/collectives/all_reduce_blocks.hpp>

#include "median.hpp"
#include "timed_calls.hpp"
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace {

constexpr std::size_t blocks = 24;

// Arguments: ranks; bytes of the result.
void ordered_all_reduce(benchmark::State& state) {
  auto const ranks = static_cast<std::size_t>(state.range(0));
  auto const count = static_cast<std::size_t>(state.range(1)) / sizeof(float);
  blink::thread_ranks threads(static_cast<int>(ranks));
  std::vector<double> plain, ordered;
  for (auto _ : state) {
    threads.run([&](auto& comm) {
      auto const own = blocks / ranks;
      std::vector<float> const input(own * count, 1.0F + static_cast<float>(comm.rank()));
      std::vector<float> sums(count), output(count);
      auto const time = [&](std::vector<double>& into, auto const& call) {
        blink_bench::time_calls(comm, 51, into, [] {}, call);
      };
      time(plain, [&] {
        constexpr std::size_t row = 512;
        for (std::size_t at = 0; at < count; at += row) {
          auto const end = std::min(count, at + row);
          for (std::size_t i = at; i < end; ++i) sums[i] = input[i];
          for (std::size_t b = 1; b < own; ++b) {
            for (std::size_t i = at; i < end; ++i) sums[i] += input[b * count + i];
          }
        }
        blink::all_reduce(comm, sums, output);
      });
      time(ordered, [&] { blink::all_reduce_blocks(comm, input, output, blocks); });
    });
    state.SetIterationTime(blink_bench::median(ordered));
  }
  state.counters["plain_us"] = blink_bench::median(plain) * 1e6;
  state.counters["ordered_us"] = blink_bench::median(ordered) * 1e6;
  state.counters["times_plain"] = blink_bench::median(ordered) / blink_bench::median(plain);
}

BENCHMARK(ordered_all_reduce)
    ->ArgsProduct({{2, 3, 4}, {64 << 10, 4 << 20}})
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
