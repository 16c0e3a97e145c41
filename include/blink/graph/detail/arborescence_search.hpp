// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/work_budget.hpp>
#include <blink/graph/concepts.hpp>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The search behind `min_cost_arborescence` for one graph and one root, with costs that change.
///
/// After construction, `solve` may run thousands of times; only its first call allocates memory.
/// Every set picks its cheapest incoming edge; at first, each vertex is a set. Each cycle of picked
/// edges is contracted into one set. The cost of a set's pick is subtracted from its other incoming
/// edges. This repeats until the picked edges have no cycle. The contracted sets form a forest. Its
/// *nodes* are the vertices first, then the sets in the order of contraction.
template <class Cost>
class arborescence_search {
 public:
  /// Time:   O(V + E log E).
  /// Throws: precondition_error if `root` is not a vertex; planning_error if a vertex is
  ///         unreachable.
  arborescence_search(arc_list const& graph, int root) : root_(root), n_(graph.vertex_count) {
    expects(0 <= root && root < n_,
            "min_cost_arborescence: the root is not a vertex, expected one of the graph");
    std::vector<int> const depth = depths(graph);
    if (auto const lost = std::ranges::find(depth, -1); lost != depth.end()) {
      throw planning_error("min_cost_arborescence: vertex " + std::to_string(lost - depth.begin()) +
                           " cannot be reached, expected a path from the root " +
                           std::to_string(root));
    }
    for (std::size_t i = 0; i < graph.arcs.size(); ++i) {
      auto const [tail, head] = graph.arcs[i];
      if (tail != head && head != root) arcs_.push_back({tail, head, static_cast<int>(i)});
    }
    // Among edges of equal cost the first one wins, so edges with tails near the root come first.
    std::ranges::sort(arcs_, {}, [&](named_arc const& a) {
      return std::pair(depth[static_cast<std::size_t>(a.tail)], a.name);
    });
    auto const nodes = 2 * static_cast<std::size_t>(n_);
    parent_.resize(nodes);
    picked_.resize(nodes);
    dual_.resize(nodes);
    covered_.resize(nodes);
    for (auto* by_set : {&node_, &renamed_, &visited_})
      by_set->resize(static_cast<std::size_t>(n_));
    best_.resize(static_cast<std::size_t>(n_));
    live_.reserve(arcs_.size());
    edge_into_.resize(static_cast<std::size_t>(n_));
    edges_.reserve(static_cast<std::size_t>(n_));
  }

  /// Returns a cheapest arborescence: one edge into each vertex but the root, ordered by vertex.
  /// The span is valid until the next call.
  ///
  /// Time: O(V E), but O(E log V) if most picked edges lie on cycles.
  template <class Costs>
  std::span<int const> solve(Costs const& costs) {
    budget_scope::poll();
    start(costs);
    while (pick_cheapest()) contract(true);
    contract(false);
    expand();
    return edges_;
  }

  /// After `solve`, calls `visit(vertices, value)` for each set of the dual solution. Values are
  /// not negative on sets of two or more vertices. The sets are laminar and do not contain the
  /// root. For each edge, the values of the sets that it enters sum to at most its cost. For an
  /// edge of the tree, they sum to its cost.
  template <class Visit>
  void for_each_dual(Visit visit) const {
    std::vector<std::vector<int>> members(static_cast<std::size_t>(node_count_));
    for (int v = 0; v < n_; ++v) {
      if (v == root_) continue;
      for (int node = v; node >= 0; node = parent_[at(node)]) members[at(node)].push_back(v);
    }
    for (int node = 0; node < node_count_; ++node) {
      if (!members[at(node)].empty() && dual_[at(node)] != Cost{}) {
        visit(members[at(node)], dual_[at(node)]);
      }
    }
  }

 private:
  struct named_arc {
    int tail;
    int head;
    int name;  ///< position in the graph
  };
  struct live_arc {
    int tail;  ///< set
    int head;  ///< set
    int arc;   ///< position in `arcs_`
    Cost cost;
  };
  struct choice {
    int live;  ///< position in `live_`, -1 for none
    Cost cost;
  };

  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  std::vector<int> depths(arc_list const& graph) const {
    std::vector<int> first(at(n_) + 1, 0);
    for (auto const& a : graph.arcs) ++first[at(a.tail) + 1];
    std::partial_sum(first.begin(), first.end(), first.begin());
    std::vector<int> heads(graph.arcs.size());
    auto next = first;
    for (auto const& a : graph.arcs) heads[at(next[at(a.tail)]++)] = a.head;
    std::vector<int> depth(at(n_), -1);
    std::vector<int> queue{root_};
    depth[at(root_)] = 0;
    for (std::size_t i = 0; i < queue.size(); ++i) {
      int const v = queue[i];
      for (int k = first[at(v)]; k < first[at(v) + 1]; ++k) {
        int const head = heads[at(k)];
        if (depth[at(head)] >= 0) continue;
        depth[at(head)] = depth[at(v)] + 1;
        queue.push_back(head);
      }
    }
    return depth;
  }

