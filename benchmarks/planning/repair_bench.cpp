// SPDX-License-Identifier: Apache-2.0
// Time to repair a plan after one link has half its capacity, against planning anew, on machines of
// growing size. `kept` counts trees with the same edges as before.
#include <blink/planning/make_plan.hpp>
#include <blink/planning/repair_plan.hpp>
#include <blink/topology/built_in_machines.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

namespace {

using namespace blink;

struct job {
  topology changed;
  plan old;
  plan_request request;
};

job make_job(std::string const& name, collective kind) {
  auto machine = *make_built_in_machine(name);
  for (auto& l : machine.links) l.capacity *= 2;  // so that half is whole
  machine.steps_per_unit *= 2;
  plan_request request{kind, {}, "exact"};
  auto old = make_plan(machine, request);
  if (kind == collective::broadcast || kind == collective::reduce) {
    request.root = old.trees.front().root;
  }
  auto const ends = std::pair(machine.links.front().tail, machine.links.front().head);
  for (auto& l : machine.links) {
    if (std::pair(l.tail, l.head) == ends || std::pair(l.head, l.tail) == ends) l.capacity /= 2;
  }
  return {std::move(machine), std::move(old), request};
}

void add(std::string const& name, collective kind) {
  auto const title = name + "/" + std::string(to_text(kind));
  benchmark::RegisterBenchmark(("repair/" + title).c_str(), [=](benchmark::State& state) {
    auto const work = make_job(name, kind);
    repaired_plan result;
    for (auto _ : state) result = repair_plan(work.changed, work.old);
    state.SetLabel(to_text(result.method));
    state.counters["trees"] = static_cast<double>(result.plan.trees.size());
    state.counters["kept"] =
        static_cast<double>(result.difference.kept.size() + result.difference.reweighted.size());
    state.counters["rate_over_bound"] = (result.plan.rate / result.plan.bound).to_double();
  })->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark(("fresh/" + title).c_str(), [=](benchmark::State& state) {
    auto const work = make_job(name, kind);
    plan result;
    for (auto _ : state) result = make_plan(work.changed, work.request);
    state.counters["trees"] = static_cast<double>(result.trees.size());
  })->Unit(benchmark::kMillisecond);
}

}  // namespace

int main(int argc, char** argv) {
  for (auto const* name : {"dgx1v", "dgx2", "mi250", "dgx_a100:2", "dgx_a100:4", "mesh:4x4",
                           "torus:6x6", "mesh:8x8"}) {
    for (auto const kind :
         {collective::broadcast, collective::all_gather, collective::all_reduce}) {
      add(name, kind);
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
