// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/detail/spanning_tree_search.hpp>
#include <blink/packing/trees/detail/undirected_edges.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Decomposes loads of a small graph into spanning trees by considering all sets of vertices.
///
/// Loads x on the edges are a sum of spanning trees of total weight R if and only if two conditions
/// hold (Edmonds 1970). First, x(E) = R (V - 1). Second, the load within each vertex set S is at
/// most R (|S| - 1); the difference is the *slack* of S. Trees are removed one by one. Each spans
/// every set without slack, and is as heavy as the loads and the other slacks allow. Each removal
/// uses up an edge or the slack of a set. So there are at most E + V trees, and usually far fewer.
///
/// All numbers are integers. Their unit becomes smaller as needed.
class tree_decomposition {
 public:
  struct decomposed_tree {
    rational weight;
    std::vector<int> edges;
  };

  /// Pre:    the graph is connected; capacities > 0; at most 20 vertices.
  /// Throws: overflow_error.
  tree_decomposition(arc_list const& graph, std::vector<std::int64_t> const& capacity,
                     std::uint64_t seed)
      : graph_(graph), capacity_(capacity), random_(seed) {
    n_ = graph.vertex_count;
    expects(n_ <= most_vertices, "tree_decomposition: more than 20 vertices, expected at most 20");
    full_ = (set{1} << n_) - 1;
    list_sets();
    slack_.resize(sets_.size());
    missing_.resize(sets_.size());
    best_missing_.resize(sets_.size());
    load_.resize(capacity.size());
    key_.resize(capacity.size());
    order_.resize(capacity.size());
    std::iota(order_.begin(), order_.end(), 0);
    find_rate();
  }

  [[nodiscard]] rational rate() const { return {rate_top_, rate_bottom_}; }
  [[nodiscard]] std::vector<int> const& part() const { return part_; }

  /// Returns the decomposition with the fewest trees of several; among equals, the one with the
  /// lowest trees. The search stops early at a number that is proven least.
  [[nodiscard]] std::vector<decomposed_tree> fewest(std::size_t max_tries) {
    std::vector<decomposed_tree> best, found;
    std::size_t const least = least_trees();
    double best_radius = 0;
    auto const first_load = load_;
    auto const first_slack = slack_;
    for (std::size_t t = 0; t < std::max<std::size_t>(max_tries, 1); ++t) {
      if (t == 0 || every_edge_full_) {  // the loads of the edges are unique
        load_ = first_load;
        slack_ = first_slack;
        rate_left_ = rate_top_;
      } else {
        std::shuffle(order_.begin(), order_.end(), random_);
        fill();
      }
      double radius = 0;
      if (!decompose(found, best.empty() ? most_trees() : best.size(), radius)) continue;
      if (best.empty() || found.size() < best.size() || radius < best_radius) {
        best.swap(found);
        best_radius = radius;
      }
      if (best.size() <= least) break;
    }
    if (best.empty())
      throw overflow_error("pack_spanning_trees: the weights exceed 61 bits, expected less");
    return best;
  }

 private:
  using set = std::uint32_t;
  static constexpr std::int64_t largest = std::int64_t{1} << 56;  // leaves room for a factor V
  static constexpr int candidates_per_step = 3;
  static constexpr int most_vertices = 20;

  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  static set bit(int v) { return set{1} << v; }

  /// Lists the connected sets of more than one vertex, because only these can lose their slack
  /// first.
  void list_sets() {
    std::array<set, most_vertices> neighbours{};
    for (auto const& a : graph_.arcs) {
      neighbours[at(a.tail)] |= bit(a.head);
      neighbours[at(a.head)] |= bit(a.tail);
      ends_.push_back(bit(a.tail) | bit(a.head));
    }
    for (set s = 1; s <= full_; ++s) {
      if (std::has_single_bit(s)) continue;
      set reached = s & (~s + 1), open = reached;
      while (open != 0) {
        set const next = neighbours[at(std::countr_zero(open))] & s & ~reached;
        reached |= next;
        open = (open & (open - 1)) | next;
      }
      if (reached == s) sets_.push_back(s);
    }
    std::sort(sets_.begin(), sets_.end(), [](set a, set b) {
      int const x = std::popcount(a), y = std::popcount(b);
      return x != y ? x < y : a < b;
    });
    for (set const s : sets_) size_.push_back(std::popcount(s));
  }

  /// An upper bound: each tree uses up an edge or fills one more set of a chain.
  [[nodiscard]] std::size_t most_trees() const { return capacity_.size() + sets_.size(); }

