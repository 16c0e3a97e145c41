// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/cost/cost_model.hpp>
#include <blink/planning/plan/make_schedule.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/simulation/simulate.hpp>
#include <blink/topology/join_machines.hpp>
#include <blink/topology/machines.hpp>
#include <blink/topology/subset.hpp>
#include <blink/topology/topology.hpp>

#include "../planning/plan_checked.hpp"
#include "iteration.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace blink_bench {

/// The proportions of a replay. It moves 1/`data` of the bytes and takes `time` times as long, so
/// that links have 1/(`data` * `time`) of their rates. Ratios of times stay.
struct replay_scale {
  double data = 500;
  double time = 20;

  [[nodiscard]] double bytes_per_unit() const { return 1e9 / (data * time); }
  /// Elements of a bucket in the replay.
  [[nodiscard]] std::size_t elements(std::size_t parameters) const {
    return std::max<std::size_t>(
        1, static_cast<std::size_t>(std::llround(static_cast<double>(parameters) / data)));
  }
};

/// Times of the real machine that no link rate states.
struct step_costs {
  /// From the end of sending a chunk to its use: the step of the cost model's default for GPUs.
  double latency_seconds = blink::cost_parameters{}.step_seconds;
};

/// Chunks of one tree edge that may be in flight, in the replay and in the simulation.
inline constexpr std::size_t chunks_in_flight = 8;

/// The trees that all-reduces take, and the links that they use.
struct contender {
  std::string name;
  blink::topology machine;
  blink::plan planned;
};

/// A machine and its contenders: the planned trees, then the best ring of a ring library, then its
/// fallback if that is another one.
struct training_machine {
  std::string name;
  std::vector<contender> contenders;
};

/// Position of the ring to compare with among a machine's contenders.
inline constexpr std::size_t ring_position = 1;

namespace detail {

[[nodiscard]] inline blink::topology without_nvlinks(blink::topology machine) {
  std::erase_if(machine.links,
                [](blink::link const& l) { return l.kind == blink::link_kind::nvlink; });
  return machine;
}

/// Plans an all-reduce, and checks the plan.
[[nodiscard]] inline contender plan_contender(std::string name, blink::topology machine,
                                              char const* planner) {
  auto planned = blink::bench::plan_checked(machine, {blink::collective::all_reduce, {}, planner});
  return {std::move(name), std::move(machine), std::move(planned)};
}

/// Some GPUs of a DGX-1V: exact trees over its NVLinks, the best ring of NVLinks if one closes, and
/// the best ring of PCIe.
[[nodiscard]] inline training_machine part_of_dgx1v(std::string name,
                                                    std::vector<int> const& gpus) {
  namespace planned_by = blink::planned_by;
  auto const all = blink::subset(blink::machines::dgx1v_pcie(), gpus);
  auto const nvlinks = blink::only_links(all, blink::link_kind::nvlink);
  training_machine result{std::move(name), {}};
  result.contenders.push_back(plan_contender("exact trees", nvlinks, planned_by::exact));
  try {
    result.contenders.push_back(plan_contender("best ring", nvlinks, planned_by::ring));
  } catch (blink::planning_error const&) {  // none closes
  }
  result.contenders.push_back(
      plan_contender("PCIe ring", without_nvlinks(all), planned_by::pcie_ring));
  return result;
}

}  // namespace detail

/// An allocation on which exact trees are 2.08 times as fast as the best ring of NVLinks.
[[nodiscard]] inline training_machine six_gpus() {
  return detail::part_of_dgx1v("DGX-1V with GPUs 0 to 5", {0, 1, 2, 3, 4, 5});
}

/// An allocation on which no ring of NVLinks closes, as on 21 of the 46 of 3 to 8 GPUs. A ring
/// library falls to PCIe there.
[[nodiscard]] inline training_machine four_gpus() {
  return detail::part_of_dgx1v("DGX-1V with GPUs 1 4 5 7", {1, 4, 5, 7});
}

/// Three GPUs of one DGX-1V and five of another, with a NIC for each server.
///
/// nic_rate: GB/s; by default 40 Gbit/s
[[nodiscard]] inline blink::topology three_and_five_gpus(blink::rational const& nic_rate = 5) {
  auto const server = blink::machines::dgx1v_pcie();
  blink::join_options options;
  options.network = blink::server_network::fabric;
  options.nics.rate = nic_rate;
  return blink::join({blink::subset(server, {0, 1, 2}), blink::subset(server, {0, 1, 2, 3, 4})},
                     options);
}

