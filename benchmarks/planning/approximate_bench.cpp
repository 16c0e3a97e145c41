// SPDX-License-Identifier: Apache-2.0
// All-reduce on machines that lost their symmetry because some links are slow: where approximate
// plans are made for, and beside them exact plans where those are found. All in cpu time of the
// planner alone; rate over the proven bound, trees, height.
#include <blink/planning/make_plan.hpp>
#include <blink/topology/readers/read_machine.hpp>

#include "planning/machine_rows.hpp"
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>

namespace {

using namespace blink;

void add(topology const& machine, std::string const& planner) {
  auto const name = machine.name + "/" + planner;
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    plan_request const request{collective::all_reduce, {}, planner};
    plan found;
    for (auto _ : state) found = make_plan(machine, request);
    state.SetLabel("by " + found.planner);  // `exact` may fall back
    int tallest = 0;
    for (auto const& t : found.trees) tallest = std::max(tallest, height(t));
    state.counters["rate"] = found.rate.to_double();
    state.counters["rate_over_bound"] = ratio(found.rate, found.bound);
    state.counters["trees"] = static_cast<double>(found.trees.size());
    state.counters["max_height"] = tallest;
  })->Unit(benchmark::kMillisecond);
}

}  // namespace

int main(int argc, char** argv) {
  constexpr unsigned seed = 3;
  auto const two = bench::with_slow_links(read_machine("mi250:2"), 5, seed);
  add(two, "exact");
  add(two, "approximate");
  auto const four = bench::with_slow_links(read_machine("mi250:4"), 5, seed);
  add(four, "exact");
  add(four, "approximate");
  auto const sixteen = bench::with_slow_links(read_machine("dgx_a100:16"), 3, seed);
  add(sixteen, "exact");
  add(sixteen, "approximate");
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
