// SPDX-License-Identifier: Apache-2.0
#include <blink/graph/concepts.hpp>
#include <blink/packing/joint/joint_packing.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace {

using weighted = std::pair<blink::arc_list, std::vector<std::int64_t>>;

/// Random cycles through all vertices. Each edge has capacity 1 or 2; the seed is fixed.
weighted random_cycles(int vertices, int cycles) {
  std::mt19937_64 random(7);
  weighted result{{vertices, {}}, {}};
  std::vector<int> order(static_cast<std::size_t>(vertices));
  std::iota(order.begin(), order.end(), 0);
  for (int c = 0; c < cycles; ++c) {
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t i = 0; i < order.size(); ++i) {
      result.first.arcs.push_back({order[i], order[(i + 1) % order.size()]});
      result.second.push_back(1 + static_cast<std::int64_t>(random() % 2));
    }
  }
  return result;
}

weighted mesh(int side) {
  weighted result{{side * side, {}}, {}};
  auto const join = [&](int a, int b) {
    result.first.arcs.push_back({a, b});
    result.first.arcs.push_back({b, a});
  };
  for (int v = 0; v < side * side; ++v) {
    if (v % side + 1 < side) join(v, v + 1);
    if (v + side < side * side) join(v, v + side);
  }
  result.second.assign(result.first.arcs.size(), 1);
  return result;
}

void report(benchmark::State& state, weighted const& graph) {
  blink::joint_packing packing;
  for (auto _ : state) {
    packing = pack_joint_trees(graph.first, graph.second);
    benchmark::DoNotOptimize(packing);
  }
  state.counters["rate"] = packing.rate.to_double();
  state.counters["trees"] = static_cast<double>(packing.trees.size());
  state.counters["pivots"] = static_cast<double>(packing.pivots);
}

/// Argument: ranks.
void random_directed(benchmark::State& state) {
  report(state, random_cycles(static_cast<int>(state.range(0)), 4));
}
/// Argument: vertices along a side.
void square_mesh(benchmark::State& state) {
  report(state, mesh(static_cast<int>(state.range(0))));
}

BENCHMARK(random_directed)->Arg(4)->Arg(8)->Arg(16)->Unit(benchmark::kMillisecond);
BENCHMARK(square_mesh)->DenseRange(3, 5)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
