// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/detail/flow_network.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace blink::inline BLINK_ABI::detail {

/// A partial arborescence.
struct growing_tree {
  int root = 0;
  std::int64_t multiplicity = 0;
  std::vector<int> edges;
  std::vector<int> depth;  // by vertex; -1: not reached
  std::size_t reached = 1;
  int height = 0;
};

/// Edges on the way from a vertex to the vertex farthest from it; unreachable ones do not count.
template <class Capacities>
[[nodiscard]] int eccentricity(arc_list const& graph, Capacities const& capacities, int from) {
  std::vector<int> distance(static_cast<std::size_t>(graph.vertex_count), -1);
  distance[static_cast<std::size_t>(from)] = 0;
  int farthest = 0;
  for (bool changed = true; changed; ++farthest) {
    changed = false;
    for (std::size_t e = 0; e < graph.arcs.size(); ++e) {
      auto const& a = graph.arcs[e];
      if (distance[static_cast<std::size_t>(a.tail)] != farthest || !(capacities[e] > 0) ||
          distance[static_cast<std::size_t>(a.head)] >= 0) {
        continue;
      }
      distance[static_cast<std::size_t>(a.head)] = farthest + 1;
      changed = true;
    }
  }
  return farthest - 1;
}

/// In which order trees grow.
struct growth_order {
  bool level_by_level = true;  ///< all trees together; otherwise one after the other
  bool split_late = false;     ///< go a level deeper rather than split a tree
  std::uint64_t seed = 0;      ///< 0: vertices and edges in their own order
};

/// Grows arborescences into capacities; see pack_arborescences.
class growing_forest {
 public:
  template <class Capacities>
  growing_forest(arc_list const& graph, Capacities const& capacities)
      : graph_(graph), leaving_(static_cast<std::size_t>(graph.vertex_count)) {
    expects(static_cast<std::size_t>(capacities.size()) == graph.arcs.size(),
            "pack_arborescences: one capacity for each edge");
    for (std::size_t e = 0; e < graph.arcs.size(); ++e) {
      auto const& a = graph.arcs[e];
      capacity_.push_back(static_cast<std::int64_t>(capacities[e]));
      expects(capacity_.back() >= 0, "pack_arborescences: a capacity is negative");
      count(capacity_.back());
      if (a.tail != a.head && capacity_.back() > 0) {
        leaving_[static_cast<std::size_t>(a.tail)].push_back(static_cast<int>(e));
      }
    }
  }

  void demand(int root, std::int64_t multiplicity) {
    if (multiplicity == 0) return;
    count(multiplicity);
    growing_tree t{root, multiplicity, {}, {}, 1, 0};
    t.depth.assign(leaving_.size(), -1);
    t.depth[static_cast<std::size_t>(root)] = 0;
    demands_.push_back(std::move(t));
  }

  /// Every vertex set must be entered by as much as the roots outside it demand: a flow of
  /// everything from a super source to each vertex.
  void require_feasible() const {
    int const super_source = graph_.vertex_count;
    flow_network network(graph_.vertex_count + 1);
    for (std::size_t e = 0; e < graph_.arcs.size(); ++e) {
      network.add(graph_.arcs[e].tail, graph_.arcs[e].head, capacity_[e]);
    }
    std::int64_t wanted = 0;
    for (auto const& t : demands_) {
      network.add(super_source, t.root, t.multiplicity);
      wanted += t.multiplicity;
    }
    for (int v = 0; v < graph_.vertex_count; ++v) {
      auto const got = network.run(super_source, v, wanted);
      if (got >= wanted) continue;
      std::string cut;
      for (int u = 0; u < graph_.vertex_count; ++u) {
        if (!network.source_side(u)) cut += (cut.empty() ? "" : " ") + std::to_string(u);
      }
      throw planning_error("pack_arborescences: " + std::to_string(wanted) +
                           " trees wanted, but the cut around the vertices {" + cut + "} lets " +
                           std::to_string(got) + " through");
    }
  }

  [[nodiscard]] std::vector<std::int64_t> const& capacity() const { return capacity_; }

  /// Grows all trees to the end. Pre: require_feasible did not throw.
  [[nodiscard]] std::vector<growing_tree> grow(growth_order const& order) {
    room_ = capacity_;
    trees_ = demands_;
    std::mt19937_64 random(order.seed);
    auto const n = leaving_.size();
    order_.resize(n);
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    for (auto& edges : leaving_) {
      std::sort(edges.begin(), edges.end());
      if (order.seed != 0) std::shuffle(edges.begin(), edges.end(), random);
    }
    if (order.seed != 0) std::shuffle(order_.begin(), order_.end(), random);
    for (;;) {
      // The unfinished tree that is lowest (smallest) so far, or the first one.
      growing_tree* next = nullptr;
      for (auto& t : trees_) {
        if (t.reached == n) continue;
        if (next == nullptr || (order.level_by_level && t.reached < next->reached)) next = &t;
        if (!order.level_by_level) break;
      }
      if (next == nullptr) return std::move(trees_);
      extend(static_cast<std::size_t>(next - trees_.data()), order.split_late);
    }
  }

