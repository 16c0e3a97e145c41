// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/reducers/detail/rows.hpp>

#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

// The binary tree along which blocks are combined, whichever rank holds them.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Blocks in a row, all of a node of the tree of blocks.
struct block_node {
  std::size_t begin = 0, end = 0;
  [[nodiscard]] constexpr std::size_t size() const { return end - begin; }
  friend bool operator==(block_node const&, block_node const&) = default;
};

/// The two nodes below a node: halves, or two thirds and one if the number is odd. So ranks that
/// hold equal parts of 2^a 3^b blocks hold few nodes.
///
/// Pre: two blocks or more
[[nodiscard]] constexpr std::pair<block_node, block_node> children_of(block_node const& node) {
  auto const size = node.size();
  auto const left = size % 2 == 0 ? size / 2 : size % 3 == 0 ? size / 3 * 2 : size - 1;
  return {{node.begin, node.begin + left}, {node.begin + left, node.end}};
}

/// The largest nodes that `part` holds, of the tree below `node`, in order.
inline void add_nodes_within(block_node const& node, block_node const& part,
                             std::vector<block_node>& result) {
  if (node.end <= part.begin || part.end <= node.begin) return;
  if (part.begin <= node.begin && node.end <= part.end) {
    result.push_back(node);
    return;
  }
  auto const [left, right] = children_of(node);
  add_nodes_within(left, part, result);
  add_nodes_within(right, part, result);
}

/// Throws: precondition_error unless the blocks divide into equal parts, one for each rank.
inline void expect_blocks(std::size_t blocks, std::size_t ranks) {
  if (blocks == 0 || blocks % ranks != 0) {
    throw precondition_error("all_reduce_blocks: " + std::to_string(blocks) + " blocks on " +
                             std::to_string(ranks) + " ranks, expected a multiple of the ranks");
  }
}

/// The nodes of the tree of blocks whose totals each rank sends, and their largest number.
struct nodes_of_ranks {
  std::vector<std::vector<block_node>> nodes;  ///< by rank
  std::size_t most = 0;
};

[[nodiscard]] inline nodes_of_ranks nodes_by_rank(std::size_t ranks, std::size_t blocks) {
  nodes_of_ranks result;
  auto const own = blocks / ranks;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    auto& nodes = result.nodes.emplace_back();
    add_nodes_within({0, blocks}, {rank * own, (rank + 1) * own}, nodes);
    if (nodes.size() > result.most) result.most = nodes.size();
  }
  return result;
}

/// Combines elements along the tree of blocks, a row of them at a time.
///
/// Time: a combination for each element and block, rows in the first cache.
template <class Accumulator, class Reducer>
class block_combiner {
 public:
  static constexpr std::size_t row = 512;  ///< elements

  explicit block_combiner(Reducer const& reduce) : reduce_(reduce) {}

  /// The totals of a node for the elements [at, at + count), `count` <= `row`: in `buffer`, or
  /// where they are already.
  ///
  /// leaf: `leaf(node, at, count, buffer)` returns the totals of a node that it knows, which it may
  ///       write to the buffer, or null; it knows all nodes of one block
  template <class Leaf>
  [[nodiscard]] Accumulator const* combine(block_node const& node, std::size_t at,
                                           std::size_t count, Accumulator* buffer,
                                           Leaf const& leaf) const {
    if (auto const* known = leaf(node, at, count, buffer)) return known;
    auto const [left, right] = children_of(node);
    std::array<Accumulator, row> other;
    auto const* const first = combine(left, at, count, buffer, leaf);
    auto const* const second = combine(right, at, count, other.data(), leaf);
    combine_rows(first, second, buffer, count, reduce_);
    return buffer;
  }

  /// Writes the totals of a node for the elements [at, at + count) to `to`.
  template <class Leaf>
  void write(block_node const& node, std::size_t at, std::size_t count, Accumulator* to,
             Leaf const& leaf) const {
    for (std::size_t done = 0; done < count; done += row) {
      auto const length = row < count - done ? row : count - done;
      auto const* const totals = combine(node, at + done, length, to + done, leaf);
      if (totals != to + done) std::memcpy(to + done, totals, length * sizeof(Accumulator));
    }
  }

 private:
  Reducer const& reduce_;
};

}}}  // namespace blink::BLINK_ABI::detail
