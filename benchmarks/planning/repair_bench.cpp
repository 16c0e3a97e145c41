// SPDX-License-Identifier: Apache-2.0
// Time to repair a plan against planning again, on machines of growing size. The change: one link
// has half its capacity, one link is gone, the last rank is gone, or the last rank is new. `kept`
// counts trees with the same edges as before.
#include <blink/planning/make_plan.hpp>
#include <blink/planning/repair_plan.hpp>
#include <blink/topology/built_in_machines.hpp>
#include <blink/topology/subset.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace blink;

struct job {
  topology changed;
  plan old;
  plan_request request;
};

enum class change { half_link, no_link, rank_lost, rank_added };
constexpr std::array changes{"half_link", "no_link", "rank_lost", "rank_added"};

job make_job(std::string const& name, collective kind, change what) {
  auto machine = *make_built_in_machine(name);
  for (auto& l : machine.links) l.capacity *= 2;  // so that half is whole
  machine.steps_per_unit *= 2;
  auto fewer = machine;
  if (what == change::rank_lost || what == change::rank_added) {
    std::vector<int> ids;
    for (int const at : machine.rank_positions()) {
      ids.push_back(machine.nodes[static_cast<std::size_t>(at)].id);
    }
    ids.pop_back();
    fewer = subset(machine, ids);
  }
  plan_request request{kind, {}, "exact"};
  auto old = make_plan(what == change::rank_added ? fewer : machine, request);
  if (kind == collective::broadcast || kind == collective::reduce) {
    request.root = old.trees.front().root;
  }
  auto const ends = std::pair(machine.links.front().tail, machine.links.front().head);
  auto const is_hit = [&](blink::link const& l) {
    return std::pair(l.tail, l.head) == ends || std::pair(l.head, l.tail) == ends;
  };
  if (what == change::half_link) {
    for (auto& l : machine.links) {
      if (is_hit(l)) l.capacity /= 2;
    }
  }
  if (what == change::no_link) std::erase_if(machine.links, is_hit);
  if (what == change::rank_lost) machine = std::move(fewer);
  return {std::move(machine), std::move(old), request};
}

void add(std::string const& name, collective kind, change what) {
  auto const title = std::string(changes[static_cast<std::size_t>(what)]) + "/" + name + "/" +
                     std::string(to_text(kind));
  benchmark::RegisterBenchmark(("repair/" + title).c_str(), [=](benchmark::State& state) {
    auto const work = make_job(name, kind, what);
    repaired_plan result;
    for (auto _ : state) result = repair_plan(work.changed, work.old);
    state.SetLabel(to_text(result.algorithm));
    state.counters["trees"] = static_cast<double>(result.plan.trees.size());
    state.counters["kept"] =
        static_cast<double>(result.difference.kept.size() + result.difference.reweighted.size());
    state.counters["rate_over_bound"] = ratio(result.plan.rate, result.plan.bound);
  })->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark(("fresh/" + title).c_str(), [=](benchmark::State& state) {
    auto const work = make_job(name, kind, what);
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
      for (auto const what :
           {change::half_link, change::no_link, change::rank_lost, change::rank_added}) {
        // Behind one link each, a rank that loses it is lost to all.
        auto const text = std::string_view(name);
        bool const one_link = text == "dgx2" || text.starts_with("dgx_a100");
        if (what == change::no_link && one_link) continue;
        add(name, kind, what);
      }
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
