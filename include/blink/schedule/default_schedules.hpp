// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/schedule/schedule.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

template <class = when_used>
schedule_tree both_phases(int root, std::vector<int> parents) {
  schedule_tree result;
  result.root = root;
  result.reduce_parent = parents;
  result.broadcast_parent = std::move(parents);
  return result;
}

template <class = when_used>
std::vector<int> star_parents(int rank_count, int root) {
  std::vector<int> parents(static_cast<std::size_t>(rank_count), root);
  parents[static_cast<std::size_t>(root)] = -1;
  return parents;
}

}  // namespace detail

/// A schedule in which every rank roots a tree with an equal share, and all other ranks are its
/// children. It takes two steps for an all-reduce, one for all-gather and reduce-scatter. It is
/// best where every pair of ranks is connected equally well, such as behind a switch or in one
/// memory.
///
/// Pre:    rank_count >= 1.
template <class = when_used>
[[nodiscard]] schedule star_schedule(int rank_count) {
  expects(rank_count >= 1, "star_schedule: rank_count below 1, expected at least one rank");
  schedule result;
  result.rank_count = rank_count;
  for (int root = 0; root < rank_count; ++root) {
    result.trees.push_back(detail::both_phases(root, detail::star_parents(rank_count, root)));
  }
  return result;
}

/// An all-reduce in one step, for small buffers. Every rank reads the whole buffer of every other
/// rank and computes the result itself. Inputs stay in place until all ranks have read them, so a
/// call in place copies its input first.
///
/// Pre:    rank_count >= 1.
template <class = when_used>
[[nodiscard]] schedule one_shot_schedule(int rank_count) {
  auto result = star_schedule(rank_count);
  result.is_one_shot = true;
  for (auto& tree : result.trees) tree.broadcast_parent.clear();
  return result;
}

/// A reduce to `root` for large buffers. Every rank combines an equal share and sends it to `root`.
/// That divides the work of combining, but the shares of the other ranks travel once more.
///
/// Pre:    0 <= root < rank_count.
template <class = when_used>
[[nodiscard]] schedule shared_reduce_schedule(int rank_count, int root) {
  detail::expect_root("shared_reduce_schedule", rank_count, root);
  auto result = star_schedule(rank_count);
  for (auto& tree : result.trees) {
    tree.broadcast_parent = by_rank<int>(rank_count, {root, tree.root == root ? -1 : tree.root});
    tree.receivers = {root};
  }
  return result;
}

/// One tree in which all ranks are children of `root`.
///
/// Pre: 0 <= root < rank_count.
template <class = when_used>
[[nodiscard]] schedule flat_schedule(int rank_count, int root) {
  detail::expect_root("flat_schedule", rank_count, root);
  schedule result;
  result.rank_count = rank_count;
  result.trees.push_back(detail::both_phases(root, detail::star_parents(rank_count, root)));
  return result;
}

/// One chain of the ranks root, root+1, … around to root-1. With root 0 it keeps the order of the
/// ranks.
///
/// Pre:    0 <= root < rank_count.
template <class = when_used>
[[nodiscard]] schedule chain_schedule(int rank_count, int root) {
  detail::expect_root("chain_schedule", rank_count, root);
  std::vector<int> parents(static_cast<std::size_t>(rank_count));
  for (int rank = 0; rank < rank_count; ++rank) {
    parents[static_cast<std::size_t>(rank)] =
        rank == root ? -1 : (rank + rank_count - 1) % rank_count;
  }
  schedule result;
  result.rank_count = rank_count;
  result.trees.push_back(detail::both_phases(root, std::move(parents)));
  return result;
}

/// One chain rooted at every rank, with equal shares: the traffic of a ring.
///
/// Pre:    rank_count >= 1.
template <class = when_used>
[[nodiscard]] schedule ring_schedule(int rank_count) {
  expects(rank_count >= 1, "ring_schedule: rank_count below 1, expected at least one rank");
  schedule result;
  result.rank_count = rank_count;
  for (int root = 0; root < rank_count; ++root) {
    result.trees.push_back(chain_schedule(rank_count, root).trees[0]);
  }
  return result;
}

/// One binomial tree. Ranks are counted from the root, and the parent of a rank lacks its lowest
/// set bit. The height is ceil(log2 rank_count). With root 0 it keeps the order of the ranks.
///
/// Pre:    0 <= root < rank_count.
template <class = when_used>
[[nodiscard]] schedule binomial_schedule(int rank_count, int root) {
  detail::expect_root("binomial_schedule", rank_count, root);
  std::vector<int> parents(static_cast<std::size_t>(rank_count));
  for (int distance = 0; distance < rank_count; ++distance) {
    auto const rank = static_cast<std::size_t>((root + distance) % rank_count);
    parents[rank] = distance == 0 ? -1 : (root + (distance & (distance - 1))) % rank_count;
  }
  schedule result;
  result.rank_count = rank_count;
  result.trees.push_back(detail::both_phases(root, std::move(parents)));
  return result;
}

}}  // namespace blink::BLINK_ABI
