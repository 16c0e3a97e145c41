// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Finds routes between ranks of a machine. Ranks on the route forward.
///
/// A route has the fewest links; among those, the largest capacity of its narrowest link; among
/// those, the lowest node ids. So equal machines give equal routes. A link counts with its
/// capacity / (routes over it + 1). So equally short routes, such as those over several switch
/// planes, are used in turn.
class router {
 public:
  explicit router(topology const& machine) : machine_(&machine), out_(machine.nodes.size()) {
    for (std::size_t i = 0; i < machine.nodes.size(); ++i) {
      position_[machine.nodes[i].id] = static_cast<int>(i);
    }
    for (auto const& l : machine.links) {
      std::pair const ends(id(l.tail), id(l.head));
      auto const [known, fresh] = number_.emplace(ends, capacity_.size());
      if (fresh) {
        capacity_.emplace_back(0);
        uses_.push_back(0);
        out_[static_cast<std::size_t>(l.tail)].push_back({l.head, known->second});
      }
      capacity_[known->second] += machine.in_units(l.capacity);
    }
    for (auto& arcs : out_) {
      std::sort(arcs.begin(), arcs.end(),
                [&](arc const& a, arc const& b) { return id(a.head) < id(b.head); });
    }
  }

  /// The capacity of the link (from, to), node ids, with parallel links added up.
  [[nodiscard]] rational const& capacity(int from, int to) const {
    return capacity_[number_.at({from, to})];
  }
  /// The number of routes over this link.
  [[nodiscard]] std::int64_t uses(int from, int to) const { return uses_[number_.at({from, to})]; }
  /// Counts the links of this route as used `times` more; -1 gives the route back.
  void take(tree_edge const& route, std::int64_t times = 1) {
    for (std::size_t i = 0; i + 1 < route.path.size(); ++i) {
      uses_[number_.at({route.path[i], route.path[i + 1]})] += times;
    }
  }

  /// Returns a route and counts its links as used.
  /// Throws: planning_error if no route leads there.
  [[nodiscard]] tree_edge operator()(int from, int to) {
    auto result = taken_ < most_searches_ ? find(from, to, true) : remembered(from, to);
    if (!result) {
      throw planning_error("no route leads from rank " + std::to_string(from) + " to rank " +
                           std::to_string(to));
    }
    ++taken_;
    take(*result);
    return *std::move(result);
  }

  /// A route, or nothing if no route leads there. With `through_ranks`, other ranks may forward.
  [[nodiscard]] std::optional<tree_edge> find(int from, int to, bool through_ranks) const {
    return route_back(routes_from(from, position_.at(to), through_ranks), from, to);
  }

 private:
  struct arc {
    int head;          ///< position
    std::size_t link;  ///< number
  };
  /// The state of a node in a search.
  struct label {
    int hops = -1;
    rational width;
    int before = -1;  ///< position
  };
  [[nodiscard]] int id(int position) const {
    return machine_->nodes[static_cast<std::size_t>(position)].id;
  }

  /// Breadth-first search until `goal` is reached (a position; -1: until all reachable nodes are).
  [[nodiscard]] std::vector<label> routes_from(int from, int goal, bool through_ranks) const {
    int const start = position_.at(from);
    std::vector<label> reached(machine_->nodes.size());
    reached[static_cast<std::size_t>(start)].hops = 0;
    std::vector<int> layer{start};
    for (int hops = 1; !layer.empty(); ++hops) {
      if (goal >= 0 && reached[static_cast<std::size_t>(goal)].hops >= 0) break;
      std::vector<int> next;
      for (int const at : layer) {
        auto const v = static_cast<std::size_t>(at);
        if (!through_ranks && at != start && machine_->nodes[v].kind == node_kind::rank) continue;
        for (auto const& [head, link] : out_[v]) {
          auto& there = reached[static_cast<std::size_t>(head)];
          if (there.hops >= 0 && there.hops < hops) continue;
          auto const own = capacity_[link] / (uses_[link] + 1);
          auto const width = at == start ? own : std::min(reached[v].width, own);
          if (there.hops < 0) next.push_back(head);
          if (there.hops < 0 || width > there.width) there = {hops, width, at};
        }
      }
      std::sort(next.begin(), next.end(), [&](int a, int b) { return id(a) < id(b); });
      layer = std::move(next);
    }
    return reached;
  }

  [[nodiscard]] std::optional<tree_edge> route_back(std::vector<label> const& reached, int from,
                                                    int to) const {
    int const end = position_.at(to);
    if (reached[static_cast<std::size_t>(end)].hops < 0) return std::nullopt;
    std::vector<int> path;
    for (int at = end; at != -1; at = reached[static_cast<std::size_t>(at)].before) {
      path.push_back(id(at));
    }
    std::reverse(path.begin(), path.end());
    return tree_edge{from, to, path};
  }

  /// The route of the first search from `from`.
  [[nodiscard]] std::optional<tree_edge> remembered(int from, int to) {
    auto known = routes_.find(from);
    if (known == routes_.end()) known = routes_.emplace(from, routes_from(from, -1, true)).first;
    return route_back(known->second, from, to);
  }

  static constexpr std::size_t most_searches_ = 10'000;  ///< from then on, routes are remembered
  std::size_t taken_ = 0;
  std::map<int, std::vector<label>> routes_;  ///< by node id
  topology const* machine_;
  std::vector<std::vector<arc>> out_;  ///< by position
  std::map<int, int> position_;        ///< by node id
  std::map<std::pair<int, int>, std::size_t> number_;
  std::vector<rational> capacity_;  ///< by number
  std::vector<std::int64_t> uses_;  ///< by number
};

}}}  // namespace blink::BLINK_ABI::detail
