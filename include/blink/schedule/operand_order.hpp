// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/detail/block_tree.hpp>
#include <blink/schedule/schedule.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The order in which the trees of a schedule can combine. Each includes those before it.
enum class operand_order : std::uint8_t {
  any,
  in_order,       ///< the order of the ranks, with any brackets
  tree_of_ranks,  ///< also the brackets of `order_promise::ranks`
};

namespace detail {

/// Consecutive ranks of every subtree towards the root, by the subtree's root. Empty if some
/// subtree has ranks that are not consecutive.
///
/// Time: O(V h) for a tree of height h.
template <class = when_used>
[[nodiscard]] std::vector<block_node> ranks_below(schedule_tree const& tree) {
  std::size_t const ranks = tree.reduce_parent.size();
  std::vector<block_node> result(ranks, {SIZE_MAX, 0});
  std::vector<std::size_t> sizes(ranks, 0);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (int at = static_cast<int>(rank); at >= 0;
         at = tree.reduce_parent[static_cast<std::size_t>(at)]) {
      auto& below = result[static_cast<std::size_t>(at)];
      if (rank < below.begin) below.begin = rank;
      below.end = rank + 1;
      ++sizes[static_cast<std::size_t>(at)];
    }
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (result[rank].size() != sizes[rank]) return {};
  }
  return result;
}

/// True if `part` is a node of the tree below `node`.
[[nodiscard]] constexpr bool is_node(block_node const& part, block_node node) {
  while (node != part) {
    if (part.begin < node.begin || node.end < part.end || node.size() == 1) return false;
    auto const [left, right] = children_of(node);
    node = part.begin < left.end ? left : right;
  }
  return true;
}

}  // namespace detail

/// The strongest order in which all trees of a schedule can combine.
///
/// At every rank the children are ordered by rising rank, with the rank itself among them. So trees
/// keep the order of the ranks if every subtree holds consecutive ranks. They combine along the
/// tree of ranks if these are also the ranks of a node of that tree: then the operands of every
/// rank are nodes.
///
/// Time:   O(T V (h + log V)) for trees of height h.
/// Pre:    `validate(schedule)` passed.
template <class = when_used>
[[nodiscard]] operand_order operands_of(schedule const& source) {
  auto result = operand_order::tree_of_ranks;
  for (auto const& tree : source.trees) {
    if (tree.reduce_parent.empty()) continue;
    auto const below = detail::ranks_below(tree);
    if (below.empty()) return operand_order::any;
    for (auto const& ranks : below) {
      if (!detail::is_node(ranks, {0, below.size()})) result = operand_order::in_order;
    }
  }
  return result;
}

/// True if the trees keep the order of the ranks, which reducers that are not commutative need.
///
/// Time:   O(T V h) for trees of height h.
/// Pre:    `validate(schedule)` passed.
template <class = when_used>
[[nodiscard]] bool reduces_in_order(schedule const& source) {
  return operands_of(source) >= operand_order::in_order;
}

}}  // namespace blink::BLINK_ABI
