// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/egress_excess.hpp>
#include <blink/graph/splitting_off.hpp>
#include <blink/packing/trees/arborescence_packing.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The error for a switch that has more capacity out than in and cannot copy. The rate of the cuts
/// needs all of that capacity. For reduce and reduce-scatter, the switch has more capacity in than
/// out and cannot reduce.
struct unbalanced_switch : planning_error {
  unbalanced_switch(topology const& machine, int position, bool is_reversed)
      : planning_error(message(machine, position, is_reversed)), at(position) {}

  int at;  ///< position of the node

 private:
  static std::string message(topology const& machine, int position, bool is_reversed) {
    std::int64_t in = 0, out = 0;
    for (auto const& l : machine.links) {
      if (l.head == position) in += l.capacity;
      if (l.tail == position) out += l.capacity;
    }
    if (is_reversed) std::swap(in, out);
    auto const& n = machine.nodes[static_cast<std::size_t>(position)];
    return "machine '" + machine.name + "': switch " + std::to_string(n.id) +
           (n.label.empty() ? "" : " (" + n.label + ")") + " has " +
           machine.in_units(in).to_text() + " " + machine.unit + " in and " +
           machine.in_units(out).to_text() + " out, and forwards without " +
           (is_reversed ? "adding up" : "copying") +
           ": the rate that the cuts allow cannot be split into routes through it; the planner "
           "exact finds what can";
  }
};

namespace detail {

/// Plans with `make(machine, request)`. A reduce is planned as a broadcast, and a reduce-scatter as
/// an all-gather, on the reversed machine; their plan is reversed.
template <class Make>
[[nodiscard]] plan plan_forward(topology const& machine, plan_request request, Make&& make) {
  auto const forward = forward_collective(request.collective);
  if (forward == request.collective) return make(machine, request);
  request.collective = forward;
  for (auto& link : request.constraints.required_links) std::swap(link.first, link.second);
  auto const reversed_machine = reversed(machine);
  try {
    return reversed(make(reversed_machine, request), machine);
  } catch (unbalanced_switch const& fault) {
    throw unbalanced_switch(reversed_machine, fault.at, true);
  }
}

/// The switch to name in an error: the one that could not be split, or the one whose egress excess
/// is the cause.
[[nodiscard]] inline int unbalanced_cause(topology const& machine,
                                          std::vector<std::int64_t> const& capacity,
                                          std::vector<bool> const& is_switch, int unsplittable) {
  auto const unbalanced = unbalanced_switches(machine, capacity, is_switch);
  for (auto const& each : unbalanced) {
    if (each.switch_node == unsplittable) return unsplittable;
  }
  return unbalanced.empty() ? unsplittable : unbalanced.front().switch_node;
}

/// The rate at which a rank sends to all other ranks.
struct rank_supply {
  int position = 0;  ///< of the node
  rational rate;     ///< in capacity steps of the machine
};

/// A graph of ranks that can carry the supplies, and the number of trees of one capacity step for
/// each root.
struct supplied_graph {
  rank_graph ranks;
  std::vector<root_demand> demands;
};

/// The machine's links, or routes over its switches, as a graph of ranks in which trees for all
/// supplies fit. Capacity steps are small enough for every rate to be whole.
///
/// Pre:    the supplies flow into every rank of the machine.
/// Throws: unbalanced_switch if a switch has more capacity out than in and cannot be split.
[[nodiscard]] inline supplied_graph to_supplied_graph(topology const& machine,
                                                      std::vector<rank_supply> const& supplies) {
  std::int64_t steps = 1;  // to one capacity step of the machine
  for (auto const& s : supplies) steps = common_multiple(steps, s.rate.denominator());
  std::vector<int> vertex(machine.nodes.size(), -1);
  std::vector<bool> is_switch;
  std::vector<int> server;
  supplied_graph result;
  for (std::size_t i = 0; i < machine.nodes.size(); ++i) {
    auto const& n = machine.nodes[i];
    is_switch.push_back(n.kind == node_kind::switch_node);
    server.push_back(n.server);
    if (is_switch.back()) continue;
    vertex[i] = static_cast<int>(result.ranks.ids.size());
    result.ranks.ids.push_back(n.id);
  }
  result.ranks.graph.vertex_count = static_cast<int>(result.ranks.ids.size());
  std::vector<std::int64_t> capacity;
  for (auto const& l : machine.links) {
    capacity.push_back((rational(l.capacity) * steps).numerator());
  }
  std::vector<root_supply> amounts;
  for (auto const& s : supplies) amounts.push_back({s.position, (s.rate * steps).numerator()});
  auto split = [&] {
    try {
      return split_off_switches(machine, capacity, is_switch, amounts, server);
    } catch (unsplittable_switch const& fault) {
      throw unbalanced_switch(machine, unbalanced_cause(machine, capacity, is_switch, fault.vertex),
                              false);
    }
  }();
  std::int64_t divisor = 0;
  for (auto const& r : split.routes) divisor = std::gcd(divisor, r.capacity);
  for (auto const& s : amounts) divisor = std::gcd(divisor, s.amount * split.scale);
  if (divisor == 0) divisor = 1;
  for (auto& r : split.routes) {
    result.ranks.graph.arcs.push_back(
        {vertex[static_cast<std::size_t>(r.tail)], vertex[static_cast<std::size_t>(r.head)]});
    result.ranks.capacity.push_back(r.capacity / divisor);
    for (int& v : r.path) v = machine.nodes[static_cast<std::size_t>(v)].id;
    result.ranks.paths.push_back(std::move(r.path));
  }
  for (auto const& s : amounts) {
    result.demands.push_back(
        {vertex[static_cast<std::size_t>(s.root)], s.amount * split.scale / divisor});
  }
  result.ranks.step = rational(divisor, machine.steps_per_unit) / steps / split.scale;
  return result;
}

}  // namespace detail
}}  // namespace blink::BLINK_ABI
