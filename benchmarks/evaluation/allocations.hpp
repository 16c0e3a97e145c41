// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/error.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/topology/topology.hpp>

#include "../planning/plan_checked.hpp"
#include <support/dgx1_classes.hpp>
#include <support/small_machines.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// Trees beside rings on every class of allocations of a DGX-1.

namespace blink::bench {

/// GB/s of a PCIe hop, which a ring library falls back to where no ring of NVLinks closes. Measured
/// values of PCIe 3 x16 between sockets are in this range.
inline constexpr std::array<std::int64_t, 3> pcie_hops{6, 8, 10};

/// A rate in GB/s: by the weights of the trees, and by simulation of `simulated_bytes`.
struct rate_pair {
  double computed = 0;
  double simulated = 0;
};

/// An allocation with its trees, its rings of NVLinks if some close, and its fallbacks to PCIe.
struct allocation_rates {
  std::string name;  ///< as `dgx1_class::name`
  std::size_t gpus = 0;
  struct of_collective {
    rate_pair trees;
    std::optional<rate_pair> rings;
    std::array<rate_pair, pcie_hops.size()> fallback;  ///< by `pcie_hops`

    /// The rate of a ring library whose PCIe hops have this rate.
    [[nodiscard]] rate_pair const& library(std::size_t hop) const {
      return rings ? *rings : fallback[hop];
    }
    /// The ratio of the trees' rate to that of a ring library.
    [[nodiscard]] rate_pair speed_up(std::size_t hop) const {
      auto const& ring = library(hop);
      return {trees.computed / ring.computed, trees.simulated / ring.simulated};
    }
  };
  of_collective broadcast;
  of_collective all_reduce;

  [[nodiscard]] bool is_volta() const { return name.front() == 'V'; }
};

namespace detail {

[[nodiscard]] inline rate_pair rates_of(topology const& machine, plan_request const& request) {
  auto const planned = plan_checked(machine, request);
  return {planned.rate.to_double(), simulated_rate(machine, planned, simulated_bytes)};
}

/// The rates of one ring whose hops all have the rate of a PCIe hop.
[[nodiscard]] inline rate_pair fallback_rates(std::size_t gpus, std::int64_t hop, collective kind) {
  static std::map<std::tuple<std::size_t, std::int64_t, collective>, rate_pair> known;
  auto const [entry, is_new] = known.try_emplace({gpus, hop, kind});
  if (is_new) {
    test::capacity_matrix matrix(gpus, std::vector<std::int64_t>(gpus, 0));
    for (std::size_t i = 0; i < gpus; ++i) matrix[i][(i + 1) % gpus] = hop;
    auto machine = test::direct_machine(matrix);
    for (auto& l : machine.links) l.kind = link_kind::pcie;
    entry->second = rates_of(machine, {kind, {}, planned_by::ring});
  }
  return entry->second;
}

}  // namespace detail

/// An allocation as a machine in GB/s, with links as fast as measured: 22.9 GB/s an NVLink 2 of the
/// DGX-1V, 18.5 GB/s an NVLink 1 of the DGX-1P.
[[nodiscard]] inline topology allocation_machine(test::dgx1_class const& allocation) {
  auto matrix = allocation.matrix;
  for (auto& row : matrix) {
    for (auto& links : row) links *= allocation.name.front() == 'V' ? 229 : 185;
  }
  auto machine = test::direct_machine(matrix);
  machine.steps_per_unit = 10;
  machine.name = allocation.name;
  return machine;
}

/// Plans and simulates both collectives on one allocation.
[[nodiscard]] inline allocation_rates evaluate_allocation(test::dgx1_class const& allocation) {
  auto const machine = allocation_machine(allocation);
  allocation_rates result{allocation.name, allocation.matrix.size(), {}, {}};
  for (auto const kind : {collective::broadcast, collective::all_reduce}) {
    auto& of_kind = kind == collective::broadcast ? result.broadcast : result.all_reduce;
    of_kind.trees = detail::rates_of(machine, {kind, {}, planned_by::exact});
    try {
      of_kind.rings = detail::rates_of(machine, {kind, {}, planned_by::ring});
    } catch (planning_error const&) {  // none closes
    }
    for (std::size_t hop = 0; hop < pcie_hops.size(); ++hop) {
      of_kind.fallback[hop] = detail::fallback_rates(result.gpus, pcie_hops[hop], kind);
    }
  }
  return result;
}

/// All classes: those of the DGX-1V, then those of the DGX-1P.
[[nodiscard]] inline std::vector<allocation_rates> evaluate_allocations() {
  std::vector<allocation_rates> result;
  for (auto const& each : test::dgx1_classes()) result.push_back(evaluate_allocation(each));
  return result;
}

/// The largest ratio and the geometric mean of ratios.
struct speed_up_summary {
  double most = 0;
  double mean = 0;
};

[[nodiscard]] inline speed_up_summary summarise(std::vector<double> const& ratios) {
  speed_up_summary result;
  for (double const each : ratios) {
    result.most = std::max(result.most, each);
    result.mean += std::log(each) / static_cast<double>(ratios.size());
  }
  result.mean = std::exp(result.mean);
  return result;
}

/// The speed-up over a ring library on all allocations of one machine.
struct speed_up_pair {
  speed_up_summary computed;
  speed_up_summary simulated;
};

/// kind: broadcast or all_reduce
[[nodiscard]] inline speed_up_pair summarise(std::vector<allocation_rates> const& all, bool volta,
                                             collective kind, std::size_t hop) {
  std::vector<double> computed, simulated;
  for (auto const& each : all) {
    if (each.is_volta() != volta) continue;
    auto const& of_kind = kind == collective::broadcast ? each.broadcast : each.all_reduce;
    auto const ratio = of_kind.speed_up(hop);
    computed.push_back(ratio.computed);
    simulated.push_back(ratio.simulated);
  }
  return {summarise(computed), summarise(simulated)};
}

}  // namespace blink::bench
