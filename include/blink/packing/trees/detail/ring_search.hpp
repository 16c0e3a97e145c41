// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/graph/concepts.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Capacities between pairs of vertices. Parallel edges are merged and loops dropped.
struct ring_links {
  struct pair_link {
    int tail;
    int head;
    std::int64_t capacity;
    std::vector<int> edges;  ///< positions in the graph
  };
  int vertex_count = 0;
  std::vector<pair_link> links;
  std::vector<std::vector<std::pair<int, int>>> out;  ///< by vertex: (head, link)
  std::vector<std::vector<std::pair<int, int>>> in;   ///< by vertex: (tail, link)
  std::vector<int> reverse;                           ///< by link: the opposite link, -1 for none

  template <class Capacities>
  ring_links(arc_list const& graph, Capacities const& capacities)
      : vertex_count(graph.vertex_count),
        out(static_cast<std::size_t>(vertex_count)),
        in(static_cast<std::size_t>(vertex_count)) {
    std::map<std::pair<int, int>, int> position;
    for (std::size_t e = 0; e < graph.arcs.size(); ++e) {
      auto const [tail, head] = graph.arcs[e];
      auto const capacity = static_cast<std::int64_t>(capacities[e]);
      if (tail == head || capacity <= 0) continue;
      auto const [found, is_new] =
          position.try_emplace({tail, head}, static_cast<int>(links.size()));
      if (is_new) {
        links.push_back({tail, head, 0, {}});
        out[static_cast<std::size_t>(tail)].emplace_back(head, found->second);
        in[static_cast<std::size_t>(head)].emplace_back(tail, found->second);
      }
      auto& link = links[static_cast<std::size_t>(found->second)];
      link.capacity += capacity;
      link.edges.push_back(static_cast<int>(e));
    }
    for (auto const& link : links) {
      auto const back = position.find({link.head, link.tail});
      reverse.push_back(back == position.end() ? -1 : back->second);
    }
  }

  /// An upper bound of the rate. Every ring takes one link out of each vertex and one into it.
  [[nodiscard]] std::int64_t bound() const {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (auto const* side : {&out, &in}) {
      for (auto const& ways : *side) {
        std::int64_t sum = 0;
        for (auto const& way : ways) sum += links[static_cast<std::size_t>(way.second)].capacity;
        least = std::min(least, sum);
      }
    }
    return least;
  }

  /// True if a coloring rules out a ring. If every link joins two colors, a ring has equally many
  /// vertices of each.
  [[nodiscard]] bool colours_forbid() const {
    std::vector<int> colour(static_cast<std::size_t>(vertex_count), 0);
    std::vector<int> queue{0};
    colour[0] = 1;
    for (std::size_t i = 0; i < queue.size(); ++i) {
      auto const v = static_cast<std::size_t>(queue[i]);
      for (auto const* side : {&out[v], &in[v]}) {
        for (auto const& [other, link] : *side) {
          int& c = colour[static_cast<std::size_t>(other)];
          if (c == colour[v]) return false;
          if (c == 0) {
            c = -colour[v];
            queue.push_back(other);
          }
        }
      }
    }
    return queue.size() != colour.size() ||
           std::ranges::count(colour, 1) != std::ranges::count(colour, -1);
  }
};

/// Finds Hamiltonian cycles by extending a path from vertex 0. It backtracks as soon as the
/// unvisited vertices cannot complete a cycle.
class ring_search {
 public:
  explicit ring_search(ring_links const& graph)
      : graph_(graph), visited_(static_cast<std::size_t>(graph.vertex_count)) {}

  /// Calls `visit(links)` for each Hamiltonian cycle over links with `room`, until it returns false
  /// or `node_limit` extensions were made. Returns true if all cycles were visited.
  ///
  /// shuffle: changes the order in which equal options are tried; 0 keeps the order of the links
  template <class Visit>
  bool run(std::vector<std::int64_t> const& room, std::size_t node_limit, std::uint64_t shuffle,
           Visit visit) {
    room_ = &room;
    left_ = node_limit;
    shuffle_ = shuffle;
    std::ranges::fill(visited_, 0);
    path_.clear();
    stopped_ = false;
    if (graph_.vertex_count < 2) return true;
    visited_[0] = 1;
    extend(0, 1, visit);
    return !stopped_;
  }