  template <class Costs>
  void start(Costs const& costs) {
    live_.clear();
    for (std::size_t i = 0; i < arcs_.size(); ++i) {
      auto const& a = arcs_[i];
      live_.push_back({a.tail, a.head, static_cast<int>(i),
                       static_cast<Cost>(costs[static_cast<std::size_t>(a.name)])});
    }
    set_count_ = node_count_ = n_;
    root_set_ = root_;
    std::iota(node_.begin(), node_.end(), 0);
    std::ranges::fill(parent_, -1);
    std::ranges::fill(dual_, Cost{});
  }

  /// Picks the cheapest edge into each set and renames the sets. The sets of a cycle get one common
  /// name. Returns true if there is a cycle.
  bool pick_cheapest() {
    for (int s = 0; s < set_count_; ++s) best_[at(s)] = {-1, Cost{}};
    for (std::size_t i = 0; i < live_.size(); ++i) {
      auto& best = best_[at(live_[i].head)];
      if (best.live < 0 || live_[i].cost < best.cost) best = {static_cast<int>(i), live_[i].cost};
    }
    std::fill_n(visited_.begin(), set_count_, -1);
    std::fill_n(renamed_.begin(), set_count_, -1);
    visited_[at(root_set_)] = root_set_;
    int cycles = 0;
    for (int s = 0; s < set_count_; ++s) {
      int at_set = s;
      while (visited_[at(at_set)] < 0) {
        visited_[at(at_set)] = s;
        at_set = tail_of_pick(at_set);
      }
      if (visited_[at(at_set)] != s || renamed_[at(at_set)] >= 0 || at_set == root_set_) continue;
      for (int member = at_set; renamed_[at(member)] < 0; member = tail_of_pick(member)) {
        renamed_[at(member)] = cycles;
      }
      ++cycles;
    }
    cycles_ = cycles;
    return cycles > 0;
  }

  int tail_of_pick(int set) const { return live_[at(best_[at(set)].live)].tail; }

  /// Adds the picked costs to the duals. If there are `cycles`, contracts each into one set.
  void contract(bool cycles) {
    for (int s = 0; s < set_count_; ++s) {
      if (s == root_set_) continue;
      int const node = node_[at(s)];
      dual_[at(node)] = dual_[at(node)] + best_[at(s)].cost;
      picked_[at(node)] = live_[at(best_[at(s)].live)].arc;
    }
    if (!cycles) return;
    int sets = cycles_;
    next_node_.assign(at(set_count_), 0);
    for (int c = 0; c < cycles_; ++c) next_node_[at(c)] = node_count_ + c;
    for (int s = 0; s < set_count_; ++s) {
      if (renamed_[at(s)] >= 0) {
        parent_[at(node_[at(s)])] = node_count_ + renamed_[at(s)];
      } else {
        next_node_[at(sets)] = node_[at(s)];
        renamed_[at(s)] = sets++;
      }
    }
    node_count_ += cycles_;
    std::copy_n(next_node_.begin(), sets, node_.begin());
    std::size_t kept = 0;
    for (auto const& edge : live_) {
      int const tail = renamed_[at(edge.tail)];
      int const head = renamed_[at(edge.head)];
      if (tail == head) continue;
      live_[kept++] = {tail, head, edge.arc, edge.cost - best_[at(edge.head)].cost};
    }
    live_.resize(kept, live_arc{});
    root_set_ = renamed_[at(root_set_)];
    set_count_ = sets;
  }

  /// Expands the sets from the last to the first. The edge that enters a set replaces the picks of
  /// the nodes around its head.
  void expand() {
    std::ranges::fill(covered_, false);
    for (int node = node_count_ - 1; node >= 0; --node) {
      if (covered_[at(node)] || node == root_) continue;
      auto const& edge = arcs_[at(picked_[at(node)])];
      edge_into_[at(edge.head)] = edge.name;
      for (int inner = edge.head; inner != node; inner = parent_[at(inner)]) {
        covered_[at(inner)] = true;
      }
    }
    edges_.clear();
    for (int v = 0; v < n_; ++v) {
      if (v != root_) edges_.push_back(edge_into_[at(v)]);
    }
  }

  int root_;
  int n_;
  std::vector<named_arc> arcs_;
  // By node of the contraction forest:
  std::vector<int> parent_;  // the set that contains it, -1 for none
  std::vector<int> picked_;  // position in arcs_ of the cheapest edge into it
  std::vector<Cost> dual_;
  std::vector<char> covered_;
  // By current set:
  std::vector<int> node_;
  std::vector<int> renamed_;
  std::vector<int> visited_;
  std::vector<int> next_node_;
  std::vector<choice> best_;
  std::vector<live_arc> live_;
  std::vector<int> edge_into_;  // by vertex
  std::vector<int> edges_;
  int set_count_ = 0;
  int node_count_ = 0;
  int root_set_ = 0;
  int cycles_ = 0;
};

}}}  // namespace blink::BLINK_ABI::detail
