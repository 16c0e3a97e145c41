// SPDX-License-Identifier: Apache-2.0
#pragma once

// Random schedules for the tests of the running side.

#include <blink/schedule/schedule.hpp>
#include <blink/schedule/schedule_blocks.hpp>

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

/// Parents of a random tree: ranks in random order after the root, each below a random earlier one.
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

/// A random path from a rank to another, over some of the other ranks.
inline blink::schedule_tree random_flow(std::mt19937_64& random, int rank_count, int from, int to) {
  blink::schedule_tree tree;
  tree.root = from;
  tree.receivers = {to};
  tree.broadcast_parent.assign(static_cast<std::size_t>(rank_count), -1);
  if (random() % 3 == 0) tree.chunk_bytes = 1 + random() % 500;
  if (from == to) return tree;
  std::vector<int> others;
  for (int rank = 0; rank < rank_count; ++rank) {
    if (rank != from && rank != to && random() % 3 == 0) others.push_back(rank);
  }
  std::shuffle(others.begin(), others.end(), random);
  int at = from;
  others.push_back(to);
  for (int const next : others) {
    tree.broadcast_parent.set(static_cast<std::size_t>(next), at);
    at = next;
  }
  return tree;
}

/// Random paths, one or a few, for every pair of a sender and its receiver.
inline blink::schedule random_flows(std::mt19937_64& random, int rank_count,
                                    blink::collective kind) {
  blink::schedule result;
  result.rank_count = rank_count;
  int const root = below(random, rank_count);
  std::vector<int> next(static_cast<std::size_t>(rank_count));  // of a permutation
  std::iota(next.begin(), next.end(), 0);
  std::shuffle(next.begin(), next.end(), random);
  for (auto& to : next) {
    if (random() % 4 == 0) to = -1;
  }
  if (next[0] < 0) next[0] = *std::max_element(next.begin(), next.end()) < 0 ? 0 : next[0];
  for (int from = 0; from < rank_count; ++from) {
    for (int to = 0; to < rank_count; ++to) {
      bool const is_wanted = kind == blink::collective::gather         ? to == root
                             : kind == blink::collective::scatter      ? from == root
                             : kind == blink::collective::send_to_next ? from + 1 == to
                             : kind == blink::collective::permute
                                 ? next[static_cast<std::size_t>(from)] == to
                                 : true;
      if (!is_wanted) continue;
      int const ways = 1 + (random() % 3 == 0 ? below(random, 3) : 0);
      for (int way = 0; way < ways; ++way) {
        auto tree = random_flow(random, rank_count, from, to);
        tree.weight = random() % 8 + (way == 0 ? 1 : 0);
        result.trees.push_back(std::move(tree));
      }
    }
  }
  std::shuffle(result.trees.begin(), result.trees.end(), random);
  return result;
}

/// A random schedule that carries `kind`; sometimes with more phases than necessary.
///
/// Pre: at least two ranks for `send_to_next`.
inline blink::schedule random_schedule(std::mt19937_64& random, int rank_count,
                                       blink::collective kind) {
  if (blink::is_point_to_point(kind)) return random_flows(random, rank_count, kind);
  blink::schedule result;
  result.rank_count = rank_count;
  bool const one_root = kind == blink::collective::broadcast || kind == blink::collective::reduce;
  int const common_root = below(random, rank_count);
  int const extra = below(random, 4);
  result.is_one_shot = kind == blink::collective::all_reduce && random() % 4 == 0;
  bool const equal_roots = blink::has_equal_roots(result, kind);
  int const trees = equal_roots ? rank_count + extra : 1 + extra;
  for (int index = 0; index < trees; ++index) {
    blink::schedule_tree tree;
    bool const ends_elsewhere = kind == blink::collective::reduce && random() % 3 == 0;
    tree.root = one_root && !ends_elsewhere         ? common_root
                : index < rank_count && equal_roots ? index
                                                    : below(random, rank_count);
    bool const needs_weight = index == 0 || equal_roots;
    tree.weight = random() % 8 + (needs_weight ? 1 : 0);
    if (blink::has_reduce_phase(kind) || random() % 4 == 0) {
      tree.reduce_parent = random_parents(random, rank_count, tree.root);
    }
    if (ends_elsewhere) {
      auto const way = random_flow(random, rank_count, tree.root, common_root);
      tree.broadcast_parent = way.broadcast_parent;
      tree.receivers = way.receivers;
    } else if (blink::has_broadcast_phase(result, kind) || random() % 4 == 0) {
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

/// The schedule with random links of 0.1 to 10 GB/s, at most two of them for each edge.
inline blink::schedule with_random_routes(std::mt19937_64& random, blink::schedule source) {
  int const links = 1 + below(random, 5);
  for (int link = 0; link < links; ++link) {
    source.link_bytes_per_second.push_back(1e8 * (1 + below(random, 100)));
  }
  auto const add = [&](blink::by_rank<int> const& parents,
                       blink::by_rank<std::vector<int>>& routes) {
    if (parents.empty()) return;
    routes.assign(parents.size(), {});
    for (auto const& edge : parents.entries()) {
      std::vector<int> route;
      for (int hop = below(random, 3); hop > 0; --hop) route.push_back(below(random, links));
      routes.set(static_cast<std::size_t>(edge.rank), std::move(route));
    }
  };
  for (auto& tree : source.trees) {
    add(tree.reduce_parent, tree.reduce_route);
    add(tree.broadcast_parent, tree.broadcast_route);
  }
  return source;
}

}  // namespace blink_test
