// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

#include "planning/machine_rows.hpp"
#include "planning/plan_checked.hpp"
#include "support/dgx1_classes.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace blink::bench {

/// Rates of three all-reduces on one machine, in its units.
struct all_reduce_rates {
  std::string machine;
  double joint = 0;       ///< in-trees and out-trees packed together: the optimum
  double two_phase = 0;   ///< an optimal reduce-scatter, then an optimal all-gather
  double overlapped = 0;  ///< the trees of these two at the same time, in the best proportion of
                          ///< the links that is the same for all
};

/// Adds the load of edges, in units of the machine, by link.
inline void add_loads(std::vector<tree_edge> const& edges, rational const& weight,
                      std::map<std::pair<int, int>, double>& loads) {
  for (auto const& e : edges) {
    for (std::size_t i = 0; i + 1 < e.path.size(); ++i) {
      loads[{e.path[i], e.path[i + 1]}] += weight.to_double();
    }
  }
}

/// The plans that are compared, each checked.
struct all_reduce_plans {
  plan joint, gather, scatter;
};

[[nodiscard]] inline all_reduce_plans plan_all_reduces(topology const& machine) {
  auto const planned = [&](collective kind) { return plan_checked(machine, {kind, {}, "exact"}); };
  return {planned(collective::all_reduce), planned(collective::all_gather),
          planned(collective::reduce_scatter)};
}

inline all_reduce_rates compare_all_reduce(topology const& machine, all_reduce_plans const& plans) {
  auto const& [joint, gather, scatter] = plans;
  all_reduce_rates result{machine.name, joint.rate.to_double(), 0, 0};
  result.two_phase = 1 / (1 / gather.rate.to_double() + 1 / scatter.rate.to_double());

  // The loads of both for a rate of 1 each.
  std::map<std::pair<int, int>, double> loads;
  for (auto const& t : gather.trees) add_loads(t.broadcast, t.weight / gather.rate, loads);
  for (auto const& t : scatter.trees) add_loads(t.reduce, t.weight / scatter.rate, loads);
  std::map<std::pair<int, int>, double> capacity;
  for (auto const& l : machine.links) {
    auto const id = [&](int at) { return machine.nodes[static_cast<std::size_t>(at)].id; };
    capacity[{id(l.tail), id(l.head)}] += machine.in_units(rational(l.capacity)).to_double();
  }
  double least = 0;
  for (auto const& [link, load] : loads) {
    auto const rate = capacity[link] / load;
    if (least == 0 || rate < least) least = rate;
  }
  result.overlapped = least;
  return result;
}

/// Geometric means over machines of one kind.
struct all_reduce_mean {
  std::string machines;
  double over_two_phase = 0, over_overlapped = 0;
  double most_over_two_phase = 0, most_over_overlapped = 0;
};

/// The means over the classes of a DGX-1 and over random graphs.
inline std::vector<all_reduce_mean> all_reduce_means() {
  std::vector<all_reduce_mean> result;
  auto const mean_of = [](std::string name, std::vector<topology> const& machines) {
    all_reduce_mean m{std::move(name)};
    for (auto const& machine : machines) {
      auto const rates = compare_all_reduce(machine, plan_all_reduces(machine));
      auto const two_phase = rates.joint / rates.two_phase;
      auto const overlapped = rates.joint / rates.overlapped;
      m.over_two_phase += std::log(two_phase) / static_cast<double>(machines.size());
      m.over_overlapped += std::log(overlapped) / static_cast<double>(machines.size());
      m.most_over_two_phase = std::max(m.most_over_two_phase, two_phase);
      m.most_over_overlapped = std::max(m.most_over_overlapped, overlapped);
    }
    m.over_two_phase = std::exp(m.over_two_phase);
    m.over_overlapped = std::exp(m.over_overlapped);
    return m;
  };
  for (char const generation : {'V', 'P'}) {
    std::vector<topology> machines;
    for (auto const& c : test::dgx1_classes()) {
      if (c.name.front() == generation) machines.push_back(test::direct_machine(c.matrix));
    }
    auto const name = std::to_string(machines.size()) + " classes of DGX-1" + generation;
    result.push_back(mean_of(name, machines));
  }
  std::vector<topology> random;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    random.push_back(test::make_random_machine(seed, 8, 0, 24));
  }
  result.push_back(mean_of("20 random one-way graphs of 8 ranks", random));
  return result;
}

/// Single machines, and the means.
struct all_reduce_comparison {
  std::vector<all_reduce_rates> machines;
  std::vector<all_reduce_mean> means;
};

inline all_reduce_comparison compare_all_reduces() {
  all_reduce_comparison result{{}, all_reduce_means()};
  for (auto const* name : {"mesh:4x4", "mesh:5x5", "mesh:6x6", "mesh:8x8", "mi250:1", "mi250:2",
                           "dgx2", "dgx_a100:2", "dgx_h100:2", "dgx_a100:4", "torus:4x4"}) {
    auto const machine = read_machine(name);
    result.machines.push_back(compare_all_reduce(machine, plan_all_reduces(machine)));
  }
  return result;
}

}  // namespace blink::bench
