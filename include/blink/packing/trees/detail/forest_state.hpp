// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/packing/trees/detail/branching_flows.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// An edge that may join a tree.
struct joining_edge {
  int edge = 0;
  std::int64_t most = 0;   // upper bound of how often it may join
  bool is_answer = false;  // true if `most` is exact
};

/// A partial arborescence.
struct growing_tree {
  int root = 0;
  std::int64_t multiplicity = 0;
  std::vector<int> edges;              // each follows the one above it
  std::vector<int> depth;              // by vertex; -1: not reached
  std::vector<joining_edge> frontier;  // by the level of their tails
  std::size_t reached = 1;
  int height = 0;
};

/// Partial arborescences, and the room that they leave on the edges. The state determines how often
/// an edge may join a tree such that all trees can still be finished.
///
/// An edge e into y takes room from the sets that contain y but not its tail. So a tree may take e
/// as far as the flow of the other trees into y does not need it (`branching_flows`). One flow
/// without e gives this need: the shortage of the flow must remain available on e.
///
/// A set of vertices is tight if the trees that miss it need all the room of the edges into it. It
/// stays tight as trees grow. Capacities into sets are submodular. So for an edge inside a tight
/// set, only sets inside it matter. For an edge between disjoint tight sets, only unions of them
/// matter. Flows run in graphs with all else contracted (`use_tight_sets`), with equal answers. On
/// machines of many servers, the tight sets are the servers.
class forest_state {
 public:
  forest_state(arc_list const& graph, std::vector<std::int64_t> const& capacity)
      : graph_(&graph), vertices_(static_cast<std::size_t>(graph.vertex_count)), room(capacity) {
    set_of_.assign(vertices_, 0);
    std::vector<std::size_t> vertex(vertices_);
    std::iota(vertex.begin(), vertex.end(), std::size_t{0});
    std::vector<int> edge(graph.arcs.size());
    std::iota(edge.begin(), edge.end(), 0);
    networks_.push_back({branching_flows(graph, capacity), std::move(vertex), std::move(edge)});
  }

  /// Adds a tree and returns its position.
  std::size_t add(growing_tree tree) {
    trees.push_back(std::move(tree));
    for (auto& network : networks_) add_to(network, trees.back());
    return trees.size() - 1;
  }

  /// Adds an edge to a tree with the tree's whole multiplicity.
  void join(std::size_t position, int edge) {
    auto& t = trees[position];
    auto const& a = arc_of(edge);
    room[static_cast<std::size_t>(edge)] -= t.multiplicity;
    int const depth = t.depth[static_cast<std::size_t>(a.tail)] + 1;
    t.depth[static_cast<std::size_t>(a.head)] = depth;
    t.height = std::max(t.height, depth);
    t.edges.push_back(edge);
    ++t.reached;
    join_in(networks_.front(), position, edge);
    auto const from = set_of_[static_cast<std::size_t>(a.tail)];
    auto const to = set_of_[static_cast<std::size_t>(a.head)];
    if (from != 0) join_in(networks_[from], position, edge);
    if (to != 0 && to != from) join_in(networks_[to], position, edge);
  }

  /// Splits a tree: it keeps `multiplicity`, and a copy gets the rest.
  void split(std::size_t position, std::int64_t multiplicity) {
    auto rest = trees[position];
    rest.multiplicity -= multiplicity;
    trees[position].multiplicity = multiplicity;
    trees.push_back(std::move(rest));
    for (auto& network : networks_) network.flows.split(position, multiplicity);
  }

  /// The number of times that an edge may join a tree, up to the tree's multiplicity.
  ///
  /// Pre: the tree reached the edge's tail and not its head.
  [[nodiscard]] std::int64_t largest_multiplicity(std::size_t position, int edge) {
    auto const e = static_cast<std::size_t>(edge);
    auto const wanted = std::min(trees[position].multiplicity, room[e]);
    if (wanted <= 0) return 0;
    auto const head = static_cast<std::size_t>(arc_of(edge).head);
    bool const is_inside = set_of_[static_cast<std::size_t>(arc_of(edge).tail)] == set_of_[head];
    auto& network = networks_[is_inside ? set_of_[head] : 0];
    auto const y = network.vertex[head];
    if (network.flows.has_reached(position, y)) return 0;  // a tight set is entered once
    auto const short_by = network.flows.shortage(y, position, network.edge[e], room[e] - wanted);
    return std::min(wanted, room[e] - short_by);
  }

