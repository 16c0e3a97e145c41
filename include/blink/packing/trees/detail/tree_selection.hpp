// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/packing/trees/weighted_tree.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Trees that are used, and how often.
struct tree_selection {
  /// (tree, number of uses), the latter positive
  std::vector<std::pair<std::size_t, std::int64_t>> uses;
  std::int64_t total = 0;  ///< sum of all uses
};

/// The integer program behind `few_trees`, by branch and bound. It uses candidate trees at least
/// `wanted` times in total, within `room` on each edge. It minimizes the number of different trees.
///
/// Prices by which each candidate costs at least 1 bound the uses that fit into the remaining room.
/// A node of the search selects the edge that the fewest candidates can still fill. It branches
/// over the candidate that fills the edge first, and how often. In the last branch none fills it,
/// which costs the price of its room.
class tree_selection_search {
 public:
  /// prices: several price vectors, each in any scale
  tree_selection_search(tree_set const& candidates, std::vector<std::int64_t> room,
                        std::span<std::vector<double> const> prices, bool each_once)
      : candidates_(candidates), room_(std::move(room)), each_once_(each_once) {
    for (auto const& price : prices) {
      double cheapest = std::numeric_limits<double>::infinity();
      for (std::size_t t = 0; t < candidates.size(); ++t) {
        cheapest = std::min(cheapest, sum_over(candidates[t], price));
      }
      if (!(cheapest > 0) || !std::isfinite(cheapest)) continue;
      auto& scaled = prices_.emplace_back(price);
      for (double& p : scaled) p /= cheapest;
    }
    for (std::size_t p = 0; p < prices_.size(); ++p) {
      double value = 0;
      for (std::size_t e = 0; e < room_.size(); ++e) {
        value += prices_[p][e] * static_cast<double>(room_[e]);
      }
      value_.push_back(value);
      auto& cost = cost_.emplace_back();
      for (std::size_t t = 0; t < candidates.size(); ++t) {
        cost.push_back(sum_over(candidates[t], prices_[p]));
      }
    }
    covers_.resize(room_.size());
  }

  /// Returns the best selection with fewer trees than `trees_below`; `total == 0` if none was
  /// found.
  tree_selection run(std::int64_t wanted, std::size_t trees_below, std::size_t node_limit) {
    best_ = {};
    used_ = {};
    trees_below_ = trees_below;
    node_limit_ = node_limit;
    nodes_ = 0;
    limit_hit_ = false;
    std::vector<std::size_t> live(candidates_.size());
    for (std::size_t t = 0; t < live.size(); ++t) live[t] = t;
    descend(wanted, std::move(live));
    return best_;
  }
  /// Returns any selection, with any number of trees; `total == 0` if none was found.
  tree_selection run_once(std::int64_t wanted, std::size_t node_limit) {
    any_will_do_ = true;
    auto result = run(wanted, std::numeric_limits<std::size_t>::max(), node_limit);
    any_will_do_ = false;
    return result;
  }
  [[nodiscard]] std::size_t nodes() const { return nodes_; }
  /// True if the whole search tree was visited.
  [[nodiscard]] bool complete() const { return !limit_hit_; }

 private:
  static double sum_over(std::span<int const> tree, std::vector<double> const& price) {
    double sum = 0;
    for (int const e : tree) sum += price[static_cast<std::size_t>(e)];
    return sum;
  }

  /// The largest number of uses of a candidate. It may contain an edge several times in a row, and
  /// loads it as often.
  std::int64_t largest_use(std::size_t t) const {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    auto const edges = candidates_[t];
    for (std::size_t i = 0; i < edges.size();) {
      auto last = i + 1;
      while (last < edges.size() && edges[last] == edges[i]) ++last;
      least = std::min(
          least, room_[static_cast<std::size_t>(edges[i])] / static_cast<std::int64_t>(last - i));
      i = last;
    }
    return each_once_ ? std::min<std::int64_t>(least, 1) : least;
  }

