// SPDX-License-Identifier: Apache-2.0
#pragma once

// Random schedules for the tests of the running side.

#include <blink/collectives/schedule.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

namespace blink_test {

inline int below(std::mt19937_64& random, int bound) {
  return static_cast<int>(random() % static_cast<std::uint64_t>(bound));
}

/// Parents of a random tree: ranks in random order after the root, each under a random earlier one.
inline std::vector<int> random_parents(std::mt19937_64& random, int rank_count, int root) {
  std::vector<int> order(static_cast<std::size_t>(rank_count));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  std::iter_swap(order.begin(), std::find(order.begin(), order.end(), root));
  std::vector<int> parents(order.size(), -1);
  bool const is_deep = random() % 3 == 0;
  for (int k = 1; k < rank_count; ++k) {
    int const above = is_deep && random() % 4 != 0 ? k - 1 : below(random, k);
    parents[static_cast<std::size_t>(order[static_cast<std::size_t>(k)])] =
        order[static_cast<std::size_t>(above)];
  }
  return parents;
}

/// A random schedule that carries `kind`; sometimes with more phases than it needs.
inline blink::schedule random_schedule(std::mt19937_64& random, int rank_count,
                                       blink::collective kind) {
  blink::schedule result;
  result.rank_count = rank_count;
  bool const one_root = kind == blink::collective::broadcast || kind == blink::collective::reduce;
  int const common_root = below(random, rank_count);
  int const extra = below(random, 4);
  int const trees = blink::has_equal_roots(kind) ? rank_count + extra : 1 + extra;
  for (int index = 0; index < trees; ++index) {
    blink::schedule_tree tree;
    tree.root = one_root                                             ? common_root
                : index < rank_count && blink::has_equal_roots(kind) ? index
                                                                     : below(random, rank_count);
    bool const needs_weight = index == 0 || blink::has_equal_roots(kind);
    tree.weight = random() % 8 + (needs_weight ? 1 : 0);
    if (blink::has_reduce_phase(kind) || random() % 4 == 0) {
      tree.reduce_parent = random_parents(random, rank_count, tree.root);
    }
    if (blink::has_broadcast_phase(kind) || random() % 4 == 0) {
      tree.broadcast_parent = random() % 4 == 0 && !tree.reduce_parent.empty()
                                  ? tree.reduce_parent
                                  : random_parents(random, rank_count, tree.root);
    }
    if (random() % 3 == 0) tree.chunk_bytes = 1 + random() % 500;
    result.trees.push_back(std::move(tree));
  }
  std::shuffle(result.trees.begin(), result.trees.end(), random);
  return result;
}

}  // namespace blink_test
