// SPDX-License-Identifier: Apache-2.0
// Calls without a schedule among many more threads than cores. `times_barrier` is the ratio of the
// medians of a call with the barrier around it and of `std::barrier` alone, in one run. `first_s`
// is the first call, which makes schedules and connections.

#include <blink/collectives.hpp>

#include "median.hpp"
#include <benchmark/benchmark.h>

#include <barrier>
#include <chrono>
#include <cstddef>
#include <vector>

namespace {

// Arguments: ranks; floats.
void all_reduce_among_threads(benchmark::State& state) {
  auto const ranks = static_cast<int>(state.range(0));
  auto const count = static_cast<std::size_t>(state.range(1));
  blink::thread_ranks threads(ranks);
  std::barrier<> plain(ranks);
  std::vector<double> first, calls, barriers;
  for (auto _ : state) {
    threads.run([&](auto& comm) {
      using clock = std::chrono::steady_clock;
      auto const time = [&](std::vector<double>& into, int rounds, auto const& call) {
        for (int round = 0; round < rounds; ++round) {
          plain.arrive_and_wait();
          auto const start = clock::now();
          call();
          plain.arrive_and_wait();
          std::chrono::duration<double> const passed = clock::now() - start;
          if (comm.rank() == 0) into.push_back(passed.count());
        }
      };
      std::vector<float> data(count, 0.0F);
      time(first, 1, [&] { blink::all_reduce(comm, data); });
      time(calls, 11, [&] { blink::all_reduce(comm, data); });
      time(barriers, 11, [] {});
    });
    state.SetIterationTime(blink_bench::median(calls));
  }
  state.counters["first_s"] = blink_bench::median(first);
  state.counters["call_ms"] = blink_bench::median(calls) * 1e3;
  state.counters["barrier_ms"] = blink_bench::median(barriers) * 1e3;
  state.counters["times_barrier"] = blink_bench::median(calls) / blink_bench::median(barriers);
}

BENCHMARK(all_reduce_among_threads)
    ->ArgsProduct({{16, 64, 256, 1024}, {1, 1024, 65536}})
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
