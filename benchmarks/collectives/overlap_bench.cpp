// SPDX-License-Identifier: Apache-2.0
// The part of an all-reduce of 4 MiB among two threads that overlaps with other work between its
// start and its wait. The work takes four times as long as the call alone. There are three kinds of
// `work`:
// - 0: each rank computes on its own core;
// - 1: each rank waits for a computation elsewhere, as on a GPU;
// - 2: the ranks share one core, and their progress threads have another, as on a machine with more
//   cores than computing ranks.
//
// Times are from the first rank's entry to the last one's return. `hidden` = (work + call - both
// together) / call, from medians of this run: 1 if the call adds no time, 0 if it adds as much as a
// blocking one. `tests` is the number of tests of each rank meanwhile. A progress thread of each
// rank needs a core: if ranks compute on all cores, nothing can be hidden.

#include <blink/collectives.hpp>
#include <blink/collectives/call_queue.hpp>

#include "bind_to_core.hpp"
#include "median.hpp"
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace {

using clock_type = std::chrono::steady_clock;
using seconds = std::chrono::duration<double>;

constexpr int ranks = 2;
constexpr std::size_t elements = std::size_t{1} << 20;
constexpr int rounds = 31;

/// Steps of a computation that needs only its core.
void compute(std::uint64_t steps) {
  std::uint64_t state = 1;
  for (std::uint64_t k = 0; k < steps; ++k) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    benchmark::DoNotOptimize(state);
  }
}

double steps_per_second() {
  constexpr std::uint64_t steps = 20'000'000;
  auto const start = clock_type::now();
  compute(steps);
  return static_cast<double>(steps) / seconds(clock_type::now() - start).count();
}

enum class place { own_core, elsewhere, shared_core };

void work(double of_seconds, place where, double speed) {
  if (where == place::elsewhere) {
    std::this_thread::sleep_for(seconds(of_seconds));
  } else {
    compute(static_cast<std::uint64_t>(of_seconds * speed));
  }
}

// Arguments: a progress thread; place of the work; tests of each rank while it works.
void overlap(benchmark::State& state) {
  auto const how = state.range(0) != 0 ? blink::progress::thread : blink::progress::in_waits;
  auto const where = static_cast<place>(state.range(1));
  auto const tests = static_cast<int>(state.range(2));
  double const speed = steps_per_second();
  auto const cores = blink_bench::allowed_cores();
  bool const share = where == place::shared_core;  // the progress threads use the other one
  blink::communicator_options options;
  if (share) options.waits.spins = 2;
  blink::thread_ranks threads(ranks, options);
  auto& prepared = threads.prepare(blink::star_schedule(ranks));
  std::vector<double> alone, worked, together;
  std::array<clock_type::time_point, ranks> begun, ended;  // by rank: on one core not simultaneous
  for (auto _ : state) {
    threads.run([&](auto& comm) {
      std::vector<float> data(elements), sum(elements);
      if (share) blink_bench::bind_to_core(1, cores);
      blink::call_queue queue(comm, how);  // its thread is bound as this one is
      if (share) blink_bench::bind_to_core(comm.rank(), cores);
      auto call =
          queue.make(blink::collective::all_reduce, prepared,
                     static_cast<float const*>(data.data()), sum.data(), elements, blink::sum{});
      auto const time = [&](std::vector<double>& into, auto const& body) {
        for (int round = 0; round < rounds; ++round) {
          std::fill(data.begin(), data.end(), static_cast<float>(round));
          blink::barrier(comm);
          auto const own = static_cast<std::size_t>(comm.rank());
          begun[own] = clock_type::now();
          body();
          ended[own] = clock_type::now();
          blink::barrier(comm);
          if (own != 0) continue;
          into.push_back(
              seconds(std::max(ended[0], ended[1]) - std::min(begun[0], begun[1])).count());
        }
      };
      time(alone, [&] {
        blink::all_reduce(comm, prepared, static_cast<float const*>(data.data()), sum.data(),
                          elements, blink::sum{});
      });
      blink::barrier(comm);
      double const length = 4 * blink_bench::median(alone) / (share ? ranks : 1);
      if (share) blink_bench::bind_to_core(0, cores);
      auto const all_of_it = [&](auto const& between) {
        for (int part = 0; part <= tests; ++part) {
          work(length / (tests + 1), where, speed);
          between();
        }
      };
      time(worked, [&] { all_of_it([] {}); });
      time(together, [&] {
        call.start();
        if (share) std::this_thread::yield();  // so that the other rank also starts
        all_of_it([&] {
          if (tests > 0) (void)call.test();
        });
        call.wait();
      });
    });
    state.SetIterationTime(blink_bench::median(together));
  }
  double const call_alone = blink_bench::median(alone);
  state.counters["call_us"] = call_alone * 1e6;
  state.counters["work_us"] = blink_bench::median(worked) * 1e6;
  state.counters["together_us"] = blink_bench::median(together) * 1e6;
  state.counters["hidden"] =
      (blink_bench::median(worked) + call_alone - blink_bench::median(together)) / call_alone;
}

BENCHMARK(overlap)
    ->ArgNames({"thread", "work", "tests"})
    ->ArgsProduct({{1, 0}, {0, 1, 2}, {0}})
    ->Args({0, 0, 100})  // not for work elsewhere: a sleep cannot be that short
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
