// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/detail/arborescence_search.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Costs between all pairs of `size` vertices; `none` where there is no edge.
template <class Cost>
struct cost_matrix {
  static constexpr Cost none = std::numeric_limits<Cost>::max() / 4;
  std::size_t size = 0;
  std::vector<Cost> entries;  ///< by tail, then head

  explicit cost_matrix(std::size_t n) : size(n), entries(n * n, none) {}
  /// The cost of the edge from `tail` to `head`. Pre: both are less than `size`.
  [[nodiscard]] Cost& operator()(std::size_t tail, std::size_t head) {
    return entries[tail * size + head];
  }
  [[nodiscard]] Cost operator()(std::size_t tail, std::size_t head) const {
    return entries[tail * size + head];
  }
};

namespace detail {

/// Cheapest arborescences of bounded height for all roots at once, by dynamic programming over
/// vertex sets. A tree consists of the root's branch with the set's lowest vertex, and the rest.
template <class Cost>
class shallow_tree_table {
 public:
  shallow_tree_table(cost_matrix<Cost> const& cost, int height)
      : cost_(cost), n_(cost.size), sets_(std::size_t{1} << n_) {
    Cost const none = cost_matrix<Cost>::none;
    for (int d = 0; d <= height; ++d) {
      auto& tree = tree_.emplace_back(n_ * sets_, none);
      auto& branch = branch_.emplace_back(n_ * sets_, none);
      for (std::size_t v = 0; v < n_; ++v) tree[v * sets_] = 0;
      if (d == 0) continue;
      for (std::size_t set = 1; set < sets_; ++set) {
        for (std::size_t v = 0; v < n_; ++v) {
          if ((set >> v & 1U) != 0) continue;
          branch[v * sets_ + set] = best_child(d, v, set).first;
        }
      }
      for (std::size_t set = 1; set < sets_; ++set) {
        auto const lowest = set & (~set + 1);
        auto const rest = set ^ lowest;
        for (std::size_t v = 0; v < n_; ++v) {
          if ((set >> v & 1U) != 0) continue;
          Cost least = none;
          // `part` is left to the other branches
          for (auto part = rest;; part = (part - 1) & rest) {
            least = std::min(least, sum(branch[v * sets_ + (set ^ part)], tree[v * sets_ + part]));
            if (part == 0) break;
          }
          tree[v * sets_ + set] = least;
        }
      }
    }
  }

  /// The parent of each vertex, -1 at the root. Returns nothing if no tree has so small a height.
  [[nodiscard]] std::optional<std::vector<int>> parents(std::size_t root) const {
    std::vector<int> parent(n_, -1);
    auto const all = (sets_ - 1) ^ (std::size_t{1} << root);
    auto const height = static_cast<int>(tree_.size()) - 1;
    if (tree_.back()[root * sets_ + all] >= cost_matrix<Cost>::none) return std::nullopt;
    unfold(height, root, all, parent);
    return parent;
  }

 private:
  static Cost sum(Cost a, Cost b) { return std::min(a + b, cost_matrix<Cost>::none); }

  /// The cheapest child of v for a branch over `set`, and the branch's cost.
  std::pair<Cost, std::size_t> best_child(int d, std::size_t v, std::size_t set) const {
    std::pair<Cost, std::size_t> best{cost_matrix<Cost>::none, n_};
    auto const& below = tree_[static_cast<std::size_t>(d) - 1];
    for (std::size_t c = 0; c < n_; ++c) {
      if ((set >> c & 1U) == 0) continue;
      auto const cost = sum(cost_(v, c), below[c * sets_ + (set ^ (std::size_t{1} << c))]);
      if (cost < best.first) best = {cost, c};
    }
    return best;
  }

  void unfold(int d, std::size_t v, std::size_t set, std::vector<int>& parent) const {
    auto const level = static_cast<std::size_t>(d);
    while (set != 0) {
      auto const rest = set & (set - 1);
      for (auto part = rest;; part = (part - 1) & rest) {
        auto const first = set ^ part;
        if (sum(branch_[level][v * sets_ + first], tree_[level][v * sets_ + part]) ==
            tree_[level][v * sets_ + set]) {
          auto const child = best_child(d, v, first).second;
          parent[child] = static_cast<int>(v);
          unfold(d - 1, child, first ^ (std::size_t{1} << child), parent);
          set = part;
          break;
        }
        expects(part != 0, "shallow_tree_table: a tree has no branches, expected at least one");
      }
    }
  }

  cost_matrix<Cost> const& cost_;
  std::size_t n_;
  std::size_t sets_;
  std::vector<std::vector<Cost>> tree_;    // by height: (root, set) at root * sets_ + set
  std::vector<std::vector<Cost>> branch_;  // the same for trees with one child of the root
};

/// A local search for cheap trees. It moves a vertex, with all vertices below it, to another
/// parent.
template <class Cost>
class shallow_tree_descent {
 public:
  shallow_tree_descent(cost_matrix<Cost> const& cost, std::size_t root, int height)
      : cost_(cost), root_(root), height_(height) {}

