// SPDX-License-Identifier: Apache-2.0
// All-reduce of floats among threads, beside the ceiling of this memory. For the ceiling, every
// thread sums its slice of all inputs and writes it to all outputs, between two barriers. The
// better of plain and streaming stores counts. `of_ceiling` is the ratio of both times in this run.
//
// Bus bandwidth is nccl-tests' measure: bytes / time * 2 (n - 1) / n.

#include <blink/collectives.hpp>

#include "ceiling.hpp"
#include "median.hpp"
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace {

struct buffers {
  buffers(int ranks, std::size_t count) {
    for (int rank = 0; rank < ranks; ++rank) {
      inputs.push_back(std::make_unique<blink_bench::page_buffer>(count));
      outputs.push_back(std::make_unique<blink_bench::page_buffer>(count));
    }
  }
  std::vector<std::unique_ptr<blink_bench::page_buffer>> inputs, outputs;
};

/// The slice of one rank.
template <int Ranks, bool Streams>
void ceiling_slice(buffers const& all, int rank, std::size_t count) {
  float* in[std::size_t{Ranks}];
  float* out[std::size_t{Ranks}];
  for (std::size_t k = 0; k < Ranks; ++k) {
    in[k] = all.inputs[k]->data();
    out[k] = all.outputs[k]->data();
  }
  blink_bench::sum_slice<Ranks, Ranks, Streams>(in, out,
                                                blink_bench::slice_begin(count, rank, Ranks),
                                                blink_bench::slice_begin(count, rank + 1, Ranks));
}

using clock_type = std::chrono::steady_clock;

double seconds_since(clock_type::time_point start) {
  return std::chrono::duration<double>(clock_type::now() - start).count();
}

/// Seconds of one of `calls` consecutive calls.
template <int Ranks, bool Streams>
double time_ceiling(buffers const& all, std::size_t count, int calls) {
  blink_bench::counting_barrier barrier;
  double result = 0;
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < Ranks; ++rank) {
    threads.emplace_back([&, rank] {
      clock_type::time_point start;
      for (int call = -1; call < calls; ++call) {
        if (call == 0) start = clock_type::now();
        barrier.wait(Ranks);
        ceiling_slice<Ranks, Streams>(all, rank, count);
        barrier.wait(Ranks);
      }
      if (rank == 0) result = seconds_since(start) / calls;
    });
  }
  threads.clear();
  return result;
}

template <int Ranks>
double time_blink(blink::thread_ranks& all_threads, blink::prepared_schedule& prepared,
                  buffers const& all, std::size_t count, int calls) {
  double result = 0;
  all_threads.run([&](auto& comm) {
    auto const rank = static_cast<std::size_t>(comm.rank());
    clock_type::time_point start;
    for (int call = -1; call < calls; ++call) {
      if (call == 0) start = clock_type::now();
      blink::all_reduce(comm, prepared, static_cast<float const*>(all.inputs[rank]->data()),
                        all.outputs[rank]->data(), count, blink::sum{});
    }
    if (comm.rank() == 0) result = seconds_since(start) / calls;
  });
  return result;
}

/// Consecutive calls in one measurement: about 50 ms, at least 3.
int calls_for(std::size_t bytes) {
  return static_cast<int>(std::clamp<std::size_t>((std::size_t{1} << 28) / (bytes + 1), 3, 20000));
}

template <int Ranks>
void all_reduce(benchmark::State& state) {
  auto const bytes = static_cast<std::size_t>(state.range(0));
  auto const count = bytes / sizeof(float);
  buffers const all(Ranks, count);
  blink::thread_ranks all_threads(Ranks);
  auto& prepared = all_threads.prepare(blink::star_schedule(Ranks));
  int const calls = calls_for(bytes);
  std::vector<double> ours, plain, streaming;
  for (auto _ : state) {  // alternating, so that a busy moment affects all
    plain.push_back(time_ceiling<Ranks, false>(all, count, calls));
    streaming.push_back(time_ceiling<Ranks, true>(all, count, calls));
    ours.push_back(time_blink<Ranks>(all_threads, prepared, all, count, calls));
    state.SetIterationTime(ours.back());
  }
  double const best = std::min(blink_bench::median(plain), blink_bench::median(streaming));
  double const mine = blink_bench::median(ours);
  state.counters["us"] = mine * 1e6;
  state.counters["ceiling_us"] = best * 1e6;
  state.counters["of_ceiling"] = best / mine;
  state.counters["busbw_GB/s"] = static_cast<double>(bytes) / mine * 2 * (Ranks - 1) / Ranks * 1e-9;
}

void sizes(benchmark::internal::Benchmark* bench) {
  for (std::int64_t const bytes : {8, 1 << 10, 8 << 10, 64 << 10, 512 << 10, 4 << 20, 64 << 20}) {
    bench->Arg(bytes);
  }
  bench->UseManualTime()->Iterations(7)->Unit(benchmark::kMicrosecond);
}

BENCHMARK(all_reduce<2>)->Apply(sizes);
BENCHMARK(all_reduce<4>)->Apply(sizes);

}  // namespace

BENCHMARK_MAIN();
