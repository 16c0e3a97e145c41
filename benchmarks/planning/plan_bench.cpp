// SPDX-License-Identifier: Apache-2.0
// Time to plan the connected allocations of a DGX-1, whole plans with certificate, by planner and
// collective: all 60 classes in one pass. Each class by itself with --benchmark_filter=class.
#include <blink/planning/make_plan.hpp>

#include "support/dgx1_classes.hpp"
#include "support/small_machines.hpp"
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace blink;

/// The classes as machines, planned with one request.
struct job {
  std::vector<topology> machines;
  plan_request request;
};

void plan_all(benchmark::State& state, job const& work) {
  std::size_t trees = 0;
  int highest = 0;
  double least_share = 1;
  for (auto _ : state) {
    trees = 0;
    for (auto const& machine : work.machines) {
      auto const p = make_plan(machine, work.request);
      trees += p.trees.size();
      for (auto const& t : p.trees) highest = std::max(highest, height(t));
      least_share = std::min(least_share, ratio(p.rate, p.bound));
    }
  }
  auto const count = static_cast<double>(work.machines.size());
  state.counters["plans"] = count;
  state.counters["trees_each"] = static_cast<double>(trees) / count;
  state.counters["max_height"] = highest;
  state.counters["least_rate_over_bound"] = least_share;
}

void add(std::string const& name, std::vector<topology> machines, plan_request const& request) {
  benchmark::RegisterBenchmark(name.c_str(), [work = job{std::move(machines), request}](
                                                 benchmark::State& state) {
    plan_all(state, work);
  })->Unit(benchmark::kMillisecond);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::pair<std::string, topology>> classes;
  for (auto const& c : test::dgx1_classes())
    classes.emplace_back(c.name, test::direct_machine(c.matrix));
  std::vector<topology> all;
  for (auto const& [name, machine] : classes) all.push_back(machine);

  for (int kind = 0; kind < 5; ++kind) {
    auto const which = static_cast<collective>(kind);
    add("exact/" + std::string(to_text(which)) + "/all60", all, {which, {}, "exact"});
  }
  for (auto const which : {collective::broadcast, collective::all_reduce}) {
    add("blink/" + std::string(to_text(which)) + "/all60", all, {which, {}, "blink"});
    for (auto const& [name, machine] : classes) {
      add("exact/" + std::string(to_text(which)) + "/class " + name, {machine},
          {which, {}, "exact"});
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
