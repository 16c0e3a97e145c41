// SPDX-License-Identifier: Apache-2.0
#include "winners.hpp"

#include <blink/topology/readers/read_machine.hpp>

#include "../planning/plan_checked.hpp"
#include "parts.hpp"

#include <cstdint>
#include <string>
#include <utility>

namespace blink::bench {

part_result winners_part() {
  part_result result{
      "Predicted winners",
      "28 sizes from 8 bytes to 1 GiB for each machine and collective: at how many does another "
      "planner beat the predicted one by more than 5 % in the simulation? The cost model alone "
      "simulates nothing. Corrected predictions are those of `blink plan --sizes`: plans that may "
      "be the fastest are simulated at these sizes. The sizes between are one and a half times as "
      "large, where nothing was simulated before. The first five machines are the 420 sizes of the "
      "goal, the others a check.",
      {{"winners",
        "Sizes at which the predicted winner loses",
        {{"machine"},
         {"collective"},
         {"plans", origin::computed},
         {"sizes"},
         {"losses of the cost model", origin::simulated},
         {"worst ratio", origin::simulated},
         {"losses corrected", origin::simulated},
         {"worst ratio corrected", origin::simulated},
         {"losses between", origin::simulated},
         {"worst ratio between", origin::simulated}},
        {}}},
      {}};
  int sizes = 0, losses = 0, model_losses = 0, between_losses = 0;
  constexpr int goal_machines = 5;
  int at = 0;
  for (auto const* name : {"dgx1v", "dgx2", "dgx_a100:2", "mi250:2", "torus:4x4", "dgx1p",
                           "dgx1v_pcie", "dgx_h100:2", "torus:3x3", "ring:16", "mesh:4x4"}) {
    auto const machine = in_gigabytes(read_machine(name));
    for (auto const kind :
         {collective::broadcast, collective::all_reduce, collective::all_gather}) {
      auto const count = count_winners(machine, kind, 8, std::int64_t{1} << 30);
      if (at < goal_machines) {
        sizes += count.sizes;
        losses += count.corrected_losses;
        model_losses += count.model_losses;
        between_losses += count.between_losses;
      }
      result.tables[0].rows.push_back(
          {label(name), label(std::string(to_text(kind))),
           number(static_cast<double>(count.plans), 0), number(count.sizes, 0),
           number(count.model_losses, 0), number(count.model_worst, 3),
           number(count.corrected_losses, 0), number(count.corrected_worst, 3),
           number(count.between_losses, 0), number(count.between_worst, 3)});
    }
    ++at;
  }
  result.findings.push_back(
      {"Goal: sizes of " + std::to_string(sizes) + " at which a predicted winner loses",
       cell{"0", 0.0}, number(losses, 0, origin::simulated), losses == 0 ? "met" : "missed",
       "with corrected predictions, and at " + std::to_string(between_losses) +
           " of as many sizes between; the cost model alone loses at " +
           std::to_string(model_losses)});
  return result;
}

}  // namespace blink::bench
