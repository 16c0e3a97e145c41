// SPDX-License-Identifier: Apache-2.0
// A message from one rank to another and back, by `send` and `receive` beside `exchange`. The ranks
// are two threads, or two processes of one host. `half_us` is the median of half a round trip.
//
// `exchange` is a collective: in each of its calls both ranks also compare what they call.

#include <blink/collectives.hpp>
#include <blink/collectives/exchange.hpp>
#include <blink/collectives/point_to_point.hpp>
#include <blink/transports/host/process_messengers.hpp>
#include <blink/transports/host/processes.hpp>
#include <blink/transports/host/thread_messengers.hpp>

#include "bind_to_core.hpp"
#include "median.hpp"
#include "support/forked_ranks.hpp"
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace {

enum class way { messages, exchange };

/// Returns the median seconds of half a round trip; of rank 0.
template <class Comm>
double ping_pong(Comm& comm, way how, std::size_t bytes) {
  using clock = std::chrono::steady_clock;
  std::vector<char> data(bytes, 'x');
  auto& prepared = comm.prepare(blink::all_to_all_schedule(2));
  int const rounds = bytes > 100'000 ? 500 : 20'000;
  auto const pass = [&](int from) {
    bool const sends = comm.rank() == from;
    if (how == way::messages) {
      if (sends) {
        blink::send(comm, 1 - from, data.data(), bytes);
      } else {
        blink::receive(comm, from, data.data(), bytes);
      }
    } else {
      blink::transfers list;
      if (sends) {
        list.send(1 - from, data.data(), bytes);
      } else {
        list.receive(from, data.data(), bytes);
      }
      blink::exchange(comm, prepared, list);
    }
  };
  std::vector<double> halves;
  for (int round = 0; round < rounds; ++round) {
    auto const start = clock::now();
    pass(0);
    pass(1);
    std::chrono::duration<double> const passed = clock::now() - start;
    if (round >= rounds / 10) halves.push_back(passed.count() / 2);
  }
  return blink_bench::median(halves);
}

// Arguments: 0 for messages, 1 for exchange; bytes.
void among_threads(benchmark::State& state) {
  auto const cores = blink_bench::allowed_cores();
  double half = 0;
  for (auto _ : state) {
    blink::thread_ranks threads(2);
    threads.run([&](auto& comm) {
      blink_bench::bind_to_core(comm.rank(), cores);
      double const own = ping_pong(comm, static_cast<way>(state.range(0)),
                                   static_cast<std::size_t>(state.range(1)));
      if (comm.rank() == 0) half = own;
    });
    state.SetIterationTime(half);
  }
  state.counters["half_us"] = half * 1e6;
}

void among_processes(benchmark::State& state) {
  auto const cores = blink_bench::allowed_cores();
  double half = 0;
  for (auto _ : state) {
    blink_test::forked_ranks ranks(2);
    ranks.start([&](int rank) {
      blink_bench::bind_to_core(rank, cores);
      blink::process_communicator comm(ranks.path(), rank);
      return std::to_string(1e9 * ping_pong(comm, static_cast<way>(state.range(0)),
                                            static_cast<std::size_t>(state.range(1))));
    });
    auto const text = ranks.finish().front().text;
    if (text.starts_with("threw")) {
      state.SkipWithError(text.c_str());
      return;
    }
    half = std::stod(text) * 1e-9;
    state.SetIterationTime(half);
  }
  state.counters["half_us"] = half * 1e6;
}

void arguments(benchmark::internal::Benchmark* all) {
  all->ArgNames({"exchange", "bytes"})
      ->ArgsProduct({{0, 1}, {8, 2048, 65536, 1 << 20, 16 << 20}})
      ->UseManualTime()
      ->Iterations(1)
      ->Unit(benchmark::kMicrosecond);
}
BENCHMARK(among_threads)->Apply(arguments);
BENCHMARK(among_processes)->Apply(arguments);

}  // namespace

BENCHMARK_MAIN();
