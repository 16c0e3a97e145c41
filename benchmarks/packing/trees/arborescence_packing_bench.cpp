// SPDX-License-Identifier: Apache-2.0
// Exact packings of arborescences with their optimum: complete plans of broadcast and all-gather.
#include <blink/graph/max_flow.hpp>
#include <blink/packing/trees/all_gather_rate.hpp>
#include <blink/packing/trees/arborescence_packing.hpp>

#include <benchmark/benchmark.h>
#include <support/random_graphs.hpp>
#include <support/small_machines.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace {

using namespace blink;

test::random_graph direct(std::vector<std::vector<std::int64_t>> const& matrix) {
  test::random_graph g{{static_cast<int>(matrix.size()), {}}, {}};
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    for (std::size_t j = 0; j < matrix.size(); ++j) {
      if (matrix[i][j] == 0) continue;
      g.graph.arcs.push_back({static_cast<int>(i), static_cast<int>(j)});
      g.capacity.push_back(matrix[i][j]);
    }
  }
  return g;
}

/// A side x side torus with one link in each direction.
test::random_graph torus(int side) {
  test::random_graph g{{side * side, {}}, {}};
  for (int v = 0; v < side * side; ++v) {
    int const right = v / side * side + (v + 1) % side;
    int const down = (v + side) % (side * side);
    for (int const next : {right, down}) {
      g.graph.arcs.push_back({v, next});
      g.graph.arcs.push_back({next, v});
      g.capacity.insert(g.capacity.end(), {1, 1});
    }
  }
  return g;
}

test::random_graph hypercube(int vertices) {
  test::random_graph g{{vertices, {}}, {}};
  for (int v = 0; v < vertices; ++v) {
    for (int bit = 1; bit < vertices; bit *= 2) {
      g.graph.arcs.push_back({v, v ^ bit});
      g.capacity.push_back(1);
    }
  }
  return g;
}

int height(arc_list const& graph, std::vector<packed_arborescence> const& packing) {
  int result = 0;
  for (auto const& t : packing) {
    std::vector<int> depth(static_cast<std::size_t>(graph.vertex_count), 0);
    for (int const e : t.edges) {
      auto const& a = graph.arcs[static_cast<std::size_t>(e)];
      auto& d = depth[static_cast<std::size_t>(a.head)];
      d = depth[static_cast<std::size_t>(a.tail)] + 1;
      result = std::max(result, d);
    }
  }
  return result;
}

std::vector<int> all_of(arc_list const& graph) {
  std::vector<int> result(static_cast<std::size_t>(graph.vertex_count));
  std::iota(result.begin(), result.end(), 0);
  return result;
}

void report(benchmark::State& state, arc_list const& graph,
            std::vector<packed_arborescence> const& packing) {
  state.counters["trees"] = static_cast<double>(packing.size());
  state.counters["height"] = height(graph, packing);
}

void broadcast(benchmark::State& state, test::random_graph const& g, int root) {
  auto const ranks = all_of(g.graph);
  std::vector<packed_arborescence> packing;
  for (auto _ : state) {
    auto const rate = rooted_connectivity(g.graph, g.capacity, root, ranks).value;
    packing = pack_arborescences(g.graph, g.capacity, {{root, rate}});
    benchmark::DoNotOptimize(packing);
  }
  report(state, g.graph, packing);
}

void all_gather(benchmark::State& state, test::random_graph const& g) {
  auto const ranks = all_of(g.graph);
  std::vector<packed_arborescence> packing;
  for (auto _ : state) {
    auto const rate = all_gather_rate(g.graph, g.capacity, ranks).rate_per_root;
    auto scaled = g.capacity;
    auto divisor = rate.numerator();
    for (auto& c : scaled) divisor = std::gcd(divisor, c *= rate.denominator());
    for (auto& c : scaled) c /= divisor;
    std::vector<root_demand> demands;
    for (int const v : ranks) demands.push_back({v, rate.numerator() / divisor});
    packing = pack_arborescences(g.graph, scaled, demands);
    benchmark::DoNotOptimize(packing);
  }
  report(state, g.graph, packing);
}

void optimum(benchmark::State& state, test::random_graph const& g) {
  auto const ranks = all_of(g.graph);
  for (auto _ : state) benchmark::DoNotOptimize(all_gather_rate(g.graph, g.capacity, ranks));
}

BENCHMARK_CAPTURE(broadcast, dgx1v_root_0, direct(test::dgx1v_matrix(1)), 0)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(broadcast, dgx1v_root_2, direct(test::dgx1v_matrix(1)), 2)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(broadcast, dgx1p_root_0, direct(test::dgx1p_matrix(1)), 0)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(broadcast, torus_4x4, torus(4), 0)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(broadcast, torus_8x8, torus(8), 0)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(optimum, dgx1v, direct(test::dgx1v_matrix(1)))->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(optimum, torus_8x8, torus(8))->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(all_gather, dgx1v, direct(test::dgx1v_matrix(1)))->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(all_gather, dgx1p, direct(test::dgx1p_matrix(1)))->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(all_gather, hypercube_16, hypercube(16))->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(all_gather, torus_4x4, torus(4))->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(all_gather, torus_8x8, torus(8))->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
