// SPDX-License-Identifier: Apache-2.0
#include <blink/core/rational.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/topology/machines.hpp>
#include <blink/topology/subset.hpp>

#include "../planning/plan_checked.hpp"
#include "../training/contenders.hpp"
#include "../training/iteration.hpp"
#include "../training/networks.hpp"
#include "parts.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

// NVLinks beside PCIe, NVLinks beside the network of two servers, and training over both.

namespace blink::bench {

part_result hybrid_part() {
  part_result result{
      "NVLink and PCIe at once",
      "GPUs 0 to n - 1 of a DGX-1V with NVLinks of 25 GB/s, PCIe of 12 GB/s and 6 GB/s between "
      "processors. The planner `hybrid` uses the optimum on both kinds at once. Simulations move "
      "500 MB. No time is spent to switch from peer access over NVLink to PCIe.",
      {{"hybrid",
        "Rates over NVLinks, over PCIe, and over both, GB/s",
        {{"collective"},
         {"GPUs"},
         {"NVLink", origin::computed},
         {"NVLink", origin::simulated},
         {"both", origin::computed},
         {"both", origin::simulated},
         {"gain", origin::computed},
         {"gain", origin::simulated},
         {"gain, %", origin::simulated}},
        {}}},
      {}};
  constexpr double bytes = 500e6;
  for (auto const kind : {collective::broadcast, collective::all_reduce}) {
    for (int gpus = 3; gpus <= 8; ++gpus) {
      std::vector<int> ids(static_cast<std::size_t>(gpus));
      std::iota(ids.begin(), ids.end(), 0);
      auto const all = subset(machines::dgx1v_pcie(), ids);
      auto const nvlinks = only_links(all, link_kind::nvlink);
      auto const fast = plan_checked(nvlinks, {kind, {}, planned_by::exact});
      auto const both = plan_checked(all, {kind, {}, planned_by::hybrid});
      double const fast_simulated = simulated_rate(nvlinks, fast, bytes);
      double const both_simulated = simulated_rate(all, both, bytes);
      result.tables[0].rows.push_back({label(std::string(to_text(kind))), number(gpus, 0),
                                       number(fast.rate.to_double(), 1), number(fast_simulated, 1),
                                       number(both.rate.to_double(), 1), number(both_simulated, 1),
                                       number((both.rate - fast.rate).to_double(), 1),
                                       number(both_simulated - fast_simulated, 1),
                                       number(100 * (both_simulated / fast_simulated - 1), 1)});
    }
  }
  return result;
}

part_result servers_part() {
  part_result result{"3 + 5 GPUs of two servers",
                     "Three GPUs of one DGX-1V and five of another, with a NIC for each server. "
                     "Three phases reduce inside servers, exchange, and spread inside servers. A "
                     "ring passes all GPUs. Simulations all-reduce 100 MB.",
                     {{"servers",
                       "All-reduce over a growing network, GB/s",
                       {{"network, Gbit/s"},
                        {"three phases", origin::computed},
                        {"three phases", origin::simulated},
                        {"exact", origin::computed},
                        {"exact", origin::simulated},
                        {"best ring", origin::computed},
                        {"best ring", origin::simulated},
                        {"PCIe ring", origin::computed},
                        {"three phases over best ring", origin::computed},
                        {"three phases over best ring", origin::simulated}},
                       {}}},
                     {}};
  constexpr double bytes = 100e6;
  for (int const gigabits : {10, 25, 40, 100, 200, 400}) {
    auto const servers = blink_bench::two_servers(rational(gigabits, 8));
    auto const& contenders = servers.contenders;
    auto const& all = contenders[0].machine;
    auto const exact = plan_checked(all, {collective::all_reduce, {}, planned_by::exact});
    auto const& phases = contenders[0].planned;
    auto const& ring = contenders[blink_bench::ring_position];
    double const phases_simulated = simulated_rate(all, phases, bytes);
    double const ring_simulated = simulated_rate(ring.machine, ring.planned, bytes);
    result.tables[0].rows.push_back(
        {number(gigabits, 0), number(phases.rate.to_double(), 2), number(phases_simulated, 2),
         number(exact.rate.to_double(), 2), number(simulated_rate(all, exact, bytes), 2),
         number(ring.planned.rate.to_double(), 2), number(ring_simulated, 2),
         number(contenders[2].planned.rate.to_double(), 2),
         number((phases.rate / ring.planned.rate).to_double(), 2),
         number(phases_simulated / ring_simulated, 2)});
  }
  return result;
}

part_result training_part() {
  part_result result{
      "Iterations of four networks",
      "Data-parallel training with 32 images for each GPU at the published speed of one V100, "
      "buckets of 25 MiB, and all-reduces beside the backward pass. Milliseconds of an iteration. "
      "[training.md](training.md) has the same iterations replayed over shaped links.",
      {{"training",
        "Iterations with each set of trees, ms",
        {{"machine"},
         {"network"},
         {"trees"},
         {"GB/s", origin::computed},
         {"computation", origin::published},
         {"iteration", origin::simulated},
         {"waits, %", origin::simulated},
         {"less time with planned trees, %", origin::simulated}},
        {}}},
      {}};
  double over_ring = 0, over_fallback = 0;
  blink_bench::replay_scale const scale;
  blink_bench::step_costs const costs;
  for (auto const& machine : blink_bench::training_machines()) {
    for (auto const& trained : blink_bench::all_networks()) {
      auto const one = blink_bench::make_iteration(trained, 32);
      double planned = 0;
      for (auto const& each : machine.contenders) {
        blink_bench::simulated_all_reduce simulated(each, scale, costs,
                                                    blink_bench::chunks_of(each, scale, costs));
        double const seconds = blink_bench::overlapped_seconds(
            one, [&](std::size_t parameters) { return simulated(parameters) / scale.time; });
        bool const is_planned = &each == machine.contenders.data();
        if (is_planned) planned = seconds;
        double const less = 100 * (1 - planned / seconds);
        auto& most = each.name == "PCIe ring" ? over_fallback : over_ring;
        most = std::max(most, less);
        result.tables[0].rows.push_back(
            {label(machine.name), label(trained.name), label(each.name),
             number(each.planned.rate.to_double(), 2), number(one.compute_seconds * 1e3, 2),
             number(seconds * 1e3, 2), number(100 * (1 - one.compute_seconds / seconds), 1),
             is_planned ? absent() : number(less, 1)});
      }
    }
  }
  result.findings.push_back(
      {"Blink: training time of image classification, % less, up to",
       number(40, 0, origin::published), number(over_ring, 0, origin::simulated), "not comparable",
       "measured on GPUs with frameworks of 2019; here over the best ring, and " +
           number(over_fallback, 0).text + " % over the PCIe ring, both for AlexNet"});
  return result;
}

}  // namespace blink::bench
