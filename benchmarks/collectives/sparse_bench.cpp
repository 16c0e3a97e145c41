// SPDX-License-Identifier: Apache-2.0
// Sparse all-reduce of floats among two threads beside the dense one, in place, in one run. Random
// blocks of 1 KiB at a density, equal buffers, inputs written before every call. `times_dense` is
// the ratio of the medians; `scanned` also searches for the blocks first.

#include <blink/collectives.hpp>
#include <blink/collectives/all_reduce_sparse.hpp>

#include "median.hpp"
#include "timed_calls.hpp"
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace {

constexpr int ranks = 2;
constexpr std::size_t block_elements = 256;

// Arguments: bytes of the buffer; blocks of a rank in ten thousand.
void sparse_all_reduce(benchmark::State& state) {
  auto const count = static_cast<std::size_t>(state.range(0)) / sizeof(float);
  auto const density = static_cast<std::uint64_t>(state.range(1));
  blink::thread_ranks threads(ranks);
  auto& prepared = threads.prepare(blink::star_schedule(ranks));
  std::vector<double> dense, sparse, scanned;
  std::size_t elements = 0;
  for (auto _ : state) {
    threads.run([&](auto& comm) {
      std::mt19937_64 random(static_cast<std::uint64_t>(comm.rank()) + 1);
      std::vector<float> data(count, 0.0F);
      blink::block_mask own(count, block_elements);
      for (std::size_t block = 0; block < own.block_count(); ++block) {
        if (random() % 10000 < density) own.set(block);
      }
      auto const write = [&] {
        own.for_each([&](std::size_t block) {
          std::fill_n(data.begin() + static_cast<std::ptrdiff_t>(own.begin(block)),
                      own.length(block), 1.0F);
        });
      };
      auto const time = [&](std::vector<double>& into, auto const& call) {
        auto const prepare = [&] {
          std::fill(data.begin(), data.end(), 0.0F);
          write();
        };
        blink_bench::time_calls(comm, 9, into, prepare, call);
      };
      time(dense, [&] {
        blink::all_reduce(comm, prepared, static_cast<float const*>(data.data()), data.data(),
                          count, blink::sum{});
      });
      time(sparse, [&] {
        auto mask = own;
        auto const report =
            blink::all_reduce_sparse(comm, prepared, data.data(), mask, blink::sum{});
        if (comm.rank() == 0) elements = report.elements;
      });
      time(scanned, [&] {
        (void)blink::all_reduce_sparse(comm, prepared, data.data(), count, block_elements,
                                       blink::sum{});
      });
    });
    state.SetIterationTime(blink_bench::median(sparse));
  }
  state.counters["dense_us"] = blink_bench::median(dense) * 1e6;
  state.counters["sparse_us"] = blink_bench::median(sparse) * 1e6;
  state.counters["times_dense"] = blink_bench::median(dense) / blink_bench::median(sparse);
  state.counters["scanned_times_dense"] = blink_bench::median(dense) / blink_bench::median(scanned);
  state.counters["of_elements_%"] =
      100.0 * static_cast<double>(elements) / static_cast<double>(count);
}

BENCHMARK(sparse_all_reduce)
    ->ArgsProduct({{1 << 20, 64 << 20}, {10, 100, 1000, 3000}})
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
