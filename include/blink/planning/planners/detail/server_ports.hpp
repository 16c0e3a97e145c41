// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/detail/routed_forest.hpp>
#include <blink/planning/plan/detail/servers.hpp>
#include <blink/planning/planners/plan_three_phase.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

// The links of servers to the outside and inside, by rank.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// By node: the rank of the server that the node alone is joined to inside the server, such as the
/// rank of a NIC; ranks have themselves. -1 for all other nodes. Ranks and nodes by position.
[[nodiscard]] inline std::vector<int> owners_inside(topology const& machine, server const& where) {
  constexpr int none = -1, several = -2;
  std::vector<int> result(machine.nodes.size(), none);
  auto const ranks = machine.rank_positions();
  auto const is_rank = [&](int at) { return std::ranges::binary_search(ranks, at); };
  for (auto const& l : machine.links) {
    if (!is_inside(machine, where, l.tail) || !is_inside(machine, where, l.head)) continue;
    for (auto const& [node, other] : {std::pair(l.tail, l.head), std::pair(l.head, l.tail)}) {
      auto& owner = result[static_cast<std::size_t>(node)];
      owner = owner == none || owner == other ? other : several;
    }
  }
  for (std::size_t at = 0; at < result.size(); ++at) {
    auto& owner = result[at];
    if (owner == several || (owner >= 0 && !is_rank(owner))) owner = none;
  }
  for (int const at : ranks) {
    if (is_inside(machine, where, at)) result[static_cast<std::size_t>(at)] = at;
  }
  return result;
}

/// The capacity by which each rank of a server reaches the outside, the narrower direction, in
/// units. The links of a switch at the edge of the server count for the nearest ranks alike. A NIC
/// of one rank is no wider than its links to the rank.
[[nodiscard]] inline std::vector<rational> widths_of(topology const& machine, server const& where,
                                                     std::vector<int> const& ids) {
  auto const nodes = machine.nodes.size();
  std::vector<std::vector<int>> near(nodes);                   // neighbours inside, either way
  std::map<int, std::pair<std::int64_t, std::int64_t>> gates;  // out and in, by position
  for (auto const& l : machine.links) {
    bool const leaves = is_inside(machine, where, l.tail);
    bool const enters = is_inside(machine, where, l.head);
    if (leaves && enters) {
      near[static_cast<std::size_t>(l.tail)].push_back(l.head);
      near[static_cast<std::size_t>(l.head)].push_back(l.tail);
    } else if (leaves) {
      gates[l.tail].first += l.capacity;
    } else if (enters) {
      gates[l.head].second += l.capacity;
    }
  }
  auto const owner = owners_inside(machine, where);
  std::map<int, std::pair<std::int64_t, std::int64_t>> of_owner;  // from it and to it, by position
  for (auto const& l : machine.links) {
    if (owner[static_cast<std::size_t>(l.head)] == l.tail) of_owner[l.head].first += l.capacity;
    if (owner[static_cast<std::size_t>(l.tail)] == l.head) of_owner[l.tail].second += l.capacity;
  }
  for (auto& [gate, capacity] : gates) {
    auto const found = of_owner.find(gate);
    if (found == of_owner.end()) continue;
    capacity.first = std::min(capacity.first, found->second.first);
    capacity.second = std::min(capacity.second, found->second.second);
  }
  std::map<int, std::size_t> place;
  for (std::size_t i = 0; i < ids.size(); ++i) place[machine.position_of(ids[i])] = i;
  std::vector<rational> out(ids.size()), in(ids.size());
  for (auto const& [gate, capacity] : gates) {
    std::vector<std::size_t> nearest;
    std::set<int> seen{gate};
    for (std::vector<int> ring{gate}; nearest.empty() && !ring.empty();) {
      std::vector<int> next;
      for (int const at : ring) {
        if (auto const rank = place.find(at); rank != place.end()) nearest.push_back(rank->second);
        for (int const other : near[static_cast<std::size_t>(at)]) {
          if (seen.insert(other).second) next.push_back(other);
        }
      }
      ring = std::move(next);
    }
    auto const parts = static_cast<std::int64_t>(nearest.size());
    for (auto const i : nearest) {
      out[i] += machine.in_units(capacity.first) / parts;
      in[i] += machine.in_units(capacity.second) / parts;
    }
  }
  std::vector<rational> result;
  for (std::size_t i = 0; i < ids.size(); ++i) result.push_back(std::min(out[i], in[i]));
  return result;
}

/// The links of a rank inside its server, without those of NICs that it alone has, in units.
struct inner_width {
  rational in, out;
};