/// The same machine with the trees that are compared.
[[nodiscard]] inline training_machine two_servers(blink::rational const& nic_rate = 5) {
  namespace planned_by = blink::planned_by;
  auto const all = three_and_five_gpus(nic_rate);
  return {
      "two DGX-1V with 3 + 5 GPUs",
      {detail::plan_contender("three phases", all, planned_by::three_phase),
       detail::plan_contender("best ring", all, planned_by::ring),
       detail::plan_contender("PCIe ring", detail::without_nvlinks(all), planned_by::pcie_ring)}};
}

/// All machines of the benchmark.
[[nodiscard]] inline std::vector<training_machine> training_machines() {
  return {six_gpus(), four_gpus(), two_servers()};
}

/// The machine as the simulation sees it: each message starts at a rank and takes the latency once.
[[nodiscard]] inline blink::topology with_latency(blink::topology machine, double seconds) {
  for (auto& l : machine.links) {
    auto const& tail = machine.nodes[static_cast<std::size_t>(l.tail)];
    if (tail.kind == blink::node_kind::rank) l.latency_seconds = seconds;
  }
  return machine;
}

/// Cost of a chunk at each edge on a machine with fewer cores than ranks: a rank is woken, and may
/// wait for a core. Larger chunks are chosen so; no prediction contains it.
inline constexpr double woken_seconds = 1e-4;

/// The time of the replay's all-reduces by the simulation of the plan on the scaled links.
class simulated_all_reduce {
 public:
  /// chunk_bytes: by tree
  simulated_all_reduce(contender const& simulated, replay_scale const& scale,
                       step_costs const& costs, std::vector<double> chunk_bytes)
      : machine_(with_latency(simulated.machine, costs.latency_seconds * scale.time)),
        planned_(&simulated.planned),
        scale_(scale),
        chunk_bytes_(std::move(chunk_bytes)) {}

  /// Returns seconds of the replay for a bucket of so many parameters.
  [[nodiscard]] double operator()(std::size_t parameters) {
    auto const [known, is_new] = seconds_.try_emplace(parameters);
    if (is_new) {
      blink::simulation_options options;
      options.start_seconds = 0;
      options.step_seconds = 0;
      options.bytes_per_unit = scale_.bytes_per_unit();
      options.window = chunks_in_flight;
      auto const bytes = static_cast<double>(scale_.elements(parameters) * sizeof(float));
      known->second = blink::simulate(machine_, *planned_, bytes, chunk_bytes_, options).seconds;
    }
    return known->second;
  }

 private:
  blink::topology machine_;
  blink::plan const* planned_;
  replay_scale scale_;
  std::vector<double> chunk_bytes_;
  std::map<std::size_t, double> seconds_;
};

/// The chunk sizes of a replay, by tree: those of the cost model for a bucket, times the power of
/// two that the simulation finds best. The cost model does not know that `chunks_in_flight` of them
/// may not fill the links during their latency, if they are small.
///
/// parameters: of the largest bucket
[[nodiscard]] inline std::vector<double> chunks_of(contender const& planned,
                                                   replay_scale const& scale,
                                                   step_costs const& costs,
                                                   std::size_t parameters = bucket_limits{}.bytes /
                                                                            sizeof(float)) {
  blink::cost_parameters model;
  model.start_seconds = 0;
  model.step_seconds = woken_seconds;
  model.bytes_per_unit = scale.bytes_per_unit();
  auto const machine = with_latency(planned.machine, costs.latency_seconds * scale.time);
  double const bytes = static_cast<double>(parameters * sizeof(float)) / scale.data;
  auto chunks = blink::predict(blink::cost_of(machine, planned.planned, model), bytes).chunk_bytes;
  std::vector<double> best;
  double least = 0;
  for (int doublings = 0; doublings <= 8; ++doublings) {
    double const seconds = simulated_all_reduce(planned, scale, costs, chunks)(parameters);
    if (best.empty() || seconds < least) {
      best = chunks;
      least = seconds;
    }
    for (double& each : chunks) each *= 2;
  }
  return best;
}

}  // namespace blink_bench
