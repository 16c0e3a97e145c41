// SPDX-License-Identifier: Apache-2.0
// From a machine description to a finished collective: read, allocate, plan, check, run.
#include <blink/collectives.hpp>
#include <blink/planning.hpp>

#include <cstdio>
#include <vector>

int main() {
  // Six GPUs of a DGX-1V that have no ring of full rate.
  auto const machine =
      blink::only_links(blink::subset(blink::read_machine("data/dgx1v.xml"), {0, 1, 2, 3, 4, 5}),
                        blink::link_kind::nvlink);
  auto const plan = blink::make_plan(machine, {blink::collective::all_reduce, {}, "exact"});
  auto const report = blink::check_plan(machine, plan);  // shares no code with the planner
  std::printf("%zu trees, %s of at most %s GB/s, %s\n", plan.trees.size(),
              plan.rate.to_text().c_str(), plan.bound.to_text().c_str(),
              report ? "checked" : report.fault->c_str());

  auto const trees = blink::make_schedule(machine, plan);
  blink::thread_ranks threads(trees.rank_count);
  threads.run([&](auto& comm) {
    std::vector<double> data(10'000, comm.rank());
    blink::all_reduce(comm, trees, data, data, blink::sum{});  // in place, along the plan
    if (comm.rank() == 5) std::printf("0 + 1 + … + 5 = %g\n", data.front());
  });
  return report ? 0 : 1;
}