  /// Checks that all trees can be finished, and from then on uses tight sets. Returns the vertices
  /// of a set with too little capacity into it, or nothing.
  [[nodiscard]] std::vector<int> use_tight_sets() {
    constexpr auto no_tree = static_cast<std::size_t>(-1);
    auto whole = networks_.front();
    for (std::size_t v = 0; v < vertices_; ++v) {
      if (set_of_[v] != 0) {
        auto& inside = networks_[set_of_[v]];
        if (inside.flows.shortage(inside.vertex[v], no_tree, -1, 0) == 0) continue;
      }
      if (whole.flows.shortage(v, no_tree, -1, 0) != 0) return whole.flows.short_set();
      if (set_of_[v] != 0) continue;
      auto const& tight = whole.flows.tight_set(v);
      bool const is_useful = tight.size() > 1 && tight.size() <= vertices_ / 2 &&
                             std::all_of(tight.begin(), tight.end(), [&](int u) {
                               return set_of_[static_cast<std::size_t>(u)] == 0;
                             });
      if (!is_useful) continue;
      // All vertices outside are one, the last.
      std::vector<std::size_t> vertex(vertices_, tight.size());
      for (std::size_t i = 0; i < tight.size(); ++i) {
        vertex[static_cast<std::size_t>(tight[i])] = i;
        set_of_[static_cast<std::size_t>(tight[i])] = networks_.size();
      }
      networks_.push_back(contracted(std::move(vertex), tight.size() + 1));
    }
    if (networks_.size() == 1) return {};
    std::vector<std::size_t> vertex(vertices_), of_set(networks_.size(), vertices_);
    std::size_t count = 0;
    for (std::size_t v = 0; v < vertices_; ++v) {
      if (set_of_[v] == 0) {
        vertex[v] = count++;
        continue;
      }
      auto& known = of_set[set_of_[v]];
      if (known == vertices_) known = count++;
      vertex[v] = known;
    }
    networks_.front() = contracted(std::move(vertex), count);
    return {};
  }

  /// The number of tight sets that flows use.
  [[nodiscard]] std::size_t tight_set_count() const { return networks_.size() - 1; }

  /// The number of edges, trees and sets of 64 trees that all queries visited.
  [[nodiscard]] std::size_t work() const {
    std::size_t sum = 0;
    for (auto const& network : networks_) sum += network.flows.work();
    return sum;
  }

  /// Edges by tail, without loops.
  [[nodiscard]] std::vector<std::vector<int>> edges_by_tail() const {
    std::vector<std::vector<int>> result(vertices_);
    for (std::size_t e = 0; e < graph_->arcs.size(); ++e) {
      auto const& a = graph_->arcs[e];
      if (a.head != a.tail) result[static_cast<std::size_t>(a.tail)].push_back(static_cast<int>(e));
    }
    return result;
  }

 private:
  // A contraction of the graph. The first is of the tight sets, or the graph itself; the others
  // are of all that is outside a tight set.
  struct contraction {
    branching_flows flows;
    std::vector<std::size_t> vertex;  // by vertex of the graph
    std::vector<int> edge;            // by edge of the graph; -1: inside a vertex
  };

  [[nodiscard]] arc const& arc_of(int edge) const {
    return graph_->arcs[static_cast<std::size_t>(edge)];
  }

  [[nodiscard]] contraction contracted(std::vector<std::size_t> vertex, std::size_t count) const {
    arc_list graph{static_cast<int>(count), {}};
    std::vector<std::int64_t> capacity;
    std::vector<int> edge(graph_->arcs.size(), -1);
    for (std::size_t e = 0; e < edge.size(); ++e) {
      auto const tail = vertex[static_cast<std::size_t>(graph_->arcs[e].tail)];
      auto const head = vertex[static_cast<std::size_t>(graph_->arcs[e].head)];
      if (tail == head) continue;
      edge[e] = static_cast<int>(graph.arcs.size());
      graph.arcs.push_back({static_cast<int>(tail), static_cast<int>(head)});
      capacity.push_back(room[e]);
    }
    contraction result{branching_flows(graph, capacity), std::move(vertex), std::move(edge)};
    for (auto const& t : trees) add_to(result, t);
    return result;
  }
  void add_to(contraction& network, growing_tree const& t) const {
    network.flows.add(t.multiplicity);
    auto const position = network.flows.tree_count() - 1;
    for (std::size_t v = 0; v < vertices_; ++v) {
      if (t.depth[v] >= 0) network.flows.reach(position, network.vertex[v]);
    }
  }
  void join_in(contraction& network, std::size_t position, int edge) const {
    int const local = network.edge[static_cast<std::size_t>(edge)];
    if (local < 0) return;
    network.flows.use(static_cast<std::size_t>(local), trees[position].multiplicity);
    network.flows.reach(position, network.vertex[static_cast<std::size_t>(arc_of(edge).head)]);
  }

  arc_list const* graph_;
  std::size_t vertices_ = 0;
  std::vector<contraction> networks_;
  std::vector<std::size_t> set_of_;  // by vertex: the position of its contraction; 0: none

 public:
  std::vector<growing_tree> trees;
  std::vector<std::int64_t> room;  // by edge
};

}}}  // namespace blink::BLINK_ABI::detail
