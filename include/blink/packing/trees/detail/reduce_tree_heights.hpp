// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/work_budget.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/packing/trees/detail/forest_state.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Lowers the trees of a finished packing. Roots and multiplicities stay the same.
///
/// Two trees may exchange the edges by which they enter a vertex. A tree may also enter a vertex
/// over another edge with room. Both happen while they lower the sum of 8^depth over all trees and
/// vertices. So the deepest vertices move up first. Random exchanges lead out of local optima.
/// Because it is a local search, trees need not be as low as possible.
class height_reduction {
 public:
  /// capacity: by edge, for all trees together
  height_reduction(arc_list const& graph, std::vector<std::int64_t> capacity,
                   std::vector<growing_tree>& trees)
      : graph_(graph),
        trees_(trees),
        room_(std::move(capacity)),
        n_(static_cast<std::size_t>(graph.vertex_count)) {
    constexpr std::size_t largest_exponent = 900;  // keeps sums within a double
    for (std::size_t d = 0; d <= n_; ++d) {
      power_.push_back(std::ldexp(1.0, static_cast<int>(std::min(3 * d, largest_exponent))));
    }
    entering_.resize(n_);
    for (std::size_t e = 0; e < graph.arcs.size(); ++e) {
      auto const& a = graph.arcs[e];
      if (a.tail != a.head)
        entering_[static_cast<std::size_t>(a.head)].push_back(static_cast<int>(e));
    }
    order_.resize(n_);
    for (auto const& t : trees) {
      shapes_.push_back({t.root, t.multiplicity, 0, 0, std::vector<int>(n_, -1),
                         std::vector<int>(n_), std::vector<double>(n_)});
      for (int const e : t.edges) {
        shapes_.back().into[head(e)] = e;
        room_[static_cast<std::size_t>(e)] -= t.multiplicity;
      }
    }
    into_of_all_.resize(n_ * shapes_.size());
    depth_of_all_.resize(n_ * shapes_.size());
    for (std::size_t i = 0; i < shapes_.size(); ++i) measure(i);
  }

  /// Lowers the trees.
  ///
  /// kicks:    number of times that a few random exchanges are made, and undone if they do not help
  /// enough:   no kicks once no tree is higher than this
  /// hopeless: no kicks if a tree is higher than this before them; 0: no such limit
  /// Ends early if the thread's budget is spent.
  void run(int kicks, int enough, std::mt19937_64& random, int hopeless = 0) {
    try {
      lower(kicks, enough, random, hopeless);
    } catch (budget_spent const&) {
      if (keep_) take_back();
    }
    write_back();
  }

 private:
  struct shape {
    int root;
    std::int64_t multiplicity;
    int height;
    double sum;                 // sum of 8^depth
    std::vector<int> into;      // by vertex: the edge that enters it, -1 at the root
    std::vector<int> depth;     // by vertex
    std::vector<double> below;  // by vertex: sum of 8^depth in its subtree
  };
  struct change {
    std::size_t tree, vertex;
    int edge;
  };
  enum class outcome : std::uint8_t { done, no_gain, no_room };

  [[nodiscard]] std::size_t tail(int e) const {
    return static_cast<std::size_t>(graph_.arcs[static_cast<std::size_t>(e)].tail);
  }
  [[nodiscard]] std::size_t head(int e) const {
    return static_cast<std::size_t>(graph_.arcs[static_cast<std::size_t>(e)].head);
  }

  void lower(int kicks, int enough, std::mt19937_64& random, int hopeless) {
    descend();
    if (hopeless > 0 && height() > hopeless) kicks = 0;
    auto best = total();
    for (int kick = 0; kick < kicks && shapes_.size() > 1 && height() > enough; ++kick) {
      undo_.clear();
      keep_ = true;
      kept_room_ = room_;
      constexpr int exchanges = 5;
      for (int k = 0; k < exchanges; ++k) disturb(random);
      descend();
      keep_ = false;
      if (auto const now = total(); now <= best) {
        best = now;
      } else {
        take_back();
      }
    }
  }

  /// Exchanges an edge on the path to a deepest vertex with any other tree.
  void disturb(std::mt19937_64& random) {
    int const highest = height();
    auto i = random() % shapes_.size();
    while (shapes_[i].height < highest) i = (i + 1) % shapes_.size();
    auto const& s = shapes_[i];
    auto v = random() % n_;
    while (s.depth[v] < highest) v = (v + 1) % n_;
    for (auto up = random() % static_cast<unsigned>(highest); up > 0; --up) v = tail(s.into[v]);
    auto const j = random() % shapes_.size();
    if (i != j) (void)exchange(i, j, v, true);
  }

