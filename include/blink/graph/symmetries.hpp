// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/graph/concepts.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Symmetries of a graph, one for each of a list of vertices. Symmetry number k maps the first
/// vertex of the list to vertex number k of the list. Together they are a group in the sense of
/// algebra, like the rotations of a circle.
struct symmetries {
  std::vector<std::vector<int>> image;  ///< rows: symmetries; columns: the image of each vertex
};

namespace detail {

/// A graph as capacities between pairs of vertices, with parallel edges added up.
class capacity_rows {
 public:
  template <class Capacities>
  capacity_rows(arc_list const& graph, Capacities const& capacities)
      : out_(static_cast<std::size_t>(graph.vertex_count)), in_(out_.size()) {
    for (std::size_t e = 0; e < graph.arcs.size(); ++e) {
      auto const& a = graph.arcs[e];
      if (a.tail == a.head || capacities[e] == 0) continue;
      out_[static_cast<std::size_t>(a.tail)][a.head] += static_cast<std::int64_t>(capacities[e]);
      in_[static_cast<std::size_t>(a.head)][a.tail] += static_cast<std::int64_t>(capacities[e]);
    }
  }

  /// Capacity out of a vertex, by head.
  [[nodiscard]] std::map<int, std::int64_t> const& out(int v) const {
    return out_[static_cast<std::size_t>(v)];
  }
  /// Capacity into a vertex, by tail.
  [[nodiscard]] std::map<int, std::int64_t> const& in(int v) const {
    return in_[static_cast<std::size_t>(v)];
  }

 private:
  std::vector<std::map<int, std::int64_t>> out_, in_;
};

/// Extends a partial assignment of vertices to a symmetry of the whole graph. Vertices are assigned
/// in the order in which they are reached. Each goes to the first vertex with the same capacities
/// to and from the assigned ones. The search does not backtrack, so it does not find every
/// symmetry.
inline std::optional<std::vector<int>> extended_symmetry(capacity_rows const& graph,
                                                         std::vector<int> image) {
  std::vector<bool> taken(image.size());
  std::vector<int> order;
  for (std::size_t v = 0; v < image.size(); ++v) {
    if (image[v] < 0) continue;
    taken[static_cast<std::size_t>(image[v])] = true;
    order.push_back(static_cast<int>(v));
  }
  auto const alike = [&](int v, int w) {
    for (auto const rows : {&capacity_rows::out, &capacity_rows::in}) {
      auto const& from = (graph.*rows)(v);
      auto const& to = (graph.*rows)(w);
      if (from.size() != to.size()) return false;
      for (auto const& [u, capacity] : from) {
        int const partner = image[static_cast<std::size_t>(u)];
        if (partner < 0) continue;
        auto const found = to.find(partner);
        if (found == to.end() || found->second != capacity) return false;
      }
    }
    return true;
  };
  for (std::size_t i = 0; i < order.size(); ++i) {
    int const v = order[i];
    if (!alike(v, image[static_cast<std::size_t>(v)])) return std::nullopt;
    for (auto const rows : {&capacity_rows::out, &capacity_rows::in}) {
      for (auto const& [next, capacity] : (graph.*rows)(v)) {
        if (image[static_cast<std::size_t>(next)] >= 0) continue;
        bool found = false;
        for (auto const& [other, same] : (graph.*rows)(image[static_cast<std::size_t>(v)])) {
          if (taken[static_cast<std::size_t>(other)] || same != capacity || !alike(next, other)) {
            continue;
          }
          image[static_cast<std::size_t>(next)] = other;
          taken[static_cast<std::size_t>(other)] = true;
          order.push_back(next);
          found = true;
          break;
        }
        if (!found) return std::nullopt;
      }
    }
  }
  for (std::size_t v = 0; v < image.size(); ++v) {
    if (image[v] < 0) image[v] = static_cast<int>(v);  // has no edges
    if (!alike(static_cast<int>(v), image[v])) return std::nullopt;
  }
  return image;
}

}  // namespace detail

/// Finds a group of symmetries in which exactly one maps the first of `ranks` to each of them. It
/// finds one if the ranks are numbered as positions in a grid, of any extents, whose rows close to
/// rings. Examples are servers of GPUs, tori, hypercubes and all-to-all links. Other vertices
/// follow their neighbours.
///
/// Time: O(D^2 E log V) for D divisors of the number of ranks, and O(N V) for the result.
/// Pre:  one capacity for each edge; `ranks` are distinct vertices, at least one.
/// Post: every symmetry keeps the capacities between all pairs of vertices; nothing if none was
///       found, although one may exist.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] std::optional<symmetries> find_symmetries(Graph const& graph,
                                                        Capacities const& capacities,
                                                        std::vector<int> const& ranks) {
  arc_list const& arcs = to_arc_list(graph);
  expects(static_cast<std::size_t>(capacities.size()) == arcs.arcs.size(),
          "find_symmetries: the capacities do not match the edges, expected one for each edge");
  detail::capacity_rows const rows(arcs, capacities);
  auto const n = ranks.size();
  auto const vertices = static_cast<std::size_t>(arcs.vertex_count);
  // Rotates each block of `block` consecutive ranks by `step`.
  auto const rotated_blocks = [&](std::size_t block, std::size_t step) {
    std::vector<int> image(vertices, -1);
    for (std::size_t i = 0; i < n; ++i) {
      auto const to = i / block * block + (i % block + step) % block;
      image[static_cast<std::size_t>(ranks[i])] = ranks[to];
    }
    return detail::extended_symmetry(rows, std::move(image));
  };
  symmetries result;
  std::vector<int> identity(vertices);
  for (std::size_t v = 0; v < vertices; ++v) identity[v] = static_cast<int>(v);
  result.image.push_back(std::move(identity));
  for (std::size_t step = 1; step < n;) {
    std::optional<std::vector<int>> turn;
    std::size_t block = n;
    for (; block > step && !turn; block -= step) {
      if (n % block == 0 && block % step == 0) turn = rotated_blocks(block, step);
      if (turn) break;
    }
    if (!turn) return std::nullopt;
    for (std::size_t i = 0; i + step < block; ++i) {  // composed with the image `step` positions
                                                      // before
      std::vector<int> next(vertices);
      for (std::size_t v = 0; v < vertices; ++v) {
        next[v] = (*turn)[static_cast<std::size_t>(result.image[i][v])];
      }
      result.image.push_back(std::move(next));
    }
    step = block;
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
