// SPDX-License-Identifier: Apache-2.0
#pragma once

// Who is together after a split.

#include "abi.hpp"

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace blink_nccl {

/// What a rank asks for.
struct split_wish {
  int color = no_color;
  int key = 0;
};

/// By color, rising: the ranks of the communicator that was split, in the order of their new ranks: by
/// rising key, and ranks of equal keys as they are here. Ranks without a color are nowhere.
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
