// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/graph/splitting_off.hpp>
#include <blink/packing/arborescence_packing.hpp>
#include <blink/planning/detail/rank_graph.hpp>
#include <blink/planning/forest.hpp>
#include <blink/rational.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace blink::inline BLINK_ABI::detail {

/// What a rank sends to all others.
struct rank_supply {
  int position = 0;  ///< of the node
  rational rate;     ///< in capacity steps of the machine
};

/// A graph of ranks that can carry the supplies, and how many trees of one capacity step each root
/// needs.
struct supplied_graph {
  rank_graph ranks;
  std::vector<root_demand> demands;
};

/// The machine's links, or routes over its relays, as a graph of ranks in which trees for all
/// supplies fit. In steps small enough for every rate to be whole.
///
/// Pre:    the supplies flow into every rank of the machine.
/// Throws: planning_error if a relay has more capacity out than in and cannot be split.
[[nodiscard]] inline supplied_graph to_supplied_graph(topology const& machine,
                                                      std::vector<rank_supply> const& supplies) {
  std::int64_t steps = 1;  // to one capacity step of the machine
  for (auto const& s : supplies) {
    steps = (rational(steps) * s.rate.denominator() / std::gcd(steps, s.rate.denominator()))
                .numerator();
  }
  std::vector<int> vertex(machine.nodes.size(), -1);
  std::vector<bool> is_relay;
  std::vector<int> box;
  supplied_graph result;
  for (std::size_t i = 0; i < machine.nodes.size(); ++i) {
    auto const& n = machine.nodes[i];
    is_relay.push_back(n.kind == node_kind::relay);
    box.push_back(n.box);
    if (is_relay.back()) continue;
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
      return split_off_relays(machine, capacity, is_relay, amounts, box);
    } catch (unsplittable_relay const& fault) {
      auto const& relay = machine.nodes[static_cast<std::size_t>(fault.vertex)];
      throw planning_error(
          "machine '" + machine.name + "': relay " + std::to_string(relay.id) +
          (relay.label.empty() ? "" : " (" + relay.label + ")") +
          " has more capacity out than in, and forwards without copying; the highest rate by cuts "
          "cannot be split into routes through it");
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

}  // namespace blink::inline BLINK_ABI::detail
