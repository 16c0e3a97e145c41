// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A part of a flow of trees: from a vertex that a tree has reached, over edges.
struct sent_path {
  std::size_t tree = 0;
  std::size_t vertex = 0;
  std::int64_t amount = 0;
  std::size_t last = 0;  ///< end of its edges; they begin where those of the path before end
};

/// Paths of a flow, in few arrays.
class sent_paths {
 public:
  void add(sent_path path, std::span<int const> edges) {
    edges_.insert(edges_.end(), edges.begin(), edges.end());
    path.last = edges_.size();
    paths_.push_back(path);
  }
  /// Calls `visit(path, edges)` for each path.
  template <class Visit>
  void for_each(Visit const& visit) const {
    std::size_t first = 0;
    for (auto const& path : paths_) {
      visit(path, std::span<int const>(edges_).subspan(first, path.last - first));
      first = path.last;
    }
  }
  /// The number of paths and of their edges.
  [[nodiscard]] std::size_t size() const { return paths_.size() + edges_.size(); }

 private:
  std::vector<sent_path> paths_;
  std::vector<int> edges_;
};

/// Divides a flow into paths to one sink. It takes time by their lengths alone, for which
/// `flow_paths` finds few and short ones instead.
///
/// Edges have numbers below `edges`. Those that carry flow are in a list for each tail.
class flow_division {
 public:
  flow_division(std::size_t vertices, std::size_t edges)
      : undivided_(edges), next_(vertices), place_(vertices) {}

  /// Begins with a flow.
  ///
  /// with_flow: the edges that may carry flow
  /// flow:      by edge
  /// first_out: by vertex: the first edge of its list
  void start(std::span<std::size_t const> with_flow, std::span<std::int64_t const> flow,
             std::span<int const> first_out) {
    for (auto const edge : with_flow) undivided_[edge] = flow[edge];
    std::copy(first_out.begin(), first_out.end(), next_.begin());
  }

  /// Takes a path of at most `wanted` out of the flow; returns its amount. `edges` has its edges
  /// until the next call.
  ///
  /// next_out: by edge: the next one of its list
  /// Pre:      more flow leaves each vertex on the way than is divided, as conservation makes it.
  std::int64_t take(std::size_t from, std::size_t sink, std::int64_t wanted,
                    std::span<int const> next_out, std::span<int const> heads) {
    walk(from, sink, next_out, heads);
    auto const amount = std::min(wanted, least(0));
    lower(0, amount);
    return amount;
  }
  [[nodiscard]] std::span<int const> edges() const { return walked_; }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  /// Walks over edges with undivided flow. A cycle on the way loses as much flow as it can.
  void walk(std::size_t from, std::size_t sink, std::span<int const> next_out,
            std::span<int const> heads) {
    walked_.clear();
    place_[from] = 1;
    for (auto v = from; v != sink;) {
      int& edge = next_[v];
      while (undivided_[at(edge)] == 0) edge = next_out[at(edge)];
      walked_.push_back(edge);
      v = at(heads[at(edge)]);
      if (place_[v] != 0) {
        auto const begin = place_[v] - 1;
        lower(begin, least(begin));
        forget(begin, heads);
      }
      place_[v] = walked_.size() + 1;
    }
    place_[from] = 0;
    for (int const edge : walked_) place_[at(heads[at(edge)])] = 0;
  }

  [[nodiscard]] std::int64_t least(std::size_t begin) const {
    auto result = undivided_[at(walked_[begin])];
    for (auto i = begin; i < walked_.size(); ++i)
      result = std::min(result, undivided_[at(walked_[i])]);
    return result;
  }
  void lower(std::size_t begin, std::int64_t amount) {
    for (auto i = begin; i < walked_.size(); ++i) undivided_[at(walked_[i])] -= amount;
  }
  void forget(std::size_t begin, std::span<int const> heads) {
    for (auto i = begin; i < walked_.size(); ++i) place_[at(heads[at(walked_[i])])] = 0;
    walked_.resize(begin);
  }

  std::vector<std::int64_t> undivided_;  // by edge: flow that is in no path yet
  std::vector<int> next_;                // by vertex: a place in its list
  std::vector<std::size_t> place_;       // by vertex: its place on the path, from 1; 0: not on it
  std::vector<int> walked_;
};

}}}  // namespace blink::BLINK_ABI::detail
