// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/packing/trees/detail/tree_selection.hpp>
#include <blink/packing/trees/detail/tree_set.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Random integral packings, tree by tree: `few_trees` takes its candidates from them.
template <class Oracle>
class tree_top_up {
 public:
  tree_top_up(Oracle& cheapest_tree, std::vector<double> const& prices, std::uint64_t seed)
      : cheapest_tree_(cheapest_tree), prices_(prices), state_(seed) {
    // Free edges would stay free however scarce: give them a price far below the others.
    double const sum = std::accumulate(prices.begin(), prices.end(), 0.0);
    double const least = (sum > 0 ? sum : 1) / static_cast<double>(prices.size() + 1) / 64;
    for (double& p : prices_) p = std::max(p, least);
  }

  /// Packs trees into `room` until none is found; new trees enter `pool`.
  tree_selection pack(tree_set& pool, std::vector<std::int64_t> const& room, bool each_once) {
    tree_selection result;
    auto left = room;
    std::vector<double> price(room.size());
    for (;;) {
      double sum = 0;
      for (std::size_t e = 0; e < room.size(); ++e) {
        if (left[e] <= 0) continue;
        double const scarcity = static_cast<double>(room[e]) / static_cast<double>(left[e]);
        price[e] = prices_[e] * scarcity * scarcity * (1 + random());
        sum += price[e];
      }
      for (std::size_t e = 0; e < room.size(); ++e) {
        if (left[e] <= 0) price[e] = 2 * sum + 1;  // dearer than any tree with room
      }
      std::span<int const> const tree = cheapest_tree_(std::span<double const>(price));
      std::int64_t times = std::numeric_limits<std::int64_t>::max();
      for (int const e : tree) times = std::min(times, left[static_cast<std::size_t>(e)]);
      if (times <= 0) return result;
      if (each_once) {
        times = 1;
      } else if (random() < 0.5) {  // sometimes less than fits: heavy trees can block all others
        times = 1 + static_cast<std::int64_t>(random() * static_cast<double>(times));
      }
      for (int const e : tree) left[static_cast<std::size_t>(e)] -= times;
      auto const t = pool.insert(tree);
      auto const seen =
          std::ranges::find(result.uses, t, [](auto const& use) { return use.first; });
      if (seen == result.uses.end()) {
        result.uses.emplace_back(t, times);
      } else if (each_once) {
        return result;
      } else {
        seen->second += times;
      }
      result.total += times;
    }
  }

 private:
  /// In [0, 1). G. Marsaglia, "Xorshift RNGs", J. Statistical Software 8, 2003, on a Weyl sequence.
  double random() {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t x = state_;
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9U;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebU;
    x ^= x >> 31;
    return static_cast<double>(x >> 11) * 0x1.0p-53;
  }

  Oracle& cheapest_tree_;
  std::vector<double> prices_;
  std::uint64_t state_;
};

/// Uses the chosen trees more often where `room` allows it, the most used first.
inline void use_up_room(tree_set const& pool, std::vector<std::int64_t> left,
                        tree_selection& selection) {
  for (auto const& [tree, times] : selection.uses) {
    for (int const e : pool[tree]) left[static_cast<std::size_t>(e)] -= times;
  }
  for (auto& [tree, times] : selection.uses) {
    std::int64_t more = std::numeric_limits<std::int64_t>::max();
    for (int const e : pool[tree]) more = std::min(more, left[static_cast<std::size_t>(e)]);
    for (int const e : pool[tree]) left[static_cast<std::size_t>(e)] -= more;
    times += more;
    selection.total += more;
  }
}

}}}  // namespace blink::BLINK_ABI::detail
