// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/detail/node_labels.hpp>
#include <blink/topology/device_tree.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// Ranks without a kind of link between GPUs that most other ranks of their server have.
inline void find_ranks_without(topology const& machine, std::vector<std::string>& found) {
  for (auto const kind : {link_kind::nvlink, link_kind::xgmi, link_kind::xelink}) {
    std::set<int> with;  // positions
    for (auto const& l : machine.links) {
      if (l.kind == kind) with.insert({l.tail, l.head});
    }
    std::map<int, std::pair<std::size_t, std::vector<std::string>>> servers;  // with, without
    for (int const rank : machine.rank_positions()) {
      auto const& n = machine.nodes[static_cast<std::size_t>(rank)];
      auto& [count, without] = servers[n.server];
      if (with.contains(rank)) {
        ++count;
      } else {
        without.push_back(n.label);
      }
    }
    for (auto const& [server, ranks] : servers) {
      auto const& [count, without] = ranks;
      if (without.empty() || count <= without.size()) continue;
      found.push_back(few_of(without) + ": no " + std::string(to_text(kind)) + ", but " +
                      std::to_string(count) + " others have");
    }
  }
}

/// PCIe switches whose link up is far slower than that of a rank below.
inline void find_narrow_bridges(topology const& machine, std::vector<std::string>& found) {
  constexpr std::int64_t far_slower = 4;
  device_tree const tree(machine);
  std::map<std::pair<rational, rational>, std::vector<std::string>> bridges;  // up, below
  for (int n = 0; n < static_cast<int>(machine.nodes.size()); ++n) {
    if (tree.parent(n) < 0) continue;
    std::int64_t below = 0;
    for (auto const& child : tree.children(n)) {
      bool const is_rank =
          machine.nodes[static_cast<std::size_t>(child.node)].kind == node_kind::rank;
      if (is_rank && child.kind == link_kind::pcie) {
        below = std::max(below, tree.between(child.node, n, child.kind).first);
      }
    }
    auto const up = tree.between(n, tree.parent(n), link_kind::pcie).first;
    if (up > 0 && below / far_slower >= up) {
      bridges[{machine.in_units(up), machine.in_units(below)}].push_back(
          machine.nodes[static_cast<std::size_t>(n)].label);
    }
  }
  for (auto const& [rates, labels] : bridges) {
    found.push_back(few_of(labels) + ": " + rates.first.to_text() + " " + machine.unit +
                    " up, above links of " + rates.second.to_text());
  }
}

}  // namespace detail

/// Remarks on what looks wrong in a machine: ranks without the NVLinks that most others of their
/// server have, and PCIe links at a fraction of what is below them. Such a machine may be real, or
/// its description may be wrong.
///
/// Time: as `device_tree`.
[[nodiscard]] inline std::vector<std::string> suspicions(topology const& machine) {
  std::vector<std::string> found;
  detail::find_ranks_without(machine, found);
  detail::find_narrow_bridges(machine, found);
  return found;
}

}}  // namespace blink::BLINK_ABI
