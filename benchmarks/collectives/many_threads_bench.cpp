// SPDX-License-Identifier: Apache-2.0
// Calls without a schedule among many more threads than cores. `times_barrier` is the ratio of the
// medians of a call with the barrier at its end and of `std::barrier` alone, in one run.

#include <blink/collectives.hpp>

#include "median.hpp"
#include "timed_calls.hpp"
#include <benchmark/benchmark.h>

#include <barrier>
#include <cstddef>
#include <vector>

namespace {

// Arguments: ranks; floats.
void all_reduce_among_threads(benchmark::State& state) {
  auto const ranks = static_cast<int>(state.range(0));
  auto const count = static_cast<std::size_t>(state.range(1));
  blink::thread_ranks threads(ranks);
  std::barrier<> plain(ranks);
  std::vector<double> calls, barriers;
  for (auto _ : state) {
    threads.run([&](auto& comm) {
      std::vector<float> data(count, 0.0F);
      auto const meet = [&] { plain.arrive_and_wait(); };
      auto const time = [&](std::vector<double>& into, auto const& call) {
        blink_bench::time_calls(comm, 12, into, [] {}, call, meet);
      };
      time(calls, [&] { blink::all_reduce(comm, data); });
      time(barriers, [] {});
    });
    state.SetIterationTime(blink_bench::median(calls));
  }
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
