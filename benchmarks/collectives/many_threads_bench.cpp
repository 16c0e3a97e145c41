// SPDX-License-Identifier: Apache-2.0
// Calls without a schedule among many more threads than cores. `times_barrier` is the ratio of the
// medians of a call with the barrier at its end and of `std::barrier` alone, in one run.
//
// `first_all_to_all` and `prepare_one_of` are the first all-to-all of all threads, and what one of
// the ranks over messages prepares for it. `peak_mib` is of the whole program: filter one of them.

#include <blink/collectives.hpp>

#include "median.hpp"
#include "timed_calls.hpp"
#include <benchmark/benchmark.h>
#include <sys/resource.h>

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

double peak_mebibytes() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_maxrss) / 1024;
}

void first_all_to_all(benchmark::State& state) {
  auto const ranks = static_cast<int>(state.range(0));
  for (auto _ : state) {
    blink::communicator_options options;
    options.waits.deadline = std::chrono::seconds(300);
    blink::thread_ranks threads(ranks, options);
    threads.run([&](auto& comm) {
      std::vector<int> in(static_cast<std::size_t>(ranks)), out(in.size());
      blink::all_to_all(comm, in, out);
    });
  }
  state.counters["peak_mib"] = peak_mebibytes();
}
void prepare_one_of(benchmark::State& state) {
  blink::connection_layout layout;
  layout.window = 2;
  layout.slot_bytes = 8192;
  layout.only_rank = 1;
  layout.shares_memory = false;
  for (auto _ : state) {
    auto const source = blink::all_to_all_schedule(static_cast<int>(state.range(0)));
    benchmark::DoNotOptimize(blink::prepared_schedule(source, layout, {}));
  }
  state.counters["peak_mib"] = peak_mebibytes();
}
BENCHMARK(first_all_to_all)->Arg(256)->Arg(1024)->Iterations(1)->Unit(benchmark::kSecond);
BENCHMARK(prepare_one_of)->Arg(512)->Iterations(1)->Unit(benchmark::kSecond);

}  // namespace

BENCHMARK_MAIN();
