// SPDX-License-Identifier: Apache-2.0
// Ranks that contribute unequal parts: planned for these shares, and run with proportional
// segments.
#include <blink/collectives.hpp>
#include <blink/collectives/all_gather_v.hpp>
#include <blink/planning.hpp>

#include <cstdio>
#include <vector>

int main() {
  // Rank 0 has half of the data and rank 3 has none, as with a model that is not cut evenly.
  auto const machine = blink::only_links(
      blink::subset(blink::read_machine("data/dgx1v.xml"), {0, 1, 2, 3}), blink::link_kind::nvlink);
  blink::plan_request request{blink::collective::all_gather};
  request.constraints.shares = {{0, 3}, {1, 2}, {2, 1}, {3, 0}};
  auto const plan = blink::make_plan(machine, request);
  std::printf("%s GB/s, at most %s\n", plan.rate.to_text().c_str(), plan.bound.to_text().c_str());

  auto const trees = blink::make_schedule(machine, plan);
  auto const blocks = blink::proportional_blocks(60'000, trees.shares);  // or any other blocks
  blink::thread_ranks threads(trees.rank_count);
  threads.run([&](auto& comm) {
    auto const own = blocks[static_cast<std::size_t>(comm.rank())];
    std::vector<int> all(60'000, 0);
    for (std::size_t k = 0; k < own.count; ++k) all[own.begin + k] = comm.rank() + 1;
    blink::all_gather_v(comm, trees, all.data() + own.begin, all.data(), blocks);
    if (comm.rank() == 3) std::printf("%d %d %d\n", all.front(), all[40'000], all.back());
  });
}
