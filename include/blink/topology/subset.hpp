// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/connectivity.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

// Parts of a machine: some of its ranks, or links of one kind.

namespace blink { inline namespace BLINK_ABI {

/// The machine with these ranks only: an allocation.
///
/// The links of other ranks go as well, because a collective may not pass through a device that the
/// job does not own. Switches stay if they still join something.
///
/// ids:    ids of ranks, in any order; the result keeps the machine's order and ids
/// Time:   O((nodes + links) log nodes).
/// Pre:    `validate(machine)` does not throw.
/// Throws: input_error that names an id which is missing, listed twice, or not a rank; input_error
///         for no id.
[[nodiscard]] topology subset(topology const& machine, std::vector<int> const& ids);

/// The machine with links of one kind only, and the switches that they use.
///
/// Time:   O((nodes + links) log nodes).
/// Pre:    `validate(machine)` does not throw.
/// Post:   all ranks are kept. They may be disconnected, see `require_connected`.
/// Throws: input_error that lists the kinds of the machine, if it has other kinds only.
[[nodiscard]] topology only_links(topology const& machine, link_kind kind);

namespace detail {

/// The machine with the nodes and links that are marked.
inline topology kept_part(topology const& machine, std::vector<bool> const& keep_node,
                          std::vector<bool> const& keep_link) {
  topology result{machine.name, machine.unit, machine.steps_per_unit, {}, {}, machine.remarks};
  std::vector<int> position(machine.nodes.size(), -1);
  for (std::size_t i = 0; i < machine.nodes.size(); ++i) {
    if (!keep_node[i]) continue;
    position[i] = static_cast<int>(result.nodes.size());
    result.nodes.push_back(machine.nodes[i]);
  }
  for (std::size_t i = 0; i < machine.links.size(); ++i) {
    auto l = machine.links[i];
    l.tail = position[static_cast<std::size_t>(l.tail)];
    l.head = position[static_cast<std::size_t>(l.head)];
    if (keep_link[i] && l.tail >= 0 && l.head >= 0) result.links.push_back(l);
  }
  return result;
}

/// True if a node with these neighbours can be entered from one node and left to another.
inline bool forwards(std::set<int> const& in, std::set<int> const& out) {
  return !in.empty() && !out.empty() && !(in.size() == 1 && in == out);
}

/// The machine without the switches that forward nothing. Such a switch reaches no rank, no rank
/// reaches it, or it leads only back to the single node from which it is entered. The last rule is
/// repeated until it removes nothing.
///
/// A ring of switches behind a single switch stays. It changes no plan.
inline topology without_idle_switches(topology const& machine) {
  std::vector<std::set<int>> in(machine.nodes.size());
  std::vector<std::set<int>> out(machine.nodes.size());
  for (auto const& l : machine.links) {
    out[static_cast<std::size_t>(l.tail)].insert(l.head);
    in[static_cast<std::size_t>(l.head)].insert(l.tail);
  }
  auto const ranks = machine.rank_positions();
  auto const any = [](link const&) { return true; };
  auto const from_ranks = reached(machine, ranks, true, any);
  auto const to_ranks = reached(machine, ranks, false, any);

  std::vector<bool> keep(machine.nodes.size(), true);
  std::vector<int> open;  // switches to check
  for (std::size_t v = 0; v < keep.size(); ++v) {
    if (machine.nodes[v].kind == node_kind::switch_node) open.push_back(static_cast<int>(v));
  }
  while (!open.empty()) {
    int const switch_node = open.back();
    auto const v = static_cast<std::size_t>(switch_node);
    open.pop_back();
    if (!keep[v] || (from_ranks[v] && to_ranks[v] && forwards(in[v], out[v]))) continue;
    keep[v] = false;
    for (auto const& [near, far] : {std::pair(&in[v], &out), std::pair(&out[v], &in)}) {
      for (int const other : *near) {
        (*far)[static_cast<std::size_t>(other)].erase(switch_node);
        if (machine.nodes[static_cast<std::size_t>(other)].kind == node_kind::switch_node) {
          open.push_back(other);
        }
      }
    }
  }
  return kept_part(machine, keep, std::vector<bool>(machine.links.size(), true));
}

}  // namespace detail

inline topology subset(topology const& machine, std::vector<int> const& ids) {
  auto const fail = [&](std::string const& what) {
    std::string ranks;
    for (int const r : machine.rank_positions()) {
      ranks += " " + std::to_string(machine.nodes[static_cast<std::size_t>(r)].id);
    }
    throw input_error("machine '" + machine.name + "': " + what + ", expected some of the ranks" +
                      ranks);
  };
  if (ids.empty()) fail("no rank chosen");
  std::vector<bool> keep(machine.nodes.size());
  for (std::size_t v = 0; v < keep.size(); ++v) {
    keep[v] = machine.nodes[v].kind == node_kind::switch_node;
  }
  for (int const id : ids) {
    int const position = machine.position_of(id);
    if (position < 0) fail("no node has the id " + std::to_string(id));
    auto const v = static_cast<std::size_t>(position);
    if (machine.nodes[v].kind == node_kind::switch_node)
      fail("node " + std::to_string(id) + " is a switch");
    if (keep[v]) fail("rank " + std::to_string(id) + " is chosen twice");
    keep[v] = true;
  }
  std::vector<bool> const all_links(machine.links.size(), true);
  return detail::without_idle_switches(detail::kept_part(machine, keep, all_links));
}

inline topology only_links(topology const& machine, link_kind kind) {
  std::vector<bool> keep_link;
  std::set<link_kind> kinds;
  for (auto const& l : machine.links) {
    keep_link.push_back(l.kind == kind);
    kinds.insert(l.kind);
  }
  if (!kinds.empty() && !kinds.contains(kind)) {
    std::string found;
    for (auto const k : kinds) found += (found.empty() ? "" : ", ") + std::string(to_text(k));
    throw input_error("machine '" + machine.name + "': no link of kind " +
                      std::string(to_text(kind)) +
                      ", expected one of the kinds that it has: " + found);
  }
  std::vector<bool> const all_nodes(machine.nodes.size(), true);
  return detail::without_idle_switches(detail::kept_part(machine, all_nodes, keep_link));
}

}}  // namespace blink::BLINK_ABI