[[nodiscard]] inline std::vector<inner_width> inner_widths(topology const& machine,
                                                           server const& where,
                                                           std::vector<int> const& ids) {
  auto const owner = owners_inside(machine, where);
  std::map<int, inner_width> by_position;
  for (auto const& l : machine.links) {
    if (!is_inside(machine, where, l.tail) || !is_inside(machine, where, l.head)) continue;
    auto const amount = machine.in_units(l.capacity);
    if (owner[static_cast<std::size_t>(l.tail)] != l.head) by_position[l.head].in += amount;
    if (owner[static_cast<std::size_t>(l.head)] != l.tail) by_position[l.tail].out += amount;
  }
  std::vector<inner_width> result;
  for (int const id : ids) result.push_back(by_position[machine.position_of(id)]);
  return result;
}

/// The ranks of the servers, by position: their links to the outside.
struct server_ports {
  std::vector<std::vector<int>> ids;         ///< by server and position
  std::vector<std::vector<rational>> width;  ///< in units
  std::vector<std::vector<int>> rail;        ///< see `rail_of`
  /// By server: the parts of the buffer that the ranks spread inside, those of roots included.
  /// Empty where equal parts reach all ranks.
  std::vector<std::vector<rational>> parts;
};

/// Gives ranks that have lost their ways to the outside the rails that their server lacks beside
/// another one. So ranks at the same position in two servers still share a rail.
inline void restore_rails(server_ports& ports) {
  auto const lost_of = [](std::vector<int> const& rails) {
    return static_cast<std::size_t>(std::ranges::count(rails, -1));
  };
  auto const whole = std::ranges::find(ports.rail, std::size_t{0}, lost_of);
  if (whole == ports.rail.end()) return;
  for (std::size_t s = 0; s < ports.rail.size(); ++s) {
    auto const lost = lost_of(ports.rail[s]);
    if (lost == 0) continue;
    auto const before = ports;
    std::size_t next_lost = 0, next = lost;  // those without a rail come first
    for (std::size_t k = 0; k < whole->size(); ++k) {
      bool const has_rail = next < whole->size() && before.rail[s][next] == (*whole)[k];
      auto const from = has_rail || next_lost == lost ? next++ : next_lost++;
      ports.ids[s][k] = before.ids[s][from];
      ports.width[s][k] = before.width[s][from];
      ports.rail[s][k] = from < lost ? (*whole)[k] : before.rail[s][from];
    }
  }
}

/// The ports of servers of equally many ranks; nothing if their numbers differ.
[[nodiscard]] inline std::optional<server_ports> ports_of(topology const& machine,
                                                          std::vector<server> const& servers) {
  server_ports result;
  for (auto const& s : servers) {
    if (s.ids.size() != servers.front().ids.size()) return std::nullopt;
    result.ids.push_back(by_rail(machine, s.ids));
    result.width.push_back(widths_of(machine, s, result.ids.back()));
    auto& rail = result.rail.emplace_back();
    for (int const id : result.ids.back()) rail.push_back(rail_of(machine, id));
    result.parts.emplace_back();
  }
  restore_rails(result);
  return result;
}

/// The parts of the buffer that the ranks of a server spread inside, in an all-gather at a rate. A
/// rank whose links inside are narrow receives more from outside. Empty if equal parts suffice, or
/// if no parts do.
///
/// width: by rank, to the outside
/// own:   the part of the buffer that is a rank's own data
[[nodiscard]] inline std::vector<rational> parts_inside(topology const& machine,
                                                        server const& where,
                                                        std::vector<int> const& ids,
                                                        std::vector<rational> const& width,
                                                        rational const& own, rational const& rate) {
  auto const inner = inner_widths(machine, where, ids);
  auto const count = ids.size();
  std::vector<rational> result(count);
  std::vector<bool> is_fixed(count, false);
  rational rest = 1;
  auto others = static_cast<std::int64_t>(count);
  auto const fix = [&](std::size_t k, rational const& part) {
    result[k] = part;
    is_fixed[k] = true;
    rest -= part;
    --others;
  };
  for (std::size_t k = 0; k < count; ++k) {
    auto const least = rational(1) - inner[k].in / rate;
    if (least > rational(1, static_cast<std::int64_t>(count))) fix(k, least);
  }
  if (others == static_cast<std::int64_t>(count)) return {};
  // The others have equal parts, but no more than their links bring.
  for (bool changed = true; changed && others > 0;) {
    changed = false;
    auto const level = rest / others;
    for (std::size_t k = 0; k < count; ++k) {
      auto const most = width[k] / rate + own;
      if (is_fixed[k] || most >= level) continue;
      fix(k, most);
      changed = true;
    }
  }
  if (others == 0 || rest < rational(0)) return {};
  for (std::size_t k = 0; k < count; ++k) {
    if (!is_fixed[k]) result[k] = rest / others;
  }
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
