// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/plan/plan.hpp>
#include <blink/topology/readers/read_machine.hpp>
#include <blink/topology/subset.hpp>
#include <blink/topology/topology.hpp>

#include "../planning/all_reduce_gain.hpp"
#include "../planning/plan_checked.hpp"
#include "parts.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

// All-reduce in one packing beside reduce-scatter and all-gather one after the other.

namespace blink::bench {
namespace {

std::vector<topology> machines_of_phases() {
  std::vector<topology> result;
  for (auto const* name : {"dgx_a100", "dgx_a100:2", "dgx_a100:4", "dgx_a100:8", "dgx_h100",
                           "dgx_h100:2", "dgx_h100:4", "hgx_h200", "mi250", "mi250:2", "nvl72",
                           "dgx2", "dgx1v", "dgx1p", "mesh:4x4", "torus:4x4"}) {
    result.push_back(in_gigabytes(read_machine(name)));
  }
  // ForestColl's "8 + 8 of 16": the first eight GPUs of each server.
  std::vector<int> ids;
  auto const whole = read_machine("mi250:2");
  auto const ranks = whole.rank_positions();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i % 16 < 8) ids.push_back(whole.nodes[static_cast<std::size_t>(ranks[i])].id);
  }
  result.push_back(subset(whole, ids));
  result.back().name = "mi250:2, 8 + 8 GPUs";
  return result;
}

}  // namespace

part_result phases_part() {
  part_result result{"All-reduce beside ForestColl's two phases",
                     "ForestColl plans optimal all-gathers and reduce-scatters. Its all-reduce "
                     "runs both, one after the other, or both sets of trees at once. All columns "
                     "are made of this planner's own optima: joint packing, two phases, and the "
                     "trees of both phases overlapped. Rates are GB/s, simulations move 1 GiB. "
                     "[planner_table.md](planner_table.md) has the times of both planners.",
                     {{"phases",
                       "Machines",
                       {{"machine"},
                        {"GPUs"},
                        {"joint", origin::computed},
                        {"joint", origin::simulated},
                        {"two phases", origin::computed},
                        {"two phases", origin::simulated},
                        {"overlapped", origin::computed},
                        {"joint over two phases", origin::computed},
                        {"joint over two phases", origin::simulated},
                        {"joint over overlapped", origin::computed}},
                       {}},
                      {"phases_means",
                       "Geometric means and largest ratios over kinds of machines",
                       {{"machines"},
                        {"joint over two phases", origin::computed},
                        {"at most", origin::computed},
                        {"joint over overlapped", origin::computed},
                        {"overlapped at most", origin::computed}},
                       {}}},
                     {}};
  double best = 0;
  std::string best_name;
  for (auto const& machine : machines_of_phases()) {
    auto const plans = plan_all_reduces(machine);
    auto const rates = compare_all_reduce(machine, plans);
    double const joint = simulated_rate(machine, plans.joint, simulated_bytes);
    double const phases = simulated_bytes * 1e-9 /
                          (simulated_seconds(machine, plans.gather, simulated_bytes) +
                           simulated_seconds(machine, plans.scatter, simulated_bytes));
    double const ratio = rates.joint / rates.two_phase;
    if (ratio > best) best_name = machine.name;
    best = std::max(best, ratio);
    result.tables[0].rows.push_back(
        {label(machine.name), number(static_cast<double>(plans.joint.ranks.size()), 0),
         number(rates.joint, 1), number(joint, 1), number(rates.two_phase, 1), number(phases, 1),
         number(rates.overlapped, 1), number(ratio, 3), number(joint / phases, 3),
         number(rates.joint / rates.overlapped, 3)});
  }
  for (auto const& mean : all_reduce_means()) {
    result.tables[1].rows.push_back(
        {label(mean.machines), number(mean.over_two_phase, 2), number(mean.most_over_two_phase, 2),
         number(mean.over_overlapped, 2), number(mean.most_over_overlapped, 2)});
    best = std::max(best, mean.most_over_two_phase);
  }
  result.findings.push_back({"ForestColl: over vendors' libraries, % faster, up to",
                             number(52, 0, origin::published),
                             number(100 * (best - 1), 0, origin::computed), "not comparable",
                             "measured on MI250, A100 and H100 with RCCL and NCCL; here the gain "
                             "of a joint all-reduce over ForestColl's own two phases"});
  return result;
}

}  // namespace blink::bench