  /// Builds a tree and improves it while that is possible. Vertices join the root one by one, by
  /// the cheapest edge. With `fewest_edges`, they join layer by layer, each by the cheapest edge
  /// from a layer above. Returns nothing if the tree would be too high.
  [[nodiscard]] std::optional<std::vector<int>> run(bool fewest_edges) {
    auto const n = cost_.size;
    parent_.assign(n, -1);
    depth_.assign(n, -1);
    depth_[root_] = 0;
    for (std::size_t joined = 1; joined < n; ++joined) {
      std::size_t best = n, below = n;
      for (std::size_t u = 0; u < n; ++u) {
        if (depth_[u] < 0 || depth_[u] >= height_) continue;
        for (std::size_t v = 0; v < n; ++v) {
          if (depth_[v] >= 0 || cost_(u, v) >= cost_matrix<Cost>::none) continue;
          bool const better =
              best == n || (fewest_edges && depth_[u] < depth_[below]) ||
              (!(fewest_edges && depth_[u] > depth_[below]) && cost_(u, v) < cost_(below, best));
          if (better) {
            best = v;
            below = u;
          }
        }
      }
      if (best == n) return std::nullopt;
      parent_[best] = static_cast<int>(below);
      depth_[best] = depth_[below] + 1;
    }
    while (improve()) {
    }
    return parent_;
  }

  [[nodiscard]] Cost total() const {
    Cost result = 0;
    for (std::size_t v = 0; v < parent_.size(); ++v) {
      if (parent_[v] >= 0) result += cost_(static_cast<std::size_t>(parent_[v]), v);
    }
    return result;
  }

 private:
  bool improve() {
    bool better = false;
    for (std::size_t v = 0; v < cost_.size; ++v) {
      if (v == root_) continue;
      auto const inside = below(v);
      int deepest = 0;
      for (std::size_t u = 0; u < cost_.size; ++u) {
        if (inside[u]) deepest = std::max(deepest, depth_[u] - depth_[v]);
      }
      auto const old = static_cast<std::size_t>(parent_[v]);
      auto best = old;
      for (std::size_t u = 0; u < cost_.size; ++u) {
        if (inside[u] || depth_[u] + 1 + deepest > height_) continue;
        if (cost_(u, v) < cost_(best, v)) best = u;
      }
      if (best == old) continue;
      int const change = depth_[best] + 1 - depth_[v];
      for (std::size_t u = 0; u < cost_.size; ++u) {
        if (inside[u]) depth_[u] += change;
      }
      parent_[v] = static_cast<int>(best);
      better = true;
    }
    return better;
  }
  std::vector<bool> below(std::size_t v) const {
    std::vector<bool> inside(cost_.size, false);
    inside[v] = true;
    for (std::size_t u = 0; u < cost_.size; ++u) {
      auto at = u;
      while (parent_[at] >= 0 && !inside[at]) at = static_cast<std::size_t>(parent_[at]);
      if (!inside[at]) continue;
      for (auto w = u; !inside[w]; w = static_cast<std::size_t>(parent_[w])) inside[w] = true;
    }
    return inside;
  }

  cost_matrix<Cost> const& cost_;
  std::size_t root_;
  int height_;
  std::vector<int> parent_;
  std::vector<int> depth_;
};

}  // namespace detail

/// The largest number of vertices for which `shallow_arborescences` is exact with a bound on the
/// height.
inline constexpr std::size_t shallow_arborescences_exact = 10;

/// Finds cheap spanning arborescences of bounded height from several roots.
///
/// The trees are cheapest for up to `shallow_arborescences_exact` vertices, and for any number
/// without a bound on the height. Otherwise a local search runs from two starts, because the
/// problem is NP-hard.
///
/// height: edges on the longest path from the root; 0: any
/// Source: without a bound: J. Edmonds, "Optimum branchings", 1967; the recursion over vertex sets:
///         S. Dreyfus, R. Wagner, "The Steiner problem in graphs", Networks 1, 1971.
/// Time:   O(3^n n height) for all roots together while exact; O(n^3) a round of local search for
///         each root; O(n^3) for each root without a bound.
/// Pre:    costs are not negative and sum to less than `cost_matrix::none`.
/// Post:   by root: the parent of each vertex, -1 at the root; nothing where no tree of that height
///         was found. If the search is exact, then none exists.
template <class Cost>
[[nodiscard]] std::vector<std::optional<std::vector<int>>> shallow_arborescences(
    cost_matrix<Cost> const& cost, std::vector<int> const& roots, int height) {
  std::vector<std::optional<std::vector<int>>> result;
  auto const n = cost.size;
  if (height <= 0 || height >= static_cast<int>(n) - 1) {
    arc_list graph{static_cast<int>(n), {}};
    std::vector<Cost> costs;
    for (std::size_t u = 0; u < n; ++u) {
      for (std::size_t v = 0; v < n; ++v) {
        if (u == v || cost(u, v) >= cost_matrix<Cost>::none) continue;
        graph.arcs.push_back({static_cast<int>(u), static_cast<int>(v)});
        costs.push_back(cost(u, v));
      }
    }
    for (int const root : roots) {
      auto& parents = result.emplace_back();
      try {
        detail::arborescence_search<Cost> search(graph, root);
        parents.emplace(n, -1);
        for (int const e : search.solve(costs)) {
          auto const& a = graph.arcs[static_cast<std::size_t>(e)];
          (*parents)[static_cast<std::size_t>(a.head)] = a.tail;
        }
      } catch (planning_error const&) {
        parents.reset();  // a vertex cannot be reached
      }
    }
    return result;
  }
  if (n <= shallow_arborescences_exact) {
    detail::shallow_tree_table<Cost> const table(cost, height);
    for (int const root : roots) result.push_back(table.parents(static_cast<std::size_t>(root)));
    return result;
  }
  for (int const root : roots) {
    detail::shallow_tree_descent<Cost> search(cost, static_cast<std::size_t>(root), height);
    auto best = search.run(true);
    auto const least = best ? search.total() : cost_matrix<Cost>::none;
    if (auto other = search.run(false); other && search.total() < least) best = std::move(other);
    result.push_back(std::move(best));
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
