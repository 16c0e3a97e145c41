// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/planning/plan/detail/member_view.hpp>
#include <blink/planning/plan/forest.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A tree that spans the ranks of a plan over links that it may use: from the root to each rank over as few
/// links as can be, the lowest node ids among those. Nothing if some rank is not reached.
///
/// towards_root: links are taken in the other direction, and the edges lead to the root
/// Time:         O((nodes + links) log nodes).
[[nodiscard]] inline std::optional<std::vector<tree_edge>> shortest_tree(plan_view const& view,
                                                                         int root,
                                                                         bool towards_root) {
  std::map<int, std::vector<int>> beyond;
  for (auto const& [ends, capacity] : view.capacity) {
    beyond[towards_root ? ends.second : ends.first].push_back(towards_root ? ends.first
                                                                           : ends.second);
  }
  std::map<int, int> before{{root, root}};
  std::vector<int> found{root};
  for (std::size_t k = 0; k < found.size(); ++k) {
    int const at = found[k];
    for (int const node : beyond[at]) {
      if (before.emplace(node, at).second) found.push_back(node);
    }
  }
  std::vector<tree_edge> result;
  for (int const node : found) {
    if (node == root || !view.ranks.contains(node)) continue;
    std::vector<int> path{node};
    do {
      path.push_back(before.at(path.back()));
    } while (!view.ranks.contains(path.back()));
    if (!towards_root) std::reverse(path.begin(), path.end());
    result.push_back({path.front(), path.back(), path});
  }
  if (result.size() + 1 != view.ranks.size()) return std::nullopt;
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
