// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// Reachability between the ranks of a machine, through links of all kinds or of one.

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// By position of a node: the heads of its links that `use` accepts. If not `forward`, the tails of
/// those towards it.
template <class Use>
std::vector<std::vector<int>> successors(topology const& machine, bool forward, Use use) {
  std::vector<std::vector<int>> result(machine.nodes.size());
  for (auto const& l : machine.links) {
    if (!use(l)) continue;
    auto const [from, to] = forward ? std::pair(l.tail, l.head) : std::pair(l.head, l.tail);
    result[static_cast<std::size_t>(from)].push_back(to);
  }
  return result;
}

/// By position of a node: true if some node in `start` reaches that node along links that `use`
/// accepts. If not `forward`, true if that node reaches some node in `start`.
template <class Use>
std::vector<bool> reached(topology const& machine, std::vector<int> const& start, bool forward,
                          Use use) {
  auto const next = successors(machine, forward, use);
  std::vector<bool> result(machine.nodes.size());
  std::vector<int> open = start;
  for (int const v : start) result[static_cast<std::size_t>(v)] = true;
  while (!open.empty()) {
    auto const here = static_cast<std::size_t>(open.back());
    open.pop_back();
    for (int const to : next[here]) {
      if (result[static_cast<std::size_t>(to)]) continue;
      result[static_cast<std::size_t>(to)] = true;
      open.push_back(to);
    }
  }
  return result;
}

/// True if the links that `use` accepts lead from every rank to every other rank.
template <class Use>
bool joins_all_ranks(topology const& machine, Use use) {
  auto const ranks = machine.rank_positions();
  if (ranks.empty()) return true;
  auto const out = reached(machine, {ranks.front()}, true, use);
  auto const in = reached(machine, {ranks.front()}, false, use);
  return std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
    return out[static_cast<std::size_t>(rank)] && in[static_cast<std::size_t>(rank)];
  });
}

/// By position of a node: the number of its strongly connected component.
///
/// Source: M. Sharir, "A strong-connectivity algorithm and its applications in data flow analysis",
///         1981.
/// Time:   O(nodes + links).
inline std::vector<int> strong_components(topology const& machine) {
  auto const all = [](link const&) { return true; };
  auto const next = successors(machine, true, all);
  auto const before = successors(machine, false, all);
  std::vector<std::size_t> looked(next.size(), 0);  // successors that the search has looked at
  std::vector<bool> is_seen(next.size());
  std::vector<int> order;  // in which the search leaves nodes
  std::vector<int> open;
  for (int root = 0; root < std::ssize(next); ++root) {
    if (is_seen[static_cast<std::size_t>(root)]) continue;
    is_seen[static_cast<std::size_t>(root)] = true;
    open.push_back(root);
    while (!open.empty()) {
      auto const here = static_cast<std::size_t>(open.back());
      if (looked[here] == next[here].size()) {
        order.push_back(open.back());
        open.pop_back();
        continue;
      }
      int const to = next[here][looked[here]++];
      if (is_seen[static_cast<std::size_t>(to)]) continue;
      is_seen[static_cast<std::size_t>(to)] = true;
      open.push_back(to);
    }
  }
  std::vector<int> result(next.size(), -1);
  int count = 0;
  while (!order.empty()) {
    int const root = order.back();
    order.pop_back();
    if (result[static_cast<std::size_t>(root)] >= 0) continue;
    result[static_cast<std::size_t>(root)] = count;
    open.push_back(root);
    while (!open.empty()) {
      auto const here = static_cast<std::size_t>(open.back());
      open.pop_back();
      for (int const from : before[here]) {
        if (result[static_cast<std::size_t>(from)] >= 0) continue;
        result[static_cast<std::size_t>(from)] = count;
        open.push_back(from);
      }
    }
    ++count;
  }
  return result;
}

}  // namespace detail

/// The ranks in groups. Two ranks share a group if each reaches the other, through switches and
/// other ranks.
///
/// Time: O(nodes + links).
/// Pre:  `validate(machine)` does not throw.
/// Post: every rank is in one group, by its id. Groups are in the order of their first ranks, ranks
///       in the order of the machine.
[[nodiscard]] inline std::vector<std::vector<int>> rank_groups(topology const& machine) {
  auto const component = detail::strong_components(machine);
  std::vector<std::size_t> group_of(machine.nodes.size(), SIZE_MAX);  // by component
  std::vector<std::vector<int>> result;
  for (int const rank : machine.rank_positions()) {
    auto const at = static_cast<std::size_t>(rank);
    auto& group = group_of[static_cast<std::size_t>(component[at])];
    if (group == SIZE_MAX) {
      group = result.size();
      result.emplace_back();
    }
    result[group].push_back(machine.nodes[at].id);
  }
  return result;
}

/// Checks that every rank reaches every other rank.
///
/// Pre:    `validate(machine)` does not throw.
/// Throws: input_error that names two ranks without a route between them and lists `rank_groups`.
inline void require_connected(topology const& machine) {
  auto const groups = rank_groups(machine);
  if (groups.size() < 2) return;
  auto const a = groups[0].front();
  auto const b = groups[1].front();
  auto const from_a =
      detail::reached(machine, {machine.position_of(a)}, true, [](link const&) { return true; });
  bool const reaches = from_a[static_cast<std::size_t>(machine.position_of(b))];
  auto text = "machine '" + machine.name + "': no path from rank " +
              std::to_string(reaches ? b : a) + " to rank " + std::to_string(reaches ? a : b) +
              ", expected one joined group, found";
  for (auto const& group : groups) {
    text += " {";
    for (auto const id : group) text += (id == group.front() ? "" : " ") + std::to_string(id);
    text += "}";
  }
  throw input_error(text);
}

/// The kind of link that collectives should use alone: the fastest kind of the machine, if its
/// links join all ranks. The slower kinds, such as the PCIe tree beside NVLink, then add little
/// rate and much latency.
///
/// "Fastest" is the order of `link_kind`: nvlink, xgmi, xelink, c2c, pcie, socket, network, memory.
/// A slower kind is never preferred to all links. The network alone joins two servers, for example,
/// but their NVLinks make most of their rate.
///
/// Time: O(nodes + links).
/// Pre:  `validate(machine)` does not throw.
/// Post: nothing, for all links, if the fastest kind does not join all ranks. Also nothing if all
///       links are of one kind, or if the kind of a link is unknown.
[[nodiscard]] inline std::optional<link_kind> fastest_connecting_kind(topology const& machine) {
  if (machine.links.empty()) return std::nullopt;
  auto const [least, most] =
      std::minmax_element(machine.links.begin(), machine.links.end(),
                          [](link const& a, link const& b) { return a.kind < b.kind; });
  if (least->kind == link_kind::unknown || least->kind == most->kind) return std::nullopt;
  auto const kind = least->kind;
  if (!detail::joins_all_ranks(machine, [&](link const& l) { return l.kind == kind; })) {
    return std::nullopt;
  }
  return kind;
}

}}  // namespace blink::BLINK_ABI
