// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/detail/block_tree.hpp>
#include <blink/running/walk/tree_task.hpp>

#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The ranks whose elements operand `k` of a task holds. The operands are the arrivals, with this
/// rank's input at its place in the order of the ranks.
///
/// Pre: the schedule combines along the tree of ranks.
[[nodiscard]] inline block_node ranks_of_operand(tree_task const& here, std::uint32_t k) {
  if (here.reads_input && k == here.input_position) return {here.rank, here.rank + std::size_t{1}};
  auto const& end = here.in[here.reads_input && k > here.input_position ? k - 1 : k];
  return {end.first_rank, end.end_rank};
}

/// True if combining the operands of a task one after the other is combining along the tree of
/// ranks: the first two make a node, and so do the first three, and so on.
///
/// Time: O(operands).
/// Pre:  as `ranks_of_operand`.
[[nodiscard]] inline bool combines_in_a_row(tree_task const& here) {
  std::uint32_t const operands = here.in_count + (here.reads_input ? 1 : 0);
  if (!here.is_reduce || operands <= 2) return true;
  auto node = block_node{ranks_of_operand(here, 0).begin, ranks_of_operand(here, operands - 1).end};
  for (std::uint32_t k = operands - 1; k > 0; --k) {
    auto const [left, right] = children_of(node);
    if (right != ranks_of_operand(here, k)) return false;
    node = left;
  }
  return true;
}

}}}  // namespace blink::BLINK_ABI::detail
