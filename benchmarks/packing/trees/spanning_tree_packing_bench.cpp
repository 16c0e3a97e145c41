// SPDX-License-Identifier: Apache-2.0
#include <blink/graph/concepts.hpp>
#include <blink/packing/trees/spanning_tree_packing.hpp>

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace {

// Links between the GPUs of a DGX-1V, in the numbering of nvidia-smi.
constexpr int dgx1v[8][8] = {{0, 1, 1, 2, 2, 0, 0, 0}, {1, 0, 2, 1, 0, 2, 0, 0},
                             {1, 2, 0, 2, 0, 0, 1, 0}, {2, 1, 2, 0, 0, 0, 0, 1},
                             {2, 0, 0, 0, 0, 1, 1, 2}, {0, 2, 0, 0, 1, 0, 2, 1},
                             {0, 0, 1, 0, 1, 2, 0, 2}, {0, 0, 0, 1, 2, 1, 2, 0}};

using weighted = std::pair<blink::arc_list, std::vector<std::int64_t>>;

weighted dgx1(bool generation_p) {
  weighted result{{8, {}}, {}};
  for (int a = 0; a < 8; ++a) {
    for (int b = a + 1; b < 8; ++b) {
      int const links = dgx1v[a][b];
      if (links == 0) continue;
      result.first.arcs.push_back({a, b});
      result.second.push_back(generation_p ? 1 : links);
    }
  }
  return result;
}

weighted grid(int side) {
  weighted result{{side * side, {}}, {}};
  for (int v = 0; v < side * side; ++v) {
    if (v % side + 1 < side) result.first.arcs.push_back({v, v + 1});
    if (v + side < side * side) result.first.arcs.push_back({v, v + side});
  }
  result.second.assign(result.first.arcs.size(), 1);
  return result;
}

void report(benchmark::State& state, weighted const& graph,
            blink::spanning_tree_packing_options const& options) {
  blink::spanning_tree_packing packing;
  for (auto _ : state) {
    packing = pack_spanning_trees(graph.first, graph.second, options);
    benchmark::DoNotOptimize(packing);
  }
  state.counters["rate"] = packing.rate.to_double();
  state.counters["trees"] = static_cast<double>(packing.trees.size());
}

/// Argument: tries.
void dgx1_v(benchmark::State& state) {
  blink::spanning_tree_packing_options options;
  options.max_tries = static_cast<std::size_t>(state.range(0));
  report(state, dgx1(false), options);
}
void dgx1_p(benchmark::State& state) {
  blink::spanning_tree_packing_options options;
  options.max_tries = static_cast<std::size_t>(state.range(0));
  report(state, dgx1(true), options);
}
/// The baseline: linear programming.
void dgx1_v_by_program(benchmark::State& state) {
  blink::spanning_tree_packing_options options;
  options.decomposition_vertices = 0;
  report(state, dgx1(false), options);
}
/// Argument: vertices along a side.
void mesh(benchmark::State& state) {
  report(state, grid(static_cast<int>(state.range(0))), {});
}

BENCHMARK(dgx1_v)->Arg(1)->Arg(8)->Arg(64)->Unit(benchmark::kMicrosecond);
BENCHMARK(dgx1_p)->Arg(1)->Arg(8)->Arg(64)->Unit(benchmark::kMicrosecond);
BENCHMARK(dgx1_v_by_program)->Unit(benchmark::kMicrosecond);
BENCHMARK(mesh)->DenseRange(3, 8)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