  /// True if `wanted` more uses may fit into the room, judged by the prices. A tolerance keeps
  /// rounding from cutting off solutions.
  bool may_fit(std::int64_t wanted) const {
    return std::ranges::all_of(value_,
                               [&](double v) { return v + 1e-6 >= static_cast<double>(wanted); });
  }

  void fill(std::size_t t, std::int64_t times) {
    for (int const e : candidates_[t]) room_[static_cast<std::size_t>(e)] -= times;
    for (std::size_t p = 0; p < value_.size(); ++p) {
      value_[p] -= cost_[p][t] * static_cast<double>(times);
    }
    used_.total += times;
  }

  void descend(std::int64_t wanted, std::vector<std::size_t> live) {
    if (nodes_ >= node_limit_) {
      limit_hit_ = true;
      return;
    }
    ++nodes_;
    if (wanted <= 0) {
      best_ = used_;
      trees_below_ = any_will_do_ ? 0 : used_.uses.size();
      return;
    }
    if (used_.uses.size() + 1 >= trees_below_ || !may_fit(wanted)) return;
    // Find the candidates that can still be used, and their largest number of uses.
    std::int64_t largest = 0;
    std::fill(covers_.begin(), covers_.end(), 0);
    std::erase_if(live, [&](std::size_t t) {
      auto const use = largest_use(t);
      if (use <= 0) return true;
      largest = std::max(largest, use);
      for (int const e : candidates_[t]) ++covers_[static_cast<std::size_t>(e)];
      return false;
    });
    if (live.empty()) return;
    auto const spare = trees_below_ - 1 - used_.uses.size();
    if (static_cast<double>(spare) * static_cast<double>(largest) < static_cast<double>(wanted)) {
      return;
    }
    // The edge that the fewest candidates can still fill.
    std::size_t edge = room_.size();
    for (std::size_t e = 0; e < room_.size(); ++e) {
      if (room_[e] <= 0 || covers_[e] == 0) continue;
      if (edge == room_.size() || covers_[e] < covers_[edge]) edge = e;
    }
    std::vector<std::size_t> fillers, others;
    for (std::size_t const t : live) {
      bool const fills = std::ranges::binary_search(candidates_[t], static_cast<int>(edge));
      (fills ? fillers : others).push_back(t);
    }
    std::ranges::sort(fillers, {}, [&](std::size_t t) { return std::pair(-largest_use(t), t); });
    for (std::size_t i = 0; i < fillers.size(); ++i) {
      std::size_t const t = fillers[i];
      std::vector<std::size_t> rest(fillers.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                    fillers.end());
      rest.insert(rest.end(), others.begin(), others.end());
      for (std::int64_t times = std::min(largest_use(t), wanted); times > 0; --times) {
        used_.uses.emplace_back(t, times);
        fill(t, times);
        descend(wanted - times, rest);
        fill(t, -times);
        used_.uses.pop_back();
        if (limit_hit_ || used_.uses.size() + 1 >= trees_below_) return;
      }
    }
    // No further use of this edge: its room is given up.
    auto const room = std::exchange(room_[edge], 0);
    for (std::size_t p = 0; p < value_.size(); ++p) {
      value_[p] -= prices_[p][edge] * static_cast<double>(room);
    }
    descend(wanted, std::move(others));
    for (std::size_t p = 0; p < value_.size(); ++p) {
      value_[p] += prices_[p][edge] * static_cast<double>(room);
    }
    room_[edge] = room;
  }

  tree_set const& candidates_;
  std::vector<std::int64_t> room_;           // by edge, in units
  std::vector<std::vector<double>> prices_;  // by price vector; each candidate costs at least 1
  std::vector<double> value_;                // by price vector: sum of price * room
  std::vector<std::vector<double>> cost_;    // by price vector, candidate
  std::vector<int> covers_;                  // by edge: number of live candidates
  bool each_once_;
  tree_selection used_;
  tree_selection best_;
  std::size_t trees_below_ = 0;
  std::size_t node_limit_ = 0;
  std::size_t nodes_ = 0;
  bool limit_hit_ = false;
  bool any_will_do_ = false;
};

}}}  // namespace blink::BLINK_ABI::detail
