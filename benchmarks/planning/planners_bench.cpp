// SPDX-License-Identifier: Apache-2.0
// All planners beside each other on a few machines: time of the planner alone, rate over the best
// bound, trees, height. `planners_bench --table` prints the table without timing loops.
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/topology/readers/read_machine.hpp>
#include <blink/topology/subset.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace blink;

constexpr collective kinds[]{collective::broadcast, collective::all_reduce, collective::all_gather};

/// Whole machines, and what a scheduler leaves of two servers.
std::vector<topology> machines_to_compare() {
  std::vector<topology> result;
  for (auto const* name :
       {"dgx1v", "dgx1v_pcie", "dgx2", "dgx_a100:2", "dgx_h100:4", "mi250:2", "torus:4x4"}) {
    result.push_back(read_machine(name));
  }
  result.push_back(subset(read_machine("dgx_h100:2"), {0, 1, 2, 8, 9, 10, 11, 12}));
  result.back().name = "dgx_h100:2, 3 + 5 GPUs";
  return result;
}

int tallest(plan const& p) {
  int result = 0;
  for (auto const& t : p.trees) result = std::max(result, height(t));
  return result;
}

/// The bound of a machine and collective, proven once for all planners.
rational bound_of(topology const& machine, collective kind) {
  static std::map<std::pair<std::string, collective>, rational> known;
  auto const [entry, fresh] = known.try_emplace({machine.name, kind});
  if (fresh) {
    int const root = machine.nodes[static_cast<std::size_t>(machine.rank_positions().front())].id;
    entry->second = prove_bound(machine, kind, root).bound;
  }
  return entry->second;
}

plan_request request_for(topology const& machine, planner const& by, collective kind) {
  int const root = machine.nodes[static_cast<std::size_t>(machine.rank_positions().front())].id;
  plan_request request{kind, root, std::string(by.name)};
  if (has_equal_roots(kind) || kind == collective::all_reduce) request.root.reset();
  return request;
}

void print_table() {
  using clock = std::chrono::steady_clock;
  for (auto const& machine : machines_to_compare()) {
    for (auto const kind : kinds) {
      std::printf("\n%s, %s, %zu ranks: bound %s %s\n", machine.name.c_str(),
                  std::string(to_text(kind)).c_str(), machine.rank_positions().size(),
                  bound_of(machine, kind).to_text().c_str(), machine.unit.c_str());
      std::printf("  %-26s %10s %8s %6s %7s %10s\n", "planner", "rate", "of bound", "trees",
                  "height", "ms");
      for (auto const& by : planners) {
        try {
          auto const request = request_for(machine, by, kind);
          require_planned(by.name, by.collectives, request);
          auto const start = clock::now();
          auto const p = by.make(machine, request);
          std::chrono::duration<double, std::milli> const time = clock::now() - start;
          if (auto const report = check_plan(machine, p); report.fault) {
            std::printf("  %-26s NOT SOUND: %s\n", std::string(by.name).c_str(),
                        report.fault->c_str());
            continue;
          }
          std::printf("  %-26s %10.2f %7.1f%% %6zu %7d %10.2f\n", std::string(by.name).c_str(),
                      p.rate.to_double(), 100 * (p.rate / bound_of(machine, kind)).to_double(),
                      p.trees.size(), tallest(p), time.count());
        } catch (planning_error const& reason) {
          std::printf("  %-26s %10s  %.80s\n", std::string(by.name).c_str(), "-", reason.what());
        }
      }
    }
  }
}

void add(topology const& machine, planner const& by, collective kind) {
  auto const request = request_for(machine, by, kind);
  if (!by.collectives.contains(kind)) return;
  plan found;
  try {
    found = by.make(machine, request);
  } catch (planning_error const&) {
    return;  // not on this machine: the table says why
  }
  auto const name = machine.name + "/" + std::string(to_text(kind)) + "/" + std::string(by.name);
  benchmark::RegisterBenchmark(name.c_str(), [=, make = by.make](benchmark::State& state) {
    for (auto _ : state) benchmark::DoNotOptimize(make(machine, request));
    state.counters["rate"] = found.rate.to_double();
    state.counters["rate_over_bound"] = (found.rate / bound_of(machine, kind)).to_double();
    state.counters["trees"] = static_cast<double>(found.trees.size());
    state.counters["max_height"] = tallest(found);
  })->Unit(benchmark::kMillisecond);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--table") {
    print_table();
    return 0;
  }
  for (auto const& machine : machines_to_compare()) {
    for (auto const kind : kinds) {
      for (auto const& by : planners) add(machine, by, kind);
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
