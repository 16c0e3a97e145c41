// SPDX-License-Identifier: Apache-2.0
#pragma once

// The groups of ranks after a split.

#include "abi.hpp"

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace blink_nccl {

/// The arguments of a rank for a split.
struct split_wish {
  int color = no_color;
  int key = 0;
};

/// Returns the ranks of each new communicator, by rising color. Ranks of a color are ordered by
/// rising key, and by their present rank if keys are equal. Ranks without a color are left out.
[[nodiscard]] inline std::vector<std::vector<int>> split_parts(
    std::vector<split_wish> const& by_rank) {
  std::map<int, std::map<std::pair<int, int>, int>> by_color;  // (key, rank) -> rank
  for (std::size_t at = 0; at < by_rank.size(); ++at) {
    int const rank = static_cast<int>(at);
    if (by_rank[at].color == no_color) continue;
    by_color[by_rank[at].color][{by_rank[at].key, rank}] = rank;
  }
  std::vector<std::vector<int>> parts;
  for (auto const& [color, ranks] : by_color) {
    auto& part = parts.emplace_back();
    for (auto const& [place, rank] : ranks) part.push_back(rank);
  }
  return parts;
}

}  // namespace blink_nccl