 private:
  void count(std::int64_t amount) {
    if (amount >= flow_network::unlimited - total_) {
      throw overflow_error("pack_arborescences: capacities and demands exceed 62 bits");
    }
    total_ += amount;
  }

  /// Adds one edge to a tree: the lowest that takes the whole multiplicity if there is one on the
  /// lowest possible level (split_late: on any level), else the one that takes most; the rest of
  /// the tree is split off.
  void extend(std::size_t position, bool split_late) {
    prepare_flows(position);
    auto const& t = trees_[position];
    std::int64_t most = 0;
    int best = -1;
    for (int level = 0; level <= t.height && most < t.multiplicity; ++level) {
      if (most > 0 && !split_late) break;
      for (std::size_t const x : order_) {
        if (t.depth[x] != level || most == t.multiplicity) continue;
        for (int const e : leaving_[x]) {
          auto const y = static_cast<std::size_t>(graph_.arcs[static_cast<std::size_t>(e)].head);
          if (t.depth[y] >= 0 ||
              std::min(room_[static_cast<std::size_t>(e)], t.multiplicity) <= most) {
            continue;
          }
          auto const possible = largest_multiplicity(t, e);
          if (possible > most) {
            most = possible;
            best = e;
          }
          if (most == t.multiplicity) break;
        }
      }
    }
    expects(best >= 0, "pack_arborescences: no edge extends a tree, though the demand is feasible");
    if (most < t.multiplicity) {
      auto rest = t;
      rest.multiplicity -= most;
      trees_.push_back(std::move(rest));
    }
    auto& grown = trees_[position];
    grown.multiplicity = most;
    auto const& a = graph_.arcs[static_cast<std::size_t>(best)];
    room_[static_cast<std::size_t>(best)] -= most;
    int const depth = grown.depth[static_cast<std::size_t>(a.tail)] + 1;
    grown.depth[static_cast<std::size_t>(a.head)] = depth;
    grown.height = std::max(grown.height, depth);
    grown.edges.push_back(best);
    ++grown.reached;
  }

  /// The network of the room that is left, fed by what every other unfinished tree must still bring
  /// into any set that holds none of its vertices.
  void prepare_flows(std::size_t position) {
    auto const n = leaving_.size();
    auto const feeds = [&](std::size_t i) { return i != position && trees_[i].reached < n; };
    int branched = 0;
    for (std::size_t i = 0; i < trees_.size(); ++i) {
      branched += feeds(i) && trees_[i].reached > 1 ? 1 : 0;
    }
    feeder_ = static_cast<int>(n);
    network_.clear(static_cast<int>(n) + 1 + branched);
    for (std::size_t v = 0; v < n; ++v) network_.add(feeder_, static_cast<int>(v), 0);
    for (std::size_t e = 0; e < graph_.arcs.size(); ++e) {
      if (room_[e] > 0) network_.add(graph_.arcs[e].tail, graph_.arcs[e].head, room_[e]);
    }
    needs_ = 0;
    int inlet = feeder_;
    for (std::size_t i = 0; i < trees_.size(); ++i) {
      if (!feeds(i)) continue;
      auto const& other = trees_[i];
      needs_ += other.multiplicity;
      if (other.reached == 1) {
        network_.add(feeder_, other.root, other.multiplicity);
        continue;
      }
      network_.add(feeder_, ++inlet, other.multiplicity);
      for (std::size_t v = 0; v < n; ++v) {
        if (other.depth[v] >= 0) {
          network_.add(inlet, static_cast<int>(v), flow_network::unlimited);
        }
      }
    }
  }

  /// How often an edge may join the tree for which `prepare_flows` was called: what the smallest
  /// cut from its tail to its head lets through, less what the other trees need there.
  [[nodiscard]] std::int64_t largest_multiplicity(growing_tree const& t, int edge) {
    auto const& a = graph_.arcs[static_cast<std::size_t>(edge)];
    auto const most = std::min(t.multiplicity, room_[static_cast<std::size_t>(edge)]);
    network_.set_capacity(a.tail, flow_network::unlimited);  // the arc from the feeder
    auto const through = network_.run(feeder_, a.head, most + needs_);
    network_.set_capacity(a.tail, 0);
    return through - needs_;
  }

  arc_list graph_;
  std::vector<std::int64_t> capacity_, room_;
  std::vector<std::vector<int>> leaving_;  // edges by tail
  std::vector<std::size_t> order_;         // vertices, as they are looked at
  std::vector<growing_tree> demands_, trees_;
  flow_network network_{0};
  std::int64_t total_ = 0;  // of capacities and demands
  std::int64_t needs_ = 0;  // of the other trees
  int feeder_ = 0;
};

}  // namespace blink::inline BLINK_ABI::detail
