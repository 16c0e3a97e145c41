// SPDX-License-Identifier: Apache-2.0
// All-reduce among threads by reductions that are chosen at run time. In turn with it, the same by
// a reducer that is chosen at compile time. `times_compiled`: ratio of the medians; `of_pairs`:
// median of the ratios of the fastest calls of each turn, which other load disturbs less.

#include <blink/collectives.hpp>
#include <blink/reducers/accumulate_in.hpp>
#include <blink/reducers/operation_of.hpp>

#include "median.hpp"
#include "timed_calls.hpp"
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace {

// The seconds of calls of all ranks together.
template <class T, class Reducer>
std::vector<double> seconds_of(blink::thread_ranks& threads, std::size_t count, int calls,
                               Reducer const& reduce) {
  std::vector<double> result;
  threads.run([&](auto& comm) {
    std::vector<T> const input(count, static_cast<T>(1.0F));
    std::vector<T> output(count, static_cast<T>(0.0F));
    blink_bench::time_calls(
        comm, calls, result, [] {}, [&] { blink::all_reduce(comm, input, output, reduce); });
  });
  return result;
}

// Arguments: ranks; bytes of the buffer.
template <class T, class Reducer>
void all_reduce_in_turn(benchmark::State& state, Reducer const& reduce, blink::operation what) {
  constexpr int turns = 20;
  constexpr int warm_up = 4;  // ways to store results are measured first
  auto const count = static_cast<std::size_t>(state.range(1)) / sizeof(T);
  int const calls = state.range(1) > (1 << 20) ? 12 : 300;
  // Two sets of ranks, because each finds its own way to store results.
  blink::thread_ranks compiled_ranks(static_cast<int>(state.range(0)));
  blink::thread_ranks chosen_ranks(static_cast<int>(state.range(0)));
  auto const fastest = [](std::vector<double> const& all) {
    return *std::min_element(all.begin(), all.end());
  };
  std::vector<double> compiled, chosen, ratios;
  for (auto _ : state) {
    for (int turn = 0; turn < turns; ++turn) {
      auto const a = seconds_of<T>(compiled_ranks, count, calls, reduce);
      auto const b = seconds_of<T>(chosen_ranks, count, calls, blink::operation_of<T>(what));
      if (turn < warm_up) continue;
      compiled.insert(compiled.end(), a.begin(), a.end());
      chosen.insert(chosen.end(), b.begin(), b.end());
      ratios.push_back(fastest(b) / fastest(a));
    }
    state.SetIterationTime(blink_bench::median(chosen));
  }
  state.counters["compiled_us"] = blink_bench::median(compiled) * 1e6;
  state.counters["times_compiled"] = blink_bench::median(chosen) / blink_bench::median(compiled);
  state.counters["of_pairs"] = blink_bench::median(ratios);
}

void sum_of_float(benchmark::State& state) {
  all_reduce_in_turn<float>(state, blink::sum{}, blink::operation::sum);
}
void sum_of_double(benchmark::State& state) {
  all_reduce_in_turn<double>(state, blink::sum{}, blink::operation::sum);
}
void sum_of_bfloat16(benchmark::State& state) {
  all_reduce_in_turn<blink::bfloat16>(state, blink::accumulate_in<float>(blink::sum{}),
                                      blink::operation::sum);
}
void average_of_float(benchmark::State& state) {
  all_reduce_in_turn<float>(state, blink::avg{}, blink::operation::average);
}

void sizes(benchmark::internal::Benchmark* all) {
  all->ArgsProduct({{2}, {1 << 10, 64 << 10, 1 << 20, 25 << 20}})
      ->UseManualTime()
      ->Iterations(1)
      ->Unit(benchmark::kMicrosecond);
}
BENCHMARK(sum_of_float)->Apply(sizes);
BENCHMARK(sum_of_double)->Apply(sizes);
BENCHMARK(sum_of_bfloat16)->Apply(sizes);
BENCHMARK(average_of_float)->Apply(sizes);

}  // namespace

BENCHMARK_MAIN();
