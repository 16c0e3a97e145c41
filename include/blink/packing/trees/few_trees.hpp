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

/// The first unit of weights. It is the greatest common divisor of the capacities if they are all
/// equal or `bound` is at most `most_units` of it. Otherwise it is the least capacity if `bound` is
/// at most `most_units` of that, or else a fraction of the bound.
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

/// Makes random integer packings tree by tree, as a source of candidates for `few_trees`.
template <class Oracle>
class complete_trees {
 public:
  complete_trees(Oracle& cheapest_tree, std::vector<double> const& prices, std::uint64_t seed)
      : cheapest_tree_(cheapest_tree), prices_(prices), state_(seed) {
    // Free edges would stay free however scarce they are, so they get a price far below the others.
    double const sum = std::accumulate(prices.begin(), prices.end(), 0.0);
    double const least = (sum > 0 ? sum : 1) / static_cast<double>(prices.size() + 1) / 64;
    for (double& p : prices_) p = std::max(p, least);
  }

  /// Packs trees into `room` until none is found. New trees are added to `pool`.
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
        if (left[e] <= 0) price[e] = 2 * sum + 1;  // more expensive than any tree with room
      }
      std::span<int const> const tree = cheapest_tree_(std::span<double const>(price));
      std::int64_t times = std::numeric_limits<std::int64_t>::max();
      for (int const e : tree) times = std::min(times, left[static_cast<std::size_t>(e)]);
      if (times <= 0) return result;
      if (each_once) {
        times = 1;
      } else if (random() < 0.5) {  // sometimes less than fits, because heavy trees can block all
                                    // others
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
  /// A random number in [0, 1). G. Marsaglia, "Xorshift RNGs", J. Statistical Software 8, 2003, on
  /// a Weyl sequence.
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

/// Increases the uses of the chosen trees where room allows it, in the order of the selection.
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

/// The goal and the effort of `few_trees`.
struct few_trees_options {
  /// in (0, 1]: the sufficient rate, as a fraction of the bound
  double fraction = 0.95;
  bool each_once_first = true;            ///< tries weights of 0 and 1 unit before others
  std::int64_t largest_denominator = 12;  ///< the last unit tried is the first unit divided by this
  std::int64_t most_units = 16;           ///< largest number of first units in the bound, unless
                                          ///< all capacities are equal
  std::size_t node_limit = 2'000;         ///< of branch and bound, for each unit
  std::size_t completion_rounds = 32;     ///< random packings that add candidates, for each unit
  std::uint64_t seed = 1;                 ///< of the random packings
};

/// A packing of few trees with simple weights.
struct few_trees_result {
  std::vector<weighted_tree> trees;  ///< distinct, heaviest first
  rational rate;                     ///< sum of the weights
  rational unit;                     ///< every weight is a multiple of it
  bool reached = false;              ///< true if the rate is at least `fraction` of the bound
  bool proven_fewest = false;        ///< true if no fewer of the candidates suffice, with weights
                                     ///< of this kind
  std::size_t nodes = 0;             ///< of branch and bound, for all units together
  std::size_t candidates = 0;        ///< number of candidate trees at the end
};

namespace detail {

struct selected_trees {
  tree_selection selection;  ///< the best selection found, even if it is not sufficient
  bool proven = false;       ///< true if no selection of the candidates suffices with fewer trees
  std::size_t nodes = 0;
};

/// Selects few trees of `pool`, used `wanted` times in total, within `room`.
template <class Completion>
selected_trees select_trees(tree_set& pool, std::vector<std::int64_t> const& room,
                            Completion& complete_trees,
                            std::vector<std::vector<double>> const& bounds, std::int64_t wanted,
                            bool each_once, few_trees_options const& options) {
  selected_trees best;
  auto& [selection, proven, nodes] = best;
  // Random packings add candidates; the best of them is the first selection.
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
/// The search solves an integer program over candidate trees. Weights are first 0 or 1 unit, then
/// any number of units, then multiples of 1/2, 1/3, 1/4 … unit. The search ends when the rate
/// reaches `fraction` of `bound`, with as few trees as possible for that unit. The first unit is
/// the greatest common divisor of the capacities. If that is small compared with them, as with
/// measured rates, it is the least capacity or a fraction of the bound.
///
/// The candidates of an approximate packing need not contain a good integer packing, so random
/// packings add more. Each fills the room step by step with trees that `cheapest_tree` finds.
/// Prices rise as room gets scarce, and are perturbed at random. If no unit reaches the fraction,
/// the best selection found is returned. Heights are not considered; `reduce_height` lowers the
/// trees afterwards.
///
/// Source: G. Wang, S. Venkataraman, A. Phanishayee, J. Thelin, N. Devanur, I. Stoica, "Blink: Fast
///         and generic collectives for distributed ML", MLSys 2020 (the relaxation step by step).
/// Time:   node_limit nodes, O(candidates * V) each, and completion_rounds * rate / unit calls of
///         the oracle, for each unit; far less when a random packing has the least number of trees.
/// Pre:    0 < fraction <= 1; bound > 0, no packing has a higher rate; no capacity is negative;
///         `prices` has one price for each edge (those of an approximate packing), none negative.
/// Post:   the weights of the trees that use an edge sum to at most its capacity, exactly.
/// Throws: precondition_error if a precondition does not hold; overflow_error if a weight exceeds
///         64 bits.
template <tree_oracle Oracle, class Candidates, class Capacities>
[[nodiscard]] few_trees_result few_trees(Oracle&& cheapest_tree, Candidates const& candidates,
                                         Capacities const& capacities, double bound,
                                         std::vector<double> const& prices,
                                         few_trees_options const& options = {}) {
  expects(0 < options.fraction && options.fraction <= 1,
          "few_trees: the fraction is out of range, expected a number in (0, 1]");
  expects(bound > 0 && std::isfinite(bound),
          "few_trees: the bound is not positive, expected a finite number above 0");
  expects(prices.size() == static_cast<std::size_t>(capacities.size()),
          "few_trees: the prices do not match the edges, expected one for each edge");
  std::vector<std::int64_t> const capacity(capacities.begin(), capacities.end());
  expects(std::ranges::all_of(capacity, [](std::int64_t c) { return c >= 0; }) &&
              std::ranges::any_of(capacity, [](std::int64_t c) { return c > 0; }),
          "few_trees: a capacity is negative or all are 0, expected at least 0 and one above it");
  detail::tree_set pool;
  for (auto const& tree : candidates) pool.insert(tree);
  // The given prices give a bound. So do equal prices, which are exact where every edge fills up.
  std::vector<std::vector<double>> const bounds{prices, std::vector<double>(capacity.size(), 1.0)};

  few_trees_result result;
  detail::complete_trees<std::remove_reference_t<Oracle>> complete_trees(cheapest_tree, prices,
                                                                         options.seed);
  std::int64_t const whole = detail::first_unit(capacity, bound, options.most_units);
  auto const try_unit = [&](std::int64_t denominator, bool each_once) {
    rational const unit(whole, denominator);
    double const scaled = bound / unit.to_double();
    // With this unit, rates are whole numbers of units, at most `fits`. The last unit is tried even
    // if it cannot reach the fraction, because its best selection is better than none.
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
    // The remaining room may allow heavier trees.
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
