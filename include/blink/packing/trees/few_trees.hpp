// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/packing/trees/detail/tree_selection.hpp>
#include <blink/packing/trees/tree_oracle.hpp>
#include <blink/packing/trees/weighted_tree.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The unit to begin with: the greatest common divisor of the capacities if they are all equal or
/// if `bound` is at most `most_units` of it; else the least capacity, if that is so; else a plain
/// part of the bound.
[[nodiscard]] inline std::int64_t first_unit(std::vector<std::int64_t> const& capacity,
                                             double bound, std::int64_t most_units) {
  std::int64_t divisor = 0, most = 0, least = std::numeric_limits<std::int64_t>::max();
  for (auto const c : capacity) {
    if (c == 0) continue;
    divisor = std::gcd(divisor, c);
    least = std::min(least, c);
    most = std::max(most, c);
  }
  auto const units = static_cast<double>(most_units);
  if (divisor == most || bound <= units * static_cast<double>(divisor)) return divisor;
  if (bound <= units * static_cast<double>(least)) return least;
  return static_cast<std::int64_t>(std::ceil(bound / units));
}

/// Random integral packings, tree by tree: `few_trees` takes its candidates from them.
template <class Oracle>
class complete_trees {
 public:
  complete_trees(Oracle& cheapest_tree, std::vector<double> const& prices, std::uint64_t seed)
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

namespace blink { inline namespace BLINK_ABI {

/// What `few_trees` aims at, and how hard it tries.
struct few_trees_options {
  double fraction = 0.95;                 ///< of the bound, in (0, 1]: the rate that is enough
  bool each_once_first = true;            ///< try weights of 0 and 1 unit before others
  std::int64_t largest_denominator = 12;  ///< the last unit tried is the first one over this
  std::int64_t most_units = 16;           ///< the first unit fits into the bound at most so often,
                                          ///< unless all capacities are equal
  std::size_t node_limit = 2'000;         ///< of branch and bound, for each unit
  std::size_t completion_rounds = 32;     ///< random packings that add candidates, for each unit
  std::uint64_t seed = 1;                 ///< of the random packings
};

/// Few trees with simple weights.
struct few_trees_result {
  std::vector<weighted_tree> trees;  ///< distinct, heaviest first
  rational rate;                     ///< sum of the weights
  rational unit;                     ///< every weight is a multiple of it
  bool reached = false;              ///< is the rate at least `fraction` of the bound?
  bool proven_fewest = false;        ///< no fewer of the candidates would do, with
                                     ///< weights of this kind
  std::size_t nodes = 0;             ///< of branch and bound, all units together
  std::size_t candidates = 0;        ///< trees to choose from in the end
};

namespace detail {

struct selected_trees {
  tree_selection selection;  ///< the best found, also if it is not enough
  bool proven = false;       ///< no selection of the candidates is enough with fewer trees
  std::size_t nodes = 0;
};

/// Few trees of `pool`, used `wanted` times in all, within `room`.
template <class TopUp>
selected_trees select_trees(tree_set& pool, std::vector<std::int64_t> const& room,
                            TopUp& complete_trees, std::vector<std::vector<double>> const& bounds,
                            std::int64_t wanted, bool each_once, few_trees_options const& options) {
  selected_trees best;
  auto& [selection, proven, nodes] = best;
  // Random packings bring candidates, and the best of them is to be beaten.
  for (std::size_t round = 0; round < options.completion_rounds; ++round) {
    auto packed = complete_trees.pack(pool, room, each_once);
    bool const better = selection.total < wanted
                            ? packed.total > selection.total
                            : packed.total >= wanted && packed.uses.size() < selection.uses.size();
    if (better) selection = std::move(packed);
    if (each_once && selection.total >= wanted) break;
  }
  bool const found = selection.total >= wanted;
  proven = found && each_once && static_cast<std::int64_t>(selection.uses.size()) == wanted;
  if (proven) return best;
  tree_selection_search search(pool, room, bounds, each_once);
  auto fewer =
      search.run(wanted, found ? selection.uses.size() : pool.size() + 1, options.node_limit);
  nodes = search.nodes();
  proven = search.complete();
  if (fewer.total > 0) selection = std::move(fewer);
  return best;
}

}  // namespace detail

/// Chooses few trees, with weights that are multiples of a simple unit, whose rate is near a bound.
///
/// An integer program over candidate trees, with weights of 0 and 1 unit first, then any number of
/// units, then multiples of 1/2, 1/3, 1/4 … unit, until `fraction` of `bound` is reached; with that
/// unit, as few trees as possible. The first unit is the greatest common divisor of the capacities;
/// where that is small against them (measured rates), their least or a part of the bound.
///
/// The candidates of an approximate packing need not hold a good integral one, so random packings
/// add more: each fills up the room step by step with trees that `cheapest_tree` finds for prices
/// that rise as room gets scarce, disturbed at random. If no unit reaches the fraction, the best
/// selection found is returned. Heights are not looked at: `reduce_height` comes after.
///
/// Source: G. Wang, S. Venkataraman, A. Phanishayee, J. Thelin, N. Devanur, I. Stoica, "Blink: Fast
///         and generic collectives for distributed ML", MLSys 2020 (the relaxation step by step).
/// Time:   node_limit nodes, O(candidates * V) each, and completion_rounds * rate / unit calls of the
///         oracle, for each unit; far less when a random packing has the least number of trees.
/// Pre:    0 < fraction <= 1; bound > 0, no packing has a higher rate; no capacity is negative;
///         `prices` has one price for each edge (those of an approximate packing), none negative.
/// Post:   the weights of the trees that use an edge sum to at most its capacity, exactly.
/// Throws: precondition_error if a precondition does not hold; overflow_error if a weight leaves 64
///         bits.
template <tree_oracle Oracle, class Candidates, class Capacities>
[[nodiscard]] few_trees_result few_trees(Oracle&& cheapest_tree, Candidates const& candidates,
                                         Capacities const& capacities, double bound,
                                         std::vector<double> const& prices,
                                         few_trees_options const& options = {}) {
  expects(0 < options.fraction && options.fraction <= 1,
          "few_trees: the fraction is not in (0, 1]");
  expects(bound > 0 && std::isfinite(bound), "few_trees: the bound is not positive");
  expects(prices.size() == static_cast<std::size_t>(capacities.size()),
          "few_trees: one price for each edge");
  std::vector<std::int64_t> const capacity(capacities.begin(), capacities.end());
  expects(std::ranges::all_of(capacity, [](std::int64_t c) { return c >= 0; }) &&
              std::ranges::any_of(capacity, [](std::int64_t c) { return c > 0; }),
          "few_trees: a capacity is negative, or all are zero");
  detail::tree_set pool;
  for (auto const& tree : candidates) pool.insert(tree);
  // Prices that bound: the given ones, and equal ones, which are exact where every edge gets full.
  std::vector<std::vector<double>> const bounds{prices, std::vector<double>(capacity.size(), 1.0)};

  few_trees_result result;
  detail::complete_trees<std::remove_reference_t<Oracle>> complete_trees(cheapest_tree, prices,
                                                                         options.seed);
  std::int64_t const whole = detail::first_unit(capacity, bound, options.most_units);
  auto const try_unit = [&](std::int64_t denominator, bool each_once) {
    rational const unit(whole, denominator);
    double const scaled = bound / unit.to_double();
    // With this unit, no rate between `fits` units and one more exists. The last unit is tried even
    // if it cannot reach the fraction: its best is better than nothing.
    auto const fits = static_cast<std::int64_t>(std::floor(scaled * (1 + 1e-9)));
    auto const enough = static_cast<std::int64_t>(std::ceil(options.fraction * scaled - 1e-9));
    if (enough > fits && (each_once || denominator < options.largest_denominator)) return;
    auto const wanted = std::min(enough, fits);
    std::vector<std::int64_t> room;  // by edge, in units
    for (auto const c : capacity) {
      rational const units = rational(c) / unit;
      room.push_back(units.numerator() / units.denominator());
    }
    auto [best, proven, nodes] =
        detail::select_trees(pool, room, complete_trees, bounds, wanted, each_once, options);
    result.nodes += nodes;
    // What room is left may make the chosen trees heavier.
    if (!each_once) detail::use_up_room(pool, room, best);
    rational const rate = unit * best.total;
    if (!(result.rate < rate)) return;
    result.rate = rate;
    result.unit = unit;
    result.reached = best.total >= enough;
    result.proven_fewest = result.reached && proven;
    result.trees.clear();
    for (auto const& [tree, times] : best.uses) {
      auto const members = pool[tree];
      result.trees.push_back({unit * times, {members.begin(), members.end()}});
    }
  };
  bool const in_few_units =
      bound <= static_cast<double>(whole) * static_cast<double>(options.most_units);
  if (options.each_once_first && in_few_units) try_unit(1, true);
  for (std::int64_t d = 1; d <= options.largest_denominator && !result.reached; ++d) {
    try_unit(d, false);
  }
  std::ranges::sort(result.trees, [](auto const& a, auto const& b) {
    return a.weight != b.weight ? b.weight < a.weight : a.edges < b.edges;
  });
  result.candidates = pool.size();
  return result;
}

}}  // namespace blink::BLINK_ABI
