// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The trees of one plan compared with those of another. Trees are named by their positions.
struct plan_difference {
  rational rate_before, rate_after;
  std::vector<std::pair<std::size_t, std::size_t>> kept;        ///< the same edges and weight
  std::vector<std::pair<std::size_t, std::size_t>> reweighted;  ///< the same edges
  std::vector<std::pair<std::size_t, std::size_t>> changed;  ///< same root, half the edges or more
  std::vector<std::size_t> dropped;                          ///< of the plan before
  std::vector<std::size_t> added;                            ///< of the plan after
  std::vector<std::pair<int, int>> links_left;               ///< used before, not after
  std::vector<std::pair<int, int>> links_taken;              ///< used after, not before
  std::vector<int> ranks_lost, ranks_added;
};

namespace detail {

/// The edges of a tree as a set of (true if towards the root, path).
[[nodiscard]] inline std::set<std::pair<bool, std::vector<int>>> edge_set(tree const& t) {
  std::set<std::pair<bool, std::vector<int>>> result;
  for (auto const& e : t.reduce) result.emplace(true, e.path);
  for (auto const& e : t.broadcast) result.emplace(false, e.path);
  return result;
}

/// The links that the trees of a plan use, as (from, to) node ids.
[[nodiscard]] inline std::set<std::pair<int, int>> links_of(plan const& p) {
  std::set<std::pair<int, int>> result;
  for (auto const& t : p.trees) {
    for (auto const* phase : {&t.reduce, &t.broadcast}) {
      for (auto const& e : *phase) {
        for (std::size_t i = 0; i + 1 < e.path.size(); ++i) {
          result.emplace(e.path[i], e.path[i + 1]);
        }
      }
    }
  }
  return result;
}

/// The elements of `a` that are not in `b`.
template <class T>
[[nodiscard]] std::vector<T> only_in(std::set<T> const& a, std::set<T> const& b) {
  std::vector<T> result;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(result));
  return result;
}

}  // namespace detail

/// Compares two plans for the same collective tree by tree.
///
/// Time: O(T^2 V log V) for T trees of V edges where many trees have changed; O(T V log V)
///       otherwise.
[[nodiscard]] inline plan_difference difference(plan const& before, plan const& after) {
  plan_difference result;
  result.rate_before = before.rate;
  result.rate_after = after.rate;
  using edges = std::set<std::pair<bool, std::vector<int>>>;
  std::vector<edges> old_edges;
  std::multimap<std::pair<int, edges>, std::size_t> known;
  for (std::size_t i = 0; i < before.trees.size(); ++i) {
    old_edges.push_back(detail::edge_set(before.trees[i]));
    known.emplace(std::pair(before.trees[i].root, old_edges.back()), i);
  }
  std::vector<bool> gone(before.trees.size(), true);
  std::vector<std::size_t> unknown;
  std::vector<edges> new_edges;
  for (std::size_t i = 0; i < after.trees.size(); ++i) {
    new_edges.push_back(detail::edge_set(after.trees[i]));
    auto const found = known.find({after.trees[i].root, new_edges.back()});
    if (found == known.end()) {
      unknown.push_back(i);
      continue;
    }
    auto const old = found->second;
    known.erase(found);
    gone[old] = false;
    bool const same = before.trees[old].weight == after.trees[i].weight;
    (same ? result.kept : result.reweighted).emplace_back(old, i);
  }
  for (auto const i : unknown) {
    std::size_t best = before.trees.size(), most = 0;
    for (std::size_t old = 0; old < before.trees.size(); ++old) {
      if (!gone[old] || before.trees[old].root != after.trees[i].root) continue;
      std::size_t common = 0;
      for (auto const& e : new_edges[i]) common += old_edges[old].count(e);
      if (2 * common < new_edges[i].size() || common <= most) continue;
      most = common;
      best = old;
    }
    if (best == before.trees.size()) {
      result.added.push_back(i);
    } else {
      gone[best] = false;
      result.changed.emplace_back(best, i);
    }
  }
  for (std::size_t old = 0; old < gone.size(); ++old) {
    if (gone[old]) result.dropped.push_back(old);
  }
  auto const old_links = detail::links_of(before);
  auto const new_links = detail::links_of(after);
  result.links_left = detail::only_in(old_links, new_links);
  result.links_taken = detail::only_in(new_links, old_links);
  std::set<int> const old_ranks(before.ranks.begin(), before.ranks.end());
  std::set<int> const new_ranks(after.ranks.begin(), after.ranks.end());
  result.ranks_lost = detail::only_in(old_ranks, new_ranks);
  result.ranks_added = detail::only_in(new_ranks, old_ranks);
  return result;
}

}}  // namespace blink::BLINK_ABI
