// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/topology/subset.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace blink::inline BLINK_ABI::detail {

/// The ranks of one server.
struct server {
  int box = 0;           ///< as the nodes name it
  std::vector<int> ids;  ///< node ids, in the order of the nodes
};

/// The servers of a machine in the order of their first ranks. A rank without a box is one by
/// itself.
[[nodiscard]] inline std::vector<server> servers_of(topology const& machine) {
  std::vector<server> result;
  std::map<int, std::size_t> known;
  for (int const at : machine.rank_positions()) {
    auto const& n = machine.nodes[static_cast<std::size_t>(at)];
    if (n.box < 0) {
      result.push_back({n.box, {n.id}});
      continue;
    }
    auto const [entry, fresh] = known.emplace(n.box, result.size());
    if (fresh) result.push_back({n.box, {}});
    result[entry->second].ids.push_back(n.id);
  }
  return result;
}

/// Throws: planning_error if the machine is a single server.
[[nodiscard]] inline std::vector<server> several_servers(topology const& machine,
                                                         std::string const& planner) {
  auto result = servers_of(machine);
  if (result.size() < 2) {
    throw planning_error(planner + ": machine '" + machine.name +
                         "' is one server, expected two or more (nodes with different \"box\")");
  }
  return result;
}

/// The inside of a server: its ranks, its relays, and the links between them.
[[nodiscard]] inline topology inside_of(topology const& machine, server const& where) {
  std::vector<bool> keep(machine.nodes.size(), false);
  for (std::size_t i = 0; i < machine.nodes.size(); ++i) {
    auto const& n = machine.nodes[i];
    keep[i] = where.box >= 0 ? n.box == where.box : n.id == where.ids.front();
  }
  auto part =
      without_idle_relays(kept_part(machine, keep, std::vector<bool>(machine.links.size(), true)));
  part.name = machine.name + ", box " + std::to_string(where.box);
  return part;
}

/// The element after `times` steps round a list.
[[nodiscard]] inline int round_robin(std::vector<int> const& ids, std::size_t times) {
  return ids[times % ids.size()];
}

/// The list turned so that it begins with its element `first`.
[[nodiscard]] inline std::vector<int> turned_to(std::vector<int> ids, std::size_t first) {
  std::rotate(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(first % ids.size()),
              ids.end());
  return ids;
}

}  // namespace blink::inline BLINK_ABI::detail
