// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/graph/shallow_arborescence.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The cheapest routes over switches between all ranks, for prices of the links.
template <class Cost>
struct route_table {
  cost_matrix<Cost> cost;             ///< between ranks, by their numbers
  std::vector<std::vector<int>> row;  ///< by source rank: the row that enters each node, -1: none
};

/// The links of a machine as rows of a packing program, and routes over them. Parallel links are
/// one row.
class link_rows {
 public:
  explicit link_rows(topology const& machine) : machine_(&machine), out_(machine.nodes.size()) {
    std::map<std::pair<int, int>, std::int64_t> joined;
    for (auto const& l : machine.links) joined[{l.tail, l.head}] += l.capacity;
    for (auto const& [ends, c] : joined) {
      out_[static_cast<std::size_t>(ends.first)].push_back(static_cast<int>(ends_.size()));
      ends_.push_back(ends);
      capacity_.push_back(c);
    }
    ranks_ = machine.rank_positions();
  }

  [[nodiscard]] std::vector<std::int64_t> const& capacity() const { return capacity_; }
  [[nodiscard]] std::size_t rank_count() const { return ranks_.size(); }
  [[nodiscard]] int id(std::size_t rank) const { return node_id(ranks_[rank]); }
  /// The ends of a row's link: (from, to) node ids.
  [[nodiscard]] std::pair<int, int> link(int row) const {
    auto const& ends = ends_[static_cast<std::size_t>(row)];
    return {node_id(ends.first), node_id(ends.second)};
  }

  /// The cheapest routes; among equal ones, those with the fewest links. Ranks do not forward.
  /// Time: O(N E log E).
  template <class Cost>
  [[nodiscard]] route_table<Cost> routes(std::span<Cost const> prices) const {
    auto const n = ranks_.size();
    route_table<Cost> result{cost_matrix<Cost>(n), {}};
    for (std::size_t source = 0; source < n; ++source) {
      std::vector<int> entered(machine_->nodes.size(), -1);
      std::vector<std::pair<Cost, int>> least(machine_->nodes.size(), {cost_matrix<Cost>::none, 0});
      using entry = std::tuple<Cost, int, int>;  // price, links, node
      std::priority_queue<entry, std::vector<entry>, std::greater<>> open;
      int const start = ranks_[source];
      least[static_cast<std::size_t>(start)] = {Cost{}, 0};
      open.emplace(Cost{}, 0, start);
      while (!open.empty()) {
        auto const [price, hops, at] = open.top();
        open.pop();
        auto const here = static_cast<std::size_t>(at);
        if (std::pair(price, hops) != least[here]) continue;
        if (at != start && machine_->nodes[here].kind == node_kind::rank) continue;
        for (int const row : out_[here]) {
          auto const head = static_cast<std::size_t>(ends_[static_cast<std::size_t>(row)].second);
          std::pair const next(price + prices[static_cast<std::size_t>(row)], hops + 1);
          if (!(next < least[head])) continue;
          least[head] = next;
          entered[head] = row;
          open.emplace(next.first, next.second, static_cast<int>(head));
        }
      }
      for (std::size_t to = 0; to < n; ++to) {
        if (to != source) {
          result.cost(source, to) = least[static_cast<std::size_t>(ranks_[to])].first;
        }
      }
      result.row.push_back(std::move(entered));
    }
    return result;
  }

  /// Returns the route as a tree edge and appends its rows.
  template <class Cost>
  tree_edge edge(route_table<Cost> const& table, std::size_t from, std::size_t to,
                 std::vector<int>& rows) const {
    std::vector<int> path{id(to)};
    for (int at = ranks_[to]; at != ranks_[from];) {
      int const row = table.row[from][static_cast<std::size_t>(at)];
      rows.push_back(row);
      at = ends_[static_cast<std::size_t>(row)].first;
      path.push_back(node_id(at));
    }
    std::reverse(path.begin(), path.end());
    return {id(from), id(to), path};
  }

 private:
  [[nodiscard]] int node_id(int position) const {
    return machine_->nodes[static_cast<std::size_t>(position)].id;
  }

  topology const* machine_;
  std::vector<std::pair<int, int>> ends_;  // by row: positions
  std::vector<std::int64_t> capacity_;
  std::vector<std::vector<int>> out_;  // by node: rows that leave it
  std::vector<int> ranks_;             // positions
};

}}}  // namespace blink::BLINK_ABI::detail
