// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/graph/symmetries.hpp>
#include <blink/packing/trees/all_gather_rate.hpp>
#include <blink/packing/trees/symmetric_packing.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {
namespace detail {

/// The ranks of a machine by server, then by position: the order in which servers look alike.
[[nodiscard]] inline std::vector<int> ranks_by_server(topology const& machine) {
  auto result = machine.rank_positions();
  auto const server = [&](int at) { return machine.nodes[static_cast<std::size_t>(at)].server; };
  std::sort(result.begin(), result.end(),
            [&](int a, int b) { return std::pair(server(a), a) < std::pair(server(b), b); });
  return result;
}

}  // namespace detail

/// Plans an all-gather on a machine that looks alike from every rank. Trees are found for one rank
/// and carried over to all others, so the time hardly depends on the number of ranks.
///
/// optimum: from `all_gather_rate` on the machine.
/// Time:    see `find_symmetries` and `pack_symmetric_trees`; O(N^2) tree edges are written.
/// Post:    a plan of the trees passes `check_plan` with the rate N * optimum. Nothing if not
///          enough symmetries were found, or no packing with that rate.
[[nodiscard]] inline std::optional<std::vector<tree>> plan_symmetric_all_gather(
    topology const& machine, all_gather_rate_result const& optimum) {
  auto const ranks = detail::ranks_by_server(machine);
  auto const capacity = detail::capacities_of(machine);
  auto const symmetries = find_symmetries(machine, capacity, ranks);
  if (!symmetries) return std::nullopt;
  auto const packed =
      pack_symmetric_trees(machine, capacity, ranks, *symmetries, optimum.rate_per_root);
  if (!packed) return std::nullopt;
  std::vector<tree> result;
  auto const id = [&](int position) {
    return machine.nodes[static_cast<std::size_t>(position)].id;
  };
  for (auto const& image : symmetries->image) {
    for (auto const& p : *packed) {
      tree t;
      t.root = id(image[static_cast<std::size_t>(ranks.front())]);
      t.weight = machine.in_units(p.weight);
      t.broadcast.reserve(p.paths.size());
      for (auto const& path : p.paths) {
        std::vector<int> nodes;
        for (int const v : path) nodes.push_back(id(image[static_cast<std::size_t>(v)]));
        t.broadcast.push_back({nodes.front(), nodes.back(), nodes});
      }
      result.push_back(std::move(t));
    }
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
