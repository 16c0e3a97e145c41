// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/planning/cost/cost_model.hpp>
#include <blink/simulation/simulate.hpp>
#include <blink/topology/machines.hpp>
#include <blink/topology/subset.hpp>
#include <blink/topology/topology.hpp>

#include "../planning/plan_checked.hpp"
#include "../training/contenders.hpp"
#include "fluid_run.hpp"

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// The same plans in blink's simulation and in SimGrid.

namespace blink_bench {

/// A machine on which both simulators run plans.
struct referee_machine {
  std::string name;
  blink::topology machine;
  double bytes_per_unit = 0;  ///< of one capacity unit; 0: from its name
};

/// The times of one call in both simulators.
struct compared_times {
  double bytes = 0;
  double simgrid_fair = 0;  ///< seconds
  double simgrid_in_turn = 0;
  double blink_fair = 0;
  double blink_fifo = 0;
};

/// Two servers with three and five GPUs, and a NIC of 40 Gbit/s each whose links take 5 us.
[[nodiscard]] inline blink::topology two_distant_servers() {
  auto joined = three_and_five_gpus();
  for (auto& link : joined.links) {
    if (link.kind == blink::link_kind::network) link.latency_seconds = 5e-6;
  }
  return joined;
}

/// The machines of the table. Those whose unit has no rate get that of an NVLink.
[[nodiscard]] inline std::vector<referee_machine> referee_machines() {
  namespace machines = blink::machines;
  constexpr double nvlink = 25e9;
  return {{"DGX-1V", machines::dgx1v()},
          {"DGX-1V {0..5}", blink::subset(machines::dgx1v(), {0, 1, 2, 3, 4, 5})},
          {"DGX-1V {0,1,2,3,4,6}", blink::subset(machines::dgx1v(), {0, 1, 2, 3, 4, 6})},
          {"DGX-1P", machines::dgx1p()},
          {"DGX-2", machines::dgx2()},
          {"two DGX-A100", machines::dgx_a100(2)},
          {"MI250", machines::mi250()},
          {"torus 4 x 4", machines::torus(4, 4), nvlink},
          {"mesh 3 x 3", machines::mesh(3, 3), nvlink},
          {"ring of 8", machines::ring(8), nvlink},
          {"two servers, 3 + 5", two_distant_servers()}};
}

/// Calls with more messages are left out: SimGrid takes about a minute for ten million.
inline constexpr double most_referee_messages = 1'000'000;

/// Plans a collective on a machine and runs it in both simulators, with the chunks of the cost
/// model. Sizes with more than `most_referee_messages` messages are left out.
///
/// Throws: std::runtime_error if the simulators count different numbers of messages, or SimGrid
///         fails.
[[nodiscard]] inline std::vector<compared_times> compare_simulators(
    referee_machine const& on, blink::collective kind, std::vector<double> const& sizes) {
  auto const plan = blink::bench::plan_checked(on.machine, {kind, {}, "exact"});
  blink::cost_parameters parameters;
  parameters.bytes_per_unit = on.bytes_per_unit;
  auto const cost = blink::cost_of(on.machine, plan, parameters);
  std::vector<fluid_call> calls;
  for (double const bytes : sizes) {
    auto chunk_bytes = blink::predict(cost, bytes).chunk_bytes;
    if (blink::count_messages(plan, bytes, chunk_bytes) > most_referee_messages) continue;
    calls.push_back({bytes, std::move(chunk_bytes)});
  }
  blink::simulation_options by_blink;
  by_blink.bytes_per_unit = on.bytes_per_unit;
  fluid_options by_simgrid;
  by_simgrid.start_seconds = by_blink.start_seconds;
  by_simgrid.step_seconds = by_blink.step_seconds;
  by_simgrid.window = by_blink.window;
  by_simgrid.bytes_per_unit = on.bytes_per_unit;
  auto const fair = run_fluid(on.machine, plan, calls, by_simgrid);
  by_simgrid.sharing = fluid_sharing::in_turn;
  auto const in_turn = run_fluid(on.machine, plan, calls, by_simgrid);
  std::vector<compared_times> result;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    auto const& call = calls[i];
    auto const simulate = [&](blink::link_sharing sharing) {
      by_blink.sharing = sharing;
      auto const run = blink::simulate(on.machine, plan, call.bytes, call.chunk_bytes, by_blink);
      if (run.messages != fair[i].messages || run.messages != in_turn[i].messages) {
        throw std::runtime_error(on.name + ": " + std::to_string(run.messages) +
                                 " messages in blink, expected as many as in SimGrid, " +
                                 std::to_string(fair[i].messages));
      }
      return run.seconds;
    };
    result.push_back({call.bytes, fair[i].seconds, in_turn[i].seconds,
                      simulate(blink::link_sharing::fair), simulate(blink::link_sharing::fifo)});
  }
  return result;
}

}  // namespace blink_bench