 private:
  bool has_capacity(int link) const { return (*room_)[static_cast<std::size_t>(link)] > 0; }
  bool is_open(int v) const { return visited_[static_cast<std::size_t>(v)] == 0; }

  template <class Visit>
  void extend(int end, int length, Visit& visit) {
    if (left_ == 0) {
      stopped_ = true;
      return;
    }
    --left_;
    auto const& ways = graph_.out[static_cast<std::size_t>(end)];
    if (length == graph_.vertex_count) {
      for (auto const& [head, link] : ways) {
        if (head != 0 || !has_capacity(link)) continue;
        path_.push_back(link);
        if (!visit(std::as_const(path_))) stopped_ = true;
        path_.pop_back();
      }
      return;
    }
    if (!can_finish(end, length)) return;
    // Vertices with few links onward come first, because later they may have none.
    struct option {
      int ways;
      std::uint64_t tie;
      int head;
      int link;
    };
    std::vector<option> options;
    for (auto const& [head, link] : ways) {
      if (!is_open(head) || !has_capacity(link)) continue;
      int count = 0;
      for (auto const& [next, onward] : graph_.out[static_cast<std::size_t>(head)]) {
        if (has_capacity(onward) && is_open(next)) ++count;
      }
      std::uint64_t const tie =
          shuffle_ == 0 ? 0
                        : (shuffle_ = shuffle_ * 6364136223846793005U + 1442695040888963407U) >> 33;
      options.push_back({count, tie, head, link});
    }
    std::ranges::sort(options, {},
                      [](option const& o) { return std::tuple(o.ways, o.tie, o.link); });
    for (auto const& next : options) {
      visited_[static_cast<std::size_t>(next.head)] = 1;
      path_.push_back(next.link);
      extend(next.head, length + 1, visit);
      path_.pop_back();
      visited_[static_cast<std::size_t>(next.head)] = 0;
      if (stopped_) return;
    }
  }

  /// True if every open vertex has a link in and another link out, and the path can reach all of
  /// them.
  bool can_finish(int end, int length) {
    int only_from_end = 0;
    for (int v = 0; v < graph_.vertex_count; ++v) {
      if (!is_open(v)) continue;
      int ways_in = 0, ways_out = 0, in_from = -1, out_to = -1;
      for (auto const& [tail, link] : graph_.in[static_cast<std::size_t>(v)]) {
        if (!has_capacity(link) || (tail != end && !is_open(tail))) continue;
        in_from = tail;
        if (++ways_in == 2) break;
      }
      for (auto const& [head, link] : graph_.out[static_cast<std::size_t>(v)]) {
        if (!has_capacity(link) || (head != 0 && !is_open(head))) continue;
        out_to = head;
        if (++ways_out == 2) break;
      }
      if (ways_in == 0 || ways_out == 0) return false;
      bool const to_and_fro = ways_in == 1 && ways_out == 1 && in_from == out_to;
      if (to_and_fro && !(in_from == end && graph_.vertex_count == 2)) return false;
      if (ways_in == 1 && in_from == end && ++only_from_end > 1) return false;
    }
    reached_.assign(visited_.begin(), visited_.end());
    queue_.assign(1, end);
    auto const all = static_cast<std::size_t>(graph_.vertex_count - length + 1);
    for (std::size_t i = 0; i < queue_.size() && queue_.size() < all; ++i) {
      for (auto const& [head, link] : graph_.out[static_cast<std::size_t>(queue_[i])]) {
        if (!has_capacity(link) || reached_[static_cast<std::size_t>(head)] != 0) continue;
        reached_[static_cast<std::size_t>(head)] = 1;
        queue_.push_back(head);
      }
    }
    return queue_.size() == all;
  }

  ring_links const& graph_;
  std::vector<std::int64_t> const* room_ = nullptr;
  std::vector<char> visited_;
  std::vector<char> reached_;
  std::vector<int> queue_;
  std::vector<int> path_;  // links
  std::size_t left_ = 0;
  std::uint64_t shuffle_ = 0;
  bool stopped_ = false;
};

}}}  // namespace blink::BLINK_ABI::detail