  void take_back() {
    for (auto u = undo_.rbegin(); u != undo_.rend(); ++u) {
      shapes_[u->tree].into[u->vertex] = u->edge;
      shapes_[u->tree].height = -1;  // to be measured
    }
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      if (shapes_[i].height < 0) measure(i);
    }
    room_ = kept_room_;
  }

  [[nodiscard]] int height() const {
    int result = 0;
    for (auto const& s : shapes_) result = std::max(result, s.height);
    return result;
  }

  /// Writes the trees back. Trees that became equal are merged.
  void write_back() {
    std::size_t count = 0;
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      auto& s = shapes_[i];
      std::size_t twin = 0;
      while (twin < count && (shapes_[twin].root != s.root || shapes_[twin].into != s.into)) ++twin;
      if (twin < count) {
        trees_[twin].multiplicity += s.multiplicity;
        continue;
      }
      auto& t = trees_[count];
      t.root = s.root;
      t.multiplicity = s.multiplicity;
      t.height = s.height;
      t.depth = s.depth;
      t.edges.clear();
      for (int const e : s.into) {
        if (e >= 0) t.edges.push_back(e);
      }
      std::sort(t.edges.begin(), t.edges.end(), [&](int a, int b) {
        return std::pair(s.depth[tail(a)], a) < std::pair(s.depth[tail(b)], b);
      });
      if (count != i) std::swap(shapes_[count], s);
      ++count;
    }
    trees_.resize(count);
  }

  [[nodiscard]] double total() const {
    double sum = 0;
    for (auto const& s : shapes_) sum += s.sum;
    return sum;
  }

  /// Computes depths, height and sums from the entering edges.
  void measure(std::size_t i) {
    auto& s = shapes_[i];
    std::fill(s.depth.begin(), s.depth.end(), -1);
    s.depth[static_cast<std::size_t>(s.root)] = 0;
    s.height = 0;
    std::size_t known = 0;  // vertices in order_, upper vertices first
    for (std::size_t start = 0; start < n_; ++start) {
      path_.clear();
      auto at = start;
      while (s.depth[at] < 0) {
        path_.push_back(at);
        at = tail(s.into[at]);
      }
      int depth = s.depth[at];
      for (auto u = path_.rbegin(); u != path_.rend(); ++u) {
        s.depth[*u] = ++depth;
        order_[known++] = *u;
      }
      s.height = std::max(s.height, depth);
    }
    for (std::size_t v = 0; v < n_; ++v) {
      s.below[v] = power_[static_cast<std::size_t>(s.depth[v])];
      into_of_all_[v * shapes_.size() + i] = s.into[v];
      depth_of_all_[v * shapes_.size() + i] = s.depth[v];
    }
    s.sum = 0;
    while (known > 0) {
      auto const v = order_[--known];
      s.sum += power_[static_cast<std::size_t>(s.depth[v])];
      s.below[tail(s.into[v])] += s.below[v];
    }
  }

  /// The last comparison of a tree with the later ones.
  struct comparison {
    std::size_t at = 0;           // number of the changes before it
    std::vector<bool> blocked{};  // by later tree: only room was missing for an exchange
  };

  /// Repeats until no exchange and no other edge lowers the sum. For many vertices in many trees it
  /// ends when a pass has hardly lowered the sum. On a torus of 576 ranks later passes took a third
  /// of the planning time, and the highest tree stayed as it was.
  void descend() {
    constexpr std::size_t many = 100'000;
    constexpr double hardly = 1e-3;
    auto const count = shapes_.size();
    bool const has_many = count * n_ > many;
    changed_at_.assign(count, ++changes_);
    std::vector<comparison> last(count);
    for (bool changed = true; changed;) {
      changed = false;
      auto const before = total();
      for (std::size_t i = 0; i < count; ++i) changed = lower_with_others(i, last[i]) || changed;
      if (has_many && before - total() < hardly * before) break;
    }
  }

  /// Lowers a tree, and the later trees with which it exchanges edges. Returns true if one changed.
  bool lower_with_others(std::size_t i, comparison& last) {
    comparison now{changes_, std::vector<bool>(shapes_.size(), false)};
    bool changed = false;
    std::vector<std::size_t> others;
    std::size_t found_at = 0;  // number of the changes before `others` were found
    for (std::size_t v = 0; v < n_; ++v) {
      budget_scope::poll();
      if (shapes_[i].into[v] < 0) continue;
      changed = enter_elsewhere(i, v) || changed;
      if (found_at != changes_) others = worth_comparing(i, i + 1, last);
      found_at = changes_;
      for (std::size_t k = 0; k < others.size();) {
        auto const j = others[k++];
        if (gains_nothing(i, j, v)) continue;
        auto const made = exchange(i, j, v, false);
        if (made == outcome::no_room) now.blocked[j] = true;
        if (made != outcome::done) continue;
        changed = true;
        others = worth_comparing(i, j + 1, last);  // more of them, because trees changed
        k = 0;
      }
    }
    last = std::move(now);
    return changed;
  }

  /// The trees from `first` on with which a tree may exchange edges. Two trees that did not change
  /// since their last comparison gain nothing, unless only room was missing then.
  [[nodiscard]] std::vector<std::size_t> worth_comparing(std::size_t i, std::size_t first,
                                                         comparison const& last) const {
    std::vector<std::size_t> result;
    for (std::size_t j = first; j < shapes_.size(); ++j) {
      if (std::max(changed_at_[i], changed_at_[j]) > last.at ||
          (!last.blocked.empty() && last.blocked[j])) {
        result.push_back(j);
      }
    }
    return result;
  }

  /// True if the edge would enter v from below v itself.
  [[nodiscard]] bool closes_cycle(shape const& s, int edge, std::size_t v) const {
    auto at = tail(edge);
    for (int steps = s.depth[at] - s.depth[v]; steps > 0; --steps) at = tail(s.into[at]);
    return at == v;
  }

  /// The growth of the sum if v were entered over the edge.
  [[nodiscard]] double growth(shape const& s, int edge, std::size_t v) const {
    int const shift = s.depth[tail(edge)] + 1 - s.depth[v];
    auto const size = power_[static_cast<std::size_t>(shift < 0 ? -shift : shift)];
    return s.below[v] * ((shift < 0 ? 1 / size : size) - 1);
  }

  void enter(std::size_t i, std::size_t v, int edge) {
    auto& s = shapes_[i];
    if (keep_) undo_.push_back({i, v, s.into[v]});
    room_[static_cast<std::size_t>(s.into[v])] += s.multiplicity;
    room_[static_cast<std::size_t>(edge)] -= s.multiplicity;
    s.into[v] = edge;
    measure(i);
    changed_at_[i] = ++changes_;
  }

  bool enter_elsewhere(std::size_t i, std::size_t v) {
    auto const& s = shapes_[i];
    for (int const e : entering_[v]) {
      if (e == s.into[v] || room_[static_cast<std::size_t>(e)] < s.multiplicity) continue;
      if (s.depth[tail(e)] + 1 >= s.depth[v]) continue;
      enter(i, v, e);
      return true;
    }
    return false;
  }

  /// True if an exchange would move v up in neither tree, or has nothing to exchange.
  [[nodiscard]] bool gains_nothing(std::size_t i, std::size_t j, std::size_t v) const {
    auto const& a = shapes_[i];
    auto const count = shapes_.size();
    int const in_a = a.into[v];
    int const in_b = into_of_all_[v * count + j];
    if (in_b < 0 || in_a == in_b) return true;
    return a.depth[tail(in_b)] + 1 >= a.depth[v] &&
           depth_of_all_[tail(in_a) * count + j] + 1 >= depth_of_all_[v * count + j];
  }

  /// Exchanges the edges by which two trees enter v.
  outcome exchange(std::size_t i, std::size_t j, std::size_t v, bool at_any_cost) {
    auto const& a = shapes_[i];
    auto const& b = shapes_[j];
    int const in_a = a.into[v];
    int const in_b = b.into[v];
    if (in_a < 0 || in_b < 0 || in_a == in_b) return outcome::no_gain;
    if (!at_any_cost && growth(a, in_b, v) + growth(b, in_a, v) >= 0) return outcome::no_gain;
    auto const more = b.multiplicity - a.multiplicity;  // more load on in_a
    if (room_[static_cast<std::size_t>(in_a)] < more ||
        room_[static_cast<std::size_t>(in_b)] < -more) {
      return outcome::no_room;
    }
    if (closes_cycle(a, in_b, v) || closes_cycle(b, in_a, v)) return outcome::no_gain;
    enter(i, v, in_b);
    enter(j, v, in_a);
    return outcome::done;
  }

  arc_list const& graph_;
  std::vector<growing_tree>& trees_;
  std::vector<std::int64_t> room_, kept_room_;  // by edge
  std::size_t n_;
  std::vector<double> power_;  // 8^depth
  std::vector<shape> shapes_;  // by tree
  // The same by vertex, then by tree, so that a comparison with all trees reads them in a row.
  std::vector<int> into_of_all_, depth_of_all_;
  std::vector<std::size_t> changed_at_;     // by tree: number of its last change
  std::size_t changes_ = 0;                 // so far
  std::vector<std::vector<int>> entering_;  // by vertex: all edges that enter it
  std::vector<change> undo_;
  bool keep_ = false;
  std::vector<std::size_t> path_, order_;
};

}}}  // namespace blink::BLINK_ABI::detail