  /// Newton's method on the number of parts. It fills the edges greedily at the best known rate.
  /// Sets that fill up before the whole graph form a partition with a lower bound.
  void find_rate() {
    disjoint_sets sets(n_);
    part_ = numbered_parts(sets, n_);
    for (;;) {
      auto const bound = partition_bound(graph_, capacity_, part_);
      rate_top_ = bound.numerator();
      rate_bottom_ = bound.denominator();
      fill();
      if (slack_.back() == 0) break;
      sets.reset();
      for (std::size_t i = 0; i < sets_.size(); ++i) {
        if (slack_[i] != 0) continue;
        int const first = std::countr_zero(sets_[i]);
        for (set rest = sets_[i]; rest != 0; rest &= rest - 1) {
          sets.join(first, std::countr_zero(rest));
        }
      }
      part_ = numbered_parts(sets, n_);
    }
    every_edge_full_ = true;
    for (std::size_t e = 0; e < capacity_.size(); ++e) {
      every_edge_full_ = every_edge_full_ && load_[e] == capacity_[e] * rate_bottom_;
    }
  }

  /// Loads the edges in the order of `order_`, each as much as its capacity and the slacks allow.
  void fill() {
    auto const most = std::ranges::max(capacity_);
    if (rate_top_ > largest / n_ || most > largest / n_ / rate_bottom_) {
      throw overflow_error("pack_spanning_trees: the capacities exceed 56 bits, expected less");
    }
    rate_left_ = rate_top_;
    for (std::size_t i = 0; i < sets_.size(); ++i) slack_[i] = rate_top_ * (size_[i] - 1);
    for (int const e : order_) {
      set const ends = ends_[at(e)];
      auto room = capacity_[at(e)] * rate_bottom_;
      for (std::size_t i = 0; i < sets_.size(); ++i) {
        if ((sets_[i] & ends) == ends) room = std::min(room, slack_[i]);
      }
      load_[at(e)] = room;
      for (std::size_t i = 0; i < sets_.size(); ++i) {
        slack_[i] -= (sets_[i] & ends) == ends ? room : 0;
      }
    }
  }

  /// A lower bound: no tree is heavier than the largest capacity whose edges still connect all
  /// vertices.
  [[nodiscard]] std::size_t least_trees() const {
    auto cost = capacity_;
    for (auto& c : cost) c = -c;
    spanning_tree_search<std::int64_t> search(graph_);
    std::int64_t heaviest = 0;
    for (int const e : search.solve(cost)) heaviest = capacity_[at(e)];
    rational const count = rate() / heaviest;
    return static_cast<std::size_t>((count.numerator() + count.denominator() - 1) /
                                    count.denominator());
  }

  /// Decomposes the loads. Returns false if that takes more than `limit` trees or too large
  /// numbers.
  bool decompose(std::vector<decomposed_tree>& trees, std::size_t limit, double& radius) {
    trees.clear();
    rational unit(1, rate_bottom_);
    double const scale = 1 / static_cast<double>(rate_top_);
    std::vector<int> tree, best_tree;
    while (rate_left_ > 0) {
      full_sets_.clear();
      for (std::size_t i = 0; i < sets_.size(); ++i) {
        if (slack_[i] == 0) full_sets_.push_back(sets_[i]);
      }
      // The heaviest of some trees; among equally heavy ones, the lowest.
      std::int64_t top = 0, bottom = 1;
      int least_radius = 0;
      for (int c = 0; c < candidates_per_step; ++c) {
        grow(tree, c > 0);
        auto const [a, b] = heaviest_weight(tree);
        if (wide_integer{a} * bottom < wide_integer{top} * b) continue;
        int const r = tree_radius(tree);
        auto const difference = wide_integer{a} * bottom - wide_integer{top} * b;
        if (difference == 0 && r >= least_radius) continue;
        top = a;
        bottom = b;
        best_missing_.swap(missing_);
        least_radius = r;
        best_tree.swap(tree);
      }
      // Later trees are rarely heavier than this one.
      auto const wanted = (wide_integer{rate_left_} * bottom + top - 1) / top;
      if (wanted + static_cast<std::int64_t>(trees.size()) > static_cast<std::int64_t>(limit)) {
        return false;
      }
      if (bottom > 1) {
        if (rate_left_ > largest / n_ / bottom) return false;
        rate_left_ *= bottom;
        for (auto& x : load_) x *= bottom;
        for (auto& x : slack_) x *= bottom;
        unit /= bottom;
      }
      radius +=
          static_cast<double>(least_radius) * static_cast<double>(top) * scale * unit.to_double();
      trees.push_back({unit * top, best_tree});
      rate_left_ -= top;
      for (int const e : best_tree) load_[at(e)] -= top;
      for (std::size_t i = 0; i < sets_.size(); ++i) slack_[i] -= top * best_missing_[i];
      if (bottom > 1) {
        auto divisor = rate_left_;
        for (auto const x : load_) divisor = std::gcd(divisor, x);
        if (divisor > 1) {
          rate_left_ /= divisor;
          for (auto& x : load_) x /= divisor;
          for (auto& x : slack_) x /= divisor;
          unit *= divisor;
        }
      }
    }
    return true;
  }

