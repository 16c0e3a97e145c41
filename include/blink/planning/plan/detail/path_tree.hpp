// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/forest.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Adds a way over nodes, from a rank to another, as the smallest tree: the first sends, the last
/// receives, ranks between forward, relays are inside paths. A way over parallel links is one.
///
/// way: positions in `machine.nodes`. Trees of one pair come one after the other.
inline void add_path(std::vector<tree>& trees, topology const& machine, std::vector<int> const& way,
                     rational const& weight) {
  auto const id = [&](std::size_t i) { return machine.nodes[static_cast<std::size_t>(way[i])].id; };
  tree result{id(0), weight, {}, {}, {id(0), id(way.size() - 1)}};
  tree_edge edge{id(0), 0, {id(0)}};
  for (std::size_t i = 1; i < way.size(); ++i) {
    edge.path.push_back(id(i));
    if (machine.nodes[static_cast<std::size_t>(way[i])].kind == node_kind::relay) continue;
    edge.to = id(i);
    result.broadcast.push_back(std::exchange(edge, {id(i), 0, {id(i)}}));
  }
  for (auto i = trees.rbegin(); i != trees.rend() && i->members == result.members; ++i) {
    if (i->broadcast != result.broadcast) continue;
    i->weight += weight;
    return;
  }
  trees.push_back(std::move(result));
}

}}}  // namespace blink::BLINK_ABI::detail
