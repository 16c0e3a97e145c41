// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/packing/detail/arborescence_growth.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

namespace blink::inline BLINK_ABI::detail {

/// Lowers the trees of a packing, without changing what they carry.
///
/// Two trees of equal multiplicity may exchange the edges by which they enter a vertex; a tree may
/// enter a vertex over another edge that has room. Both are done while they make the sum over all
/// trees and vertices of multiplicity * 8^depth smaller, so the deepest vertices come up first.
class tree_lowering {
 public:
  /// capacity: by edge, for all trees together.
  tree_lowering(arc_list const& graph, std::vector<std::int64_t> const& capacity,
                std::vector<growing_tree>& trees)
      : graph_(graph), room_(capacity), trees_(trees) {
    auto const n = static_cast<std::size_t>(graph.vertex_count);
    entering_.resize(n);
    for (std::size_t e = 0; e < graph.arcs.size(); ++e) {
      entering_[static_cast<std::size_t>(graph.arcs[e].head)].push_back(static_cast<int>(e));
    }
    for (auto const& t : trees_) {
      std::vector<int> into(n, -1);
      for (int const e : t.edges) {
        into[static_cast<std::size_t>(graph.arcs[static_cast<std::size_t>(e)].head)] = e;
        room_[static_cast<std::size_t>(e)] -= t.multiplicity;
      }
      into_.push_back(std::move(into));
      depth_.push_back(t.depth);
    }
  }

  /// Stops as soon as no tree is higher than `enough_height`.
  /// kicks: how often a few random exchanges are made, and undone if they led to nothing lower.
  void run(int kicks, int enough_height, std::mt19937_64& random) {
    descend();
    auto best = total();
    for (int kick = 0; kick < kicks && trees_.size() > 1 && height() > enough_height; ++kick) {
      auto const kept = std::tuple(into_, depth_, room_);
      constexpr int exchanges = 6;
      for (int k = 0; k < exchanges; ++k) {
        auto const v = random() % entering_.size();
        exchange(random() % trees_.size(), random() % trees_.size(), v, true);
      }
      descend();
      if (auto const now = total(); now <= best) {
        best = now;
      } else {
        std::tie(into_, depth_, room_) = kept;
      }
    }
    for (std::size_t i = 0; i < trees_.size(); ++i) write_back(i);
  }

 private:
  /// Until no exchange of two trees and no other entry lowers the sum.
  void descend() {
    bool changed = true;
    while (changed) {
      changed = false;
      for (std::size_t i = 0; i < trees_.size(); ++i) {
        for (std::size_t v = 0; v < entering_.size(); ++v) {
          if (into_[i][v] < 0) continue;
          changed = enter_elsewhere(i, v) || changed;
          for (std::size_t j = i + 1; j < trees_.size(); ++j) {
            changed = exchange(i, j, v, false) || changed;
          }
        }
      }
    }
  }

  [[nodiscard]] double total() const {
    double sum = 0;
    for (std::size_t i = 0; i < trees_.size(); ++i) {
      for (int const d : depth_[i]) {
        sum += static_cast<double>(trees_[i].multiplicity) * std::ldexp(1.0, 3 * d);
      }
    }
    return sum;
  }

  [[nodiscard]] int height() const {
    int result = 0;
    for (auto const& depths : depth_) {
      result = std::max(result, *std::max_element(depths.begin(), depths.end()));
    }
    return result;
  }

  [[nodiscard]] int tail(int edge) const {
    return graph_.arcs[static_cast<std::size_t>(edge)].tail;
  }

  /// Is u the vertex v of tree i, or below it?
  [[nodiscard]] bool is_below(std::size_t i, std::size_t u, std::size_t v) const {
    while (u != v) {
      if (into_[i][u] < 0) return false;
      u = static_cast<std::size_t>(tail(into_[i][u]));
    }
    return true;
  }

  /// How many levels v goes down if tree i enters it over the edge.
  [[nodiscard]] int descent(std::size_t i, std::size_t v, int edge) const {
    return depth_[i][static_cast<std::size_t>(tail(edge))] + 1 - depth_[i][v];
  }

  /// How much the sum of 8^depth grows if v and all below it go down so many levels.
  [[nodiscard]] double growth(std::size_t i, std::size_t v, int levels) const {
    double sum = 0;
    for (std::size_t u = 0; u < entering_.size(); ++u) {
      if (depth_[i][u] >= depth_[i][v] && is_below(i, u, v)) {
        sum += std::ldexp(1.0, 3 * depth_[i][u]);
      }
    }
    return sum * (std::ldexp(1.0, 3 * levels) - 1);
  }

  void enter(std::size_t i, std::size_t v, int edge, int levels) {
    if (levels != 0) {
      below_.clear();
      for (std::size_t u = 0; u < entering_.size(); ++u) {
        if (is_below(i, u, v)) below_.push_back(u);
      }
      for (auto const u : below_) depth_[i][u] += levels;
    }
    into_[i][v] = edge;
  }

  bool enter_elsewhere(std::size_t i, std::size_t v) {
    int const present = into_[i][v];
    for (int const e : entering_[v]) {
      auto const levels = descent(i, v, e);
      if (levels >= 0 || room_[static_cast<std::size_t>(e)] < trees_[i].multiplicity) continue;
      // Higher up than v, so not below it: no cycle.
      room_[static_cast<std::size_t>(e)] -= trees_[i].multiplicity;
      room_[static_cast<std::size_t>(present)] += trees_[i].multiplicity;
      enter(i, v, e, levels);
      return true;
    }
    return false;
  }

  bool exchange(std::size_t i, std::size_t j, std::size_t v, bool at_any_cost) {
    int const in_i = into_[i][v];
    int const in_j = into_[j][v];
    if (in_i < 0 || in_j < 0 || in_i == in_j || trees_[i].multiplicity != trees_[j].multiplicity) {
      return false;
    }
    int const down_i = descent(i, v, in_j);
    int const down_j = descent(j, v, in_i);
    if (!at_any_cost && down_i >= 0 && down_j >= 0) return false;
    if (is_below(i, static_cast<std::size_t>(tail(in_j)), v) ||
        is_below(j, static_cast<std::size_t>(tail(in_i)), v)) {
      return false;
    }
    if (!at_any_cost && growth(i, v, down_i) + growth(j, v, down_j) >= 0) return false;
    enter(i, v, in_j, down_i);
    enter(j, v, in_i, down_j);
    return true;
  }

  /// Edges of a tree again, each after the one above it.
  void write_back(std::size_t i) {
    auto& t = trees_[i];
    t.edges.clear();
    for (int const e : into_[i]) {
      if (e >= 0) t.edges.push_back(e);
    }
    std::stable_sort(t.edges.begin(), t.edges.end(), [&](int a, int b) {
      return depth_[i][static_cast<std::size_t>(tail(a))] <
             depth_[i][static_cast<std::size_t>(tail(b))];
    });
    t.height = *std::max_element(depth_[i].begin(), depth_[i].end());
    t.depth = depth_[i];
  }

  arc_list const& graph_;
  std::vector<std::int64_t> room_;  // by edge
  std::vector<growing_tree>& trees_;
  std::vector<std::vector<int>> into_;      // by tree and vertex: the edge that enters it
  std::vector<std::vector<int>> entering_;  // by vertex: all edges that enter it
  std::vector<std::vector<int>> depth_;     // by tree and vertex
  std::vector<std::size_t> below_;
};

}  // namespace blink::inline BLINK_ABI::detail
