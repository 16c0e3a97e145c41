// SPDX-License-Identifier: Apache-2.0
// From capacities to few trees: approximate packing, choice of trees, and rings as the baseline.
// The machines are the full DGX-1V and, one after the other, its allocation classes.
#include <blink/packing/trees/few_trees.hpp>
#include <blink/packing/trees/multiplicative_weights.hpp>
#include <blink/packing/trees/ring_packing.hpp>

#include <benchmark/benchmark.h>
#include <support/all_trees.hpp>
#include <support/dgx1_classes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace {

using namespace blink;
using namespace blink::test;

/// Argument: epsilon in thousandths.
void broadcast_by_multiplicative_weights(benchmark::State& state) {
  matrix_graph const machine(dgx1v_matrix(1), true);
  packing_solution result;
  for (auto _ : state) {
    result =
        pack_arborescences_approximately(machine.graph, 0, machine.capacities,
                                         {.epsilon = static_cast<double>(state.range(0)) / 1000});
    benchmark::DoNotOptimize(result);
  }
  state.counters["oracle_calls"] = static_cast<double>(result.iterations);
  state.counters["rate"] = result.rate;
  state.counters["bound"] = result.bound;
  state.counters["trees"] = static_cast<double>(result.trees.size());
}
BENCHMARK(broadcast_by_multiplicative_weights)->Arg(500)->Arg(300)->Arg(200)->Arg(100)->Arg(50);

void all_reduce_by_multiplicative_weights(benchmark::State& state) {
  matrix_graph const machine(dgx1v_matrix(1), false);
  packing_solution result;
  for (auto _ : state) {
    result = pack_spanning_trees_approximately(
        machine.graph, machine.capacities, {.epsilon = static_cast<double>(state.range(0)) / 1000});
    benchmark::DoNotOptimize(result);
  }
  state.counters["oracle_calls"] = static_cast<double>(result.iterations);
  state.counters["rate"] = result.rate;
  state.counters["bound"] = result.bound;
  state.counters["trees"] = static_cast<double>(result.trees.size());
}
BENCHMARK(all_reduce_by_multiplicative_weights)->Arg(500)->Arg(200)->Arg(100)->Arg(50);

/// Argument: vertices; there are four times as many edges.
void cheapest_arborescence(benchmark::State& state) {
  std::mt19937 random(1);
  auto const n = static_cast<int>(state.range(0));
  arc_list const graph = random_arcs(random, n, 4 * n, true);
  std::vector<double> prices(graph.arcs.size());
  for (double& p : prices) p = std::uniform_real_distribution<double>(1, 2)(random);
  arborescence_oracle oracle(graph, 0, prices);
  for (auto _ : state) benchmark::DoNotOptimize(oracle(prices).data());
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(graph.arcs.size()));
}
BENCHMARK(cheapest_arborescence)->RangeMultiplier(2)->Range(8, 128);

template <class Oracle>
few_trees_result whole_way(Oracle oracle, std::vector<std::int64_t> const& capacities) {
  auto const packing = multiplicative_weights(oracle, capacities, {.epsilon = 0.1, .gap = 0.01});
  std::vector<std::vector<int>> candidates;
  for (auto const& tree : packing.trees) candidates.push_back(tree.edges);
  return few_trees(oracle, candidates, capacities, packing.bound, packing.prices);
}

/// Packing and choice of trees for every class. Items are classes.
void few_trees_for_dgx1_classes(benchmark::State& state) {
  bool const all_reduce = state.range(0) != 0;
  std::vector<matrix_graph> machines;
  std::vector<int> roots;
  std::vector<double> optima;
  for (auto const& c : dgx1_classes()) {
    machines.emplace_back(c.matrix, !all_reduce);
    roots.push_back(static_cast<int>(best_broadcast_root(c.matrix)));
    optima.push_back((all_reduce ? best_symmetric_all_reduce(c.matrix)
                                 : best_broadcast(c.matrix, static_cast<std::size_t>(roots.back())))
                         .to_double());
  }
  double worst = 1;
  std::size_t trees = 0;
  for (auto _ : state) {
    trees = 0;
    for (std::size_t i = 0; i < machines.size(); ++i) {
      auto const& [graph, capacities] = machines[i];
      auto const result =
          all_reduce ? whole_way(spanning_tree_oracle(graph, capacities), capacities)
                     : whole_way(arborescence_oracle(graph, roots[i], capacities), capacities);
      trees += result.trees.size();
      worst = std::min(worst, result.rate.to_double() / optima[i]);
    }
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(machines.size()));
  state.counters["worst_share"] = worst;
  state.counters["trees_mean"] = static_cast<double>(trees) / static_cast<double>(machines.size());
}
BENCHMARK(few_trees_for_dgx1_classes)
    ->ArgName("all_reduce")
    ->Arg(0)
    ->Arg(1)
    ->Unit(benchmark::kMillisecond);

void rings_for_dgx1_classes(benchmark::State& state) {
  std::vector<matrix_graph> machines;
  for (auto const& c : dgx1_classes()) machines.emplace_back(c.matrix, true);
  std::int64_t rings = 0;
  for (auto _ : state) {
    rings = 0;
    for (auto const& machine : machines) {
      rings += pack_rings(machine.graph, machine.capacities).rate;
    }
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(machines.size()));
  state.counters["rings"] = static_cast<double>(rings);
}
BENCHMARK(rings_for_dgx1_classes)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
