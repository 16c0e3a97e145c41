// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A capacity along one path.
struct route_piece {
  int tail = 0;
  int head = 0;
  std::int64_t capacity = 0;
  std::vector<int> path;  ///< vertices from tail to head, both included
};

/// A graph of paths during the removal of switches. Between two vertices there may be pieces of
/// capacity over several paths.
class route_pieces {
 public:
  explicit route_pieces(std::size_t vertex_count) : out_(vertex_count), in_(vertex_count) {}

  /// Adds capacity. Pieces with equal paths are merged.
  void add(route_piece piece) {
    if (piece.capacity == 0 || piece.tail == piece.head) return;
    auto& between = out_[static_cast<std::size_t>(piece.tail)][piece.head];
    in_[static_cast<std::size_t>(piece.head)][piece.tail] += piece.capacity;
    for (auto& other : between) {
      if (other.path == piece.path) {
        other.capacity += piece.capacity;
        return;
      }
    }
    between.push_back(std::move(piece));
  }

  /// Capacity from `tail` to `head` over all paths.
  [[nodiscard]] std::int64_t between(int tail, int head) const {
    auto const& row = in_[static_cast<std::size_t>(head)];
    auto const found = row.find(tail);
    return found == row.end() ? 0 : found->second;
  }

  /// Vertices with capacity to or from `vertex`, in ascending order.
  [[nodiscard]] std::vector<int> neighbours(int vertex) const {
    std::vector<int> result;
    for (auto const& [head, pieces] : out_[static_cast<std::size_t>(vertex)]) {
      result.push_back(head);
    }
    for (auto const& [tail, capacity] : in_[static_cast<std::size_t>(vertex)]) {
      result.push_back(tail);
    }
    std::sort(result.begin(), result.end());
    result.erase(std::unique(result.begin(), result.end()), result.end());
    return result;
  }

  /// Removes capacity between two vertices, from the longest paths first.
  void reduce(int tail, int head, std::int64_t amount) { (void)taken(tail, head, amount); }

  /// Turns an amount of tail -> middle -> head into capacity along the joined paths. Adds none if
  /// tail and head are the same.
  void split(int tail, int middle, int head, std::int64_t amount) {
    if (amount == 0) return;
    auto const first = taken(tail, middle, amount);
    auto const second = taken(middle, head, amount);
    std::size_t i = 0;
    std::size_t j = 0;
    auto left = first.front().capacity;
    auto right = second.front().capacity;
    while (true) {
      auto const here = std::min(left, right);
      add({tail, head, here, joined(first[i].path, second[j].path)});
      left -= here;
      right -= here;
      if (left == 0 && ++i < first.size()) left = first[i].capacity;
      if (right == 0 && ++j < second.size()) right = second[j].capacity;
      if (i == first.size() || j == second.size()) return;
    }
  }

  /// Removes all capacity to and from a vertex.
  void drop_vertex(int vertex) {
    auto const v = static_cast<std::size_t>(vertex);
    for (auto const& [head, pieces] : out_[v]) in_[static_cast<std::size_t>(head)].erase(vertex);
    for (auto const& [tail, capacity] : in_[v]) out_[static_cast<std::size_t>(tail)].erase(vertex);
    out_[v].clear();
    in_[v].clear();
  }

  void multiply(std::int64_t factor) {
    for (auto& row : out_) {
      for (auto& [head, pieces] : row) {
        for (auto& p : pieces) p.capacity *= factor;
      }
    }
    for (auto& row : in_) {
      for (auto& [tail, capacity] : row) capacity *= factor;
    }
  }

  /// Capacity over all paths, by (tail, head).
  [[nodiscard]] std::vector<std::pair<std::pair<int, int>, std::int64_t>> capacities() const {
    std::vector<std::pair<std::pair<int, int>, std::int64_t>> result;
    for (std::size_t v = 0; v < in_.size(); ++v) {
      for (auto const& [tail, capacity] : in_[v]) {
        result.push_back({{tail, static_cast<int>(v)}, capacity});
      }
    }
    return result;
  }

  /// Moves all pieces out, ordered by tail, then head.
  [[nodiscard]] std::vector<route_piece> take() {
    std::vector<route_piece> result;
    for (auto& row : out_) {
      for (auto& [head, pieces] : row) {
        for (auto& p : pieces) result.push_back(std::move(p));
      }
      row.clear();
    }
    return result;
  }

 private:
  std::vector<route_piece> taken(int tail, int head, std::int64_t amount) {
    auto& row = out_[static_cast<std::size_t>(tail)];
    auto const entry = row.find(head);
    auto& pieces = entry->second;
    std::sort(pieces.begin(), pieces.end(), [](route_piece const& a, route_piece const& b) {
      return std::pair(a.path.size(), a.path) < std::pair(b.path.size(), b.path);
    });
    auto& total = in_[static_cast<std::size_t>(head)];
    if ((total[tail] -= amount) == 0) total.erase(tail);
    std::vector<route_piece> result;
    while (amount > 0) {
      auto part = pieces.back();
      part.capacity = std::min(part.capacity, amount);
      amount -= part.capacity;
      if ((pieces.back().capacity -= part.capacity) == 0) pieces.pop_back();
      result.push_back(std::move(part));
    }
    if (pieces.empty()) row.erase(entry);
    return result;
  }

  /// Joins two paths. A detour that leaves a vertex and returns to it is cut out.
  static std::vector<int> joined(std::vector<int> path, std::vector<int> const& next) {
    for (std::size_t i = 1; i < next.size(); ++i) {
      auto const seen = std::find(path.begin(), path.end(), next[i]);
      path.erase(seen == path.end() ? seen : seen + 1, path.end());
      if (path.back() != next[i]) path.push_back(next[i]);
    }
    return path;
  }

  // By tail and by head:
  std::vector<std::map<int, std::vector<route_piece>>> out_;
  std::vector<std::map<int, std::int64_t>> in_;
};

}}}  // namespace blink::BLINK_ABI::detail