  /// Grows a spanning tree of loaded edges that spans every set without slack. Edges with a large
  /// load tend to come first.
  void grow(std::vector<int>& tree, bool disturbed) {
    for (std::size_t e = 0; e < load_.size(); ++e) {
      auto const chance = static_cast<double>(random_() & 0xffff) * 0x1p-16;
      key_[e] = static_cast<double>(load_[e]) * (disturbed ? 0.5 + chance : 1 + 1e-3 * chance);
    }
    std::ranges::sort(order_, std::ranges::greater{}, [&](int e) { return key_[at(e)]; });
    for (int v = 0; v < n_; ++v) joined_[at(v)] = bit(v);
    tree.clear();
    for (set const s : full_sets_) {
      for (int const e : order_) {
        if ((joined_[at(std::countr_zero(s))] & s) == s) break;
        auto const [tail, head] = graph_.arcs[at(e)];
        set const ends = ends_[at(e)];
        if (load_[at(e)] == 0 || (ends & s) != ends || (joined_[at(tail)] & bit(head)) != 0) {
          continue;
        }
        set const both = joined_[at(tail)] | joined_[at(head)];
        for (set rest = both; rest != 0; rest &= rest - 1)
          joined_[at(std::countr_zero(rest))] = both;
        tree.push_back(e);
      }
    }
  }

  /// Counts for each set the edges that the tree lacks there to span it.
  void count_missing(std::vector<int> const& tree) {
    for (std::size_t i = 0; i < sets_.size(); ++i) missing_[i] = size_[i] - 1;
    for (int const e : tree) {
      set const ends = ends_[at(e)];
      for (std::size_t i = 0; i < sets_.size(); ++i) {
        missing_[i] -= (sets_[i] & ends) == ends ? 1 : 0;
      }
    }
  }

  /// The largest possible weight of the tree, as a fraction of the present unit.
  std::pair<std::int64_t, std::int64_t> heaviest_weight(std::vector<int> const& tree) {
    count_missing(tree);
    std::fill_n(least_slack_.begin(), n_, std::numeric_limits<std::int64_t>::max());
    for (std::size_t i = 0; i < sets_.size(); ++i) {
      auto& least = least_slack_[at(missing_[i])];
      least = std::min(least, slack_[i]);
    }
    std::int64_t top = rate_left_, bottom = 1;
    for (int const e : tree) top = std::min(top, load_[at(e)]);
    for (int d = 1; d < n_; ++d) {
      auto const slack = least_slack_[at(d)];
      if (slack > largest || wide_integer{slack} * bottom >= wide_integer{top} * d) continue;
      auto const common = std::gcd(slack, std::int64_t{d});
      top = slack / common;
      bottom = d / common;
    }
    return {top, bottom};
  }

  /// The number of edges from the center of the tree to its farthest vertex.
  [[nodiscard]] int tree_radius(std::vector<int> const& tree) const {
    std::array<set, most_vertices> neighbours{};
    for (int const e : tree) {
      auto const [tail, head] = graph_.arcs[at(e)];
      neighbours[at(tail)] |= bit(head);
      neighbours[at(head)] |= bit(tail);
    }
    int best = n_;
    for (int v = 0; v < n_; ++v) {
      set reached = bit(v), layer = reached;
      int steps = 0;
      while (reached != full_ && steps < best) {
        set next = 0;
        for (; layer != 0; layer &= layer - 1) next |= neighbours[at(std::countr_zero(layer))];
        layer = next & ~reached;
        reached |= next;
        ++steps;
      }
      best = std::min(best, steps);
    }
    return best;
  }

  arc_list const& graph_;
  std::vector<std::int64_t> const& capacity_;
  std::minstd_rand random_;
  int n_ = 0;
  set full_ = 0;
  std::vector<set> ends_;  // by edge
  std::vector<set> sets_;  // by size
  std::vector<int> size_;  // by position in sets_; so are slack_, missing_ and best_missing_
  std::int64_t rate_top_ = 0, rate_bottom_ = 1;
  std::vector<int> part_;
  bool every_edge_full_ = false;
  std::int64_t rate_left_ = 0;
  std::vector<std::int64_t> load_;  // by edge
  std::vector<std::int64_t> slack_;
  std::vector<int> missing_, best_missing_;
  std::vector<set> full_sets_;
  std::vector<double> key_;                  // by edge
  std::vector<int> order_;                   // edges
  std::array<set, most_vertices> joined_{};  // by vertex: the piece of the tree that contains it
  std::array<std::int64_t, most_vertices> least_slack_{};
};

}}}  // namespace blink::BLINK_ABI::detail
