// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/subset.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The ranks of one server.
struct server {
  int server = 0;        ///< as the nodes name it
  std::vector<int> ids;  ///< node ids, in the order of the nodes
};

/// The servers of a machine in the order of their first ranks. A rank without a server is a server
/// by itself.
[[nodiscard]] inline std::vector<server> servers_of(topology const& machine) {
  std::vector<server> result;
  std::map<int, std::size_t> known;
  for (int const at : machine.rank_positions()) {
    auto const& n = machine.nodes[static_cast<std::size_t>(at)];
    if (n.server < 0) {
      result.push_back({n.server, {n.id}});
      continue;
    }
    auto const [entry, fresh] = known.emplace(n.server, result.size());
    if (fresh) result.push_back({n.server, {}});
    result[entry->second].ids.push_back(n.id);
  }
  return result;
}

/// The servers of a machine of two or more. Throws: planning_error if the machine is a single
/// server.
[[nodiscard]] inline std::vector<server> several_servers(topology const& machine,
                                                         std::string const& planner) {
  auto result = servers_of(machine);
  if (result.size() < 2) {
    throw planning_error(planner + ": machine '" + machine.name +
                         "' is one server, expected two or more (nodes with different \"server\")");
  }
  return result;
}

/// The rail of a rank: the nearest node outside its server that the rank reaches over switches of
/// the server; -1: none.
[[nodiscard]] inline int rail_of(topology const& machine, int rank_id) {
  std::vector<int> reached{machine.position_of(rank_id)};
  auto const server = machine.nodes[static_cast<std::size_t>(reached.front())].server;
  for (std::size_t i = 0; i < reached.size(); ++i) {
    for (auto const& l : machine.links) {
      if (l.tail != reached[i] || l.capacity == 0) continue;
      auto const& head = machine.nodes[static_cast<std::size_t>(l.head)];
      if (head.server != server || head.server < 0) return head.id;
      if (head.kind == node_kind::rank) continue;
      if (std::find(reached.begin(), reached.end(), l.head) == reached.end()) {
        reached.push_back(l.head);
      }
    }
  }
  return -1;
}

/// The ids ordered by rail, so that ranks at the same position in two servers mostly share a rail.
[[nodiscard]] inline std::vector<int> by_rail(topology const& machine,
                                              std::vector<int> const& ids) {
  std::vector<std::tuple<int, std::size_t, int>> order;  // rail, place, id
  for (auto const id : ids) order.emplace_back(rail_of(machine, id), order.size(), id);
  std::sort(order.begin(), order.end());
  std::vector<int> result;
  for (auto const& entry : order) result.push_back(std::get<2>(entry));
  return result;
}

/// The inside of a server: its ranks, its switches, and the links between them.
[[nodiscard]] inline topology inside_of(topology const& machine, server const& where) {
  std::vector<bool> keep(machine.nodes.size(), false);
  for (std::size_t i = 0; i < machine.nodes.size(); ++i) {
    auto const& n = machine.nodes[i];
    keep[i] = where.server >= 0 ? n.server == where.server : n.id == where.ids.front();
  }
  auto part = without_idle_switches(
      kept_part(machine, keep, std::vector<bool>(machine.links.size(), true)));
  part.name = machine.name + ", server " + std::to_string(where.server);
  return part;
}

/// The element after `times` steps round a list.
[[nodiscard]] inline int round_robin(std::vector<int> const& ids, std::size_t times) {
  return ids[times % ids.size()];
}

/// The list rotated so that it begins with its element `first`.
[[nodiscard]] inline std::vector<int> rotated_to(std::vector<int> ids, std::size_t first) {
  std::rotate(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(first % ids.size()),
              ids.end());
  return ids;
}

}}}  // namespace blink::BLINK_ABI::detail
