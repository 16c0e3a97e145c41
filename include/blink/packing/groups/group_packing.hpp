// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/core/work_budget.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/packing/flows/detail/rounded_prices.hpp>
#include <blink/packing/groups/detail/group_choices.hpp>
#include <blink/packing/groups/detail/group_race.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Limits of `pack_groups`.
struct group_packing_options {
  std::size_t max_rows = 1500;  ///< beyond this number of edges + roots, no program runs
  std::size_t max_pivots = 20'000;
  std::size_t max_equations = 700;  ///< solved without rounding
  std::size_t first_rounds = 20;    ///< of cheapest choices, before a program
  std::size_t rounds = 600;         ///< of cheapest choices, without one
  double gap = 0.01;                ///< at which these rounds end
  std::size_t max_solutions = 12;   ///< for each level
  std::uint64_t seed = 1;
};

/// The rate of one group, and its trees or routes.
struct packed_group {
  rational rate;
  std::vector<std::pair<rational, group_choice>> choices;  ///< with their weights, heaviest first
};

/// Groups that are limited together, and the prices that prove it.
struct group_level {
  std::vector<std::size_t> groups;  ///< positions
  rational rate;                    ///< the least of these groups and those of later levels
  /// where all groups of earlier levels have at least their rates, no packing gives all others more
  rational bound;
  std::vector<rational> prices;  ///< by edge; a unit of the rate of each group costs 1 together
};

/// Trees and routes of all groups that fit at the same time.
struct group_packing {
  std::vector<packed_group> groups;
  std::vector<group_level> levels;  ///< by rising rate
};

namespace detail {

/// The cost of a unit of a group's rate.
[[nodiscard]] inline rational cost_of_rate(group_problem const& problem, group_prices const& prices,
                                           std::size_t group) {
  return rational(prices.cost[group]) / problem.groups[group].parts;
}

/// The largest rate that the prices allow to all groups that are not fixed. Nothing if these cost
/// nothing.
///
/// rates: by group; nothing if not fixed
[[nodiscard]] inline std::optional<rational> allowed_rate(
    group_problem const& problem, group_prices const& prices,
    std::vector<std::optional<rational>> const& rates) {
  rational rest = prices.value, cost;
  for (std::size_t g = 0; g < rates.size(); ++g) {
    auto const unit = cost_of_rate(problem, prices, g);
    if (rates[g]) {
      rest -= *rates[g] * unit;
    } else {
      cost += unit;
    }
  }
  if (cost == rational(0)) return std::nullopt;
  return rest / cost;
}

/// Prices and the rate that they allow.
struct allowed_by_prices {
  group_prices prices;
  rational rate;
};

/// The rate that prices allow to all groups that are not fixed. Prices are rounded where numbers
/// would exceed 64 bits otherwise. Nothing if these groups cost nothing.
[[nodiscard]] inline std::optional<allowed_by_prices> allowed_by(
    group_problem const& problem, group_prices const& prices,
    std::vector<std::optional<rational>> const& rates) {
  std::vector<double> const given(prices.price.begin(), prices.price.end());
  for (double const steps : {0.0, 0x1p20, 0x1p12, 0x1p6}) {
    auto const used = steps == 0 ? prices : costs_by_prices(problem, rounded_prices(given, steps));
    try {
      if (!used) continue;
      if (auto const rate = allowed_rate(problem, *used, rates)) return {{*used, *rate}};
      return std::nullopt;
    } catch (overflow_error const&) {  // coarser prices have smaller numbers
    }
  }
  return std::nullopt;
}

/// Whole amounts in proportion to weights.
struct whole_amounts {
  std::vector<std::int64_t> amounts;
  rational unit;  ///< weight of an amount of 1
};

/// Post: amounts have at most 40 bits. If that is too few, weights are rounded down.
[[nodiscard]] inline whole_amounts in_proportion(std::vector<rational> const& weights) {
  constexpr std::int64_t most = std::int64_t{1} << 40;
  whole_amounts result;
  try {
    std::int64_t denominator = 1, divisor = 0;
    for (auto const& w : weights) denominator = common_multiple(denominator, w.denominator());
    for (auto const& w : weights) {
      result.amounts.push_back((w * denominator).numerator());
      divisor = std::gcd(divisor, result.amounts.back());
    }
    for (auto& a : result.amounts) a /= divisor;
    result.unit = rational(divisor, denominator);
    if (*std::ranges::max_element(result.amounts) <= most) return result;
  } catch (overflow_error const&) {
  }
  std::int64_t steps = 1;
  double const largest = std::ranges::max_element(weights)->to_double();
  while (largest * static_cast<double>(2 * steps) <= static_cast<double>(most)) steps *= 2;
  result = {{}, rational(1, steps)};
  for (auto const& w : weights) {
    auto const whole =
        static_cast<std::int64_t>(std::floor(w.to_double() * static_cast<double>(steps)));
    result.amounts.push_back(w > rational(0) ? std::max<std::int64_t>(whole, 1) : 0);
  }
  return result;
}

/// Gives all groups that are not fixed the same largest rate while the others keep theirs.
class group_filling {
 public:
  group_filling(group_problem const& problem, group_packing_options const& options)
      : problem_(problem), options_(options), rates_(problem.groups.size()) {}

  [[nodiscard]] group_packing run() {
    while (std::ranges::any_of(rates_, [](auto const& r) { return !r; })) fill_level();
    auto const unit = std::min(best_->moved.scale, best_->amounts.unit);
    for (int const bits : {30, 20, 12}) {
      try {
        return result_of(bits == 30 && unit == best_->amounts.unit ? unit : below(unit, bits));
      } catch (overflow_error const&) {  // fewer bits give smaller numbers
      }
    }
    return result_of(below(unit, 6));
  }

 private:
  struct solution {
    whole_amounts amounts;
    moved_amounts moved;

    [[nodiscard]] rational rate(group_problem const& problem, std::size_t group,
                                rational const& unit) const {
      return unit * (rational(amounts.amounts[group]) * problem.groups[group].parts);
    }
  };

  /// A fraction of so many bits over a power of two, not above a positive number.
  [[nodiscard]] static rational below(rational const& number, int bits) {
    int const shift = std::clamp(bits - std::ilogb(number.to_double()), 0, 61);
    auto const steps = std::int64_t{1} << shift;
    auto const whole =
        static_cast<std::int64_t>(std::floor(std::ldexp(number.to_double(), shift) * (1 - 1e-15)));
    return rational(whole, steps);
  }

  /// The packing in which an amount of 1 weighs `unit`, at most as much as fits.
  [[nodiscard]] group_packing result_of(rational const& unit) const {
    group_packing result;
    result.groups.resize(rates_.size());
    for (std::size_t g = 0; g < rates_.size(); ++g) {
      result.groups[g].rate = best_->rate(problem_, g, unit);
    }
    auto const& moved = best_->moved;
    std::map<std::pair<std::size_t, group_choice>, rational> weight_of;
    for (auto const& [group, weight, choice] : moved.uses) {
      weight_of[{group, choice}] += unit * rational(weight, moved.steps);
    }
    for (auto const& [use, weight] : weight_of) {
      result.groups[use.first].choices.emplace_back(weight, use.second);
    }
    for (auto& group : result.groups) {
      std::sort(group.choices.begin(), group.choices.end(), [](auto const& a, auto const& b) {
        return std::tie(b.first, a.second) < std::tie(a.first, b.second);
      });
    }
    std::vector<std::optional<rational>> before(rates_.size());
    for (auto const& [groups, found] : levels_) {
      auto const allowed = allowed_by(problem_, found, before);
      if (!allowed) throw overflow_error("pack_groups: a bound exceeds 61 bits, expected less");
      auto const& prices = allowed->prices;
      group_level level;
      level.groups = groups;
      level.bound = allowed->rate;
      level.rate = result.groups[groups.front()].rate;
      rational all;
      for (std::size_t g = 0; g < rates_.size(); ++g) {
        if (!before[g]) level.rate = std::min(level.rate, result.groups[g].rate);
        all += cost_of_rate(problem_, prices, g);
      }
      for (auto const p : prices.price) level.prices.push_back(rational(p) / all);
      for (auto const g : groups) before[g] = result.groups[g].rate;
      result.levels.push_back(std::move(level));
    }
    return result;
  }

  /// The weight of each root's trees, by group, if the groups that are not fixed have this rate.
  [[nodiscard]] std::vector<rational> weights_at(rational const& rate, bool with_fixed) const {
    std::vector<rational> result;
    for (std::size_t g = 0; g < rates_.size(); ++g) {
      auto const of_group = rates_[g] ? (with_fixed ? *rates_[g] : rational(0)) : rate;
      result.push_back(of_group / problem_.groups[g].parts);
    }
    return result;
  }

  /// is_last: false for prices alone that need not be the best
  [[nodiscard]] group_race raced(whole_amounts const& wanted, bool is_last) const {
    group_race race(problem_, wanted.amounts);
    std::size_t rows = problem_.capacity.size();
    for (auto const& group : problem_.groups) rows += group.roots.size();
    bool const is_large = rows > options_.max_rows;
    try {
      race.offer_ports();
      race.run_rounds(is_large && is_last ? options_.rounds : options_.first_rounds,
                      is_large ? options_.gap : 0);
      if (is_large || !is_last || race.is_won()) return race;
      race.run_program(options_.max_pivots, options_.max_equations, options_.seed);
      if (!race.is_within(options_.gap)) race.run_rounds(options_.rounds, options_.gap);
    } catch (budget_spent const&) {
      unlimited_scope const whole;
      if (!race.has_result()) race.run_rounds(1, 0);
    }
    return race;
  }

  /// Raises the rate of all groups that are not fixed as far as the others allow, and fixes those
  /// that limit it. The rate comes down by Newton's method: prices that forbid a rate give the
  /// next.
  void fill_level() {
    bool const is_first = levels_.empty();
    auto const first_amounts = in_proportion(weights_at(rational(1), false));
    auto first = raced(first_amounts, is_first);
    auto allowed = allowed_by(problem_, first.prices(), rates_);
    if (!allowed) throw overflow_error("pack_groups: a rate exceeds 61 bits, expected less");
    if (is_first) best_ = solution{in_proportion(weights_at(allowed->rate, true)), first.best()};
    for (std::size_t round = 0; !is_first && round < options_.max_solutions; ++round) {
      auto const rate = allowed->rate;
      if (rate == last_rate_) break;  // the last solution has it
      auto const amounts = in_proportion(weights_at(rate, true));
      auto race = raced(amounts, true);
      bool const fits = race.best().scale >= amounts.unit;
      auto next = allowed_by(problem_, race.prices(), rates_);
      // Without a next rate, only rounding keeps this one from fitting.
      if (fits || !next || next->rate >= rate) {
        // A poor solution would take from the earlier levels.
        bool const is_near =
            race.best().scale.to_double() >= (1 - options_.gap) * amounts.unit.to_double();
        if (is_near) best_ = solution{amounts, race.best()};
        if (next && next->rate == rate) allowed = std::move(next);
        break;
      }
      allowed = std::move(next);
    }
    auto const rate = allowed->rate;
    auto prices = std::move(allowed->prices);
    std::vector<std::size_t> limited;
    for (std::size_t g = 0; g < rates_.size(); ++g) {
      if (!rates_[g] && prices.cost[g] > 0) limited.push_back(g);
    }
    auto const unit = std::min(best_->moved.scale, best_->amounts.unit);
    auto const simple = unit == best_->amounts.unit ? unit : below(unit, 30);
    for (auto const g : limited) {
      auto const attained = best_->rate(problem_, g, simple);
      rates_[g] = attained.denominator() <= most_denominator ? attained : below(attained, 24);
    }
    if (!is_first && rate == last_rate_) {  // it belongs to the last level
      if (auto both = sum_of_prices(problem_, levels_.back().second, prices)) {
        auto& groups = levels_.back().first;
        groups.insert(groups.end(), limited.begin(), limited.end());
        std::ranges::sort(groups);
        levels_.back().second = std::move(*both);
        return;
      }
    }
    last_rate_ = rate;
    levels_.emplace_back(std::move(limited), std::move(prices));
  }

  static constexpr std::int64_t most_denominator = 1'000'000;

  group_problem const& problem_;
  group_packing_options const& options_;
  std::vector<std::optional<rational>> rates_;  // by group; nothing: not fixed
  std::vector<std::pair<std::vector<std::size_t>, group_prices>> levels_;
  std::optional<solution> best_;
  rational last_rate_;  // of the last level
};

}  // namespace detail

/// Packs trees and routes of several groups into one graph at the same time, with fair rates: the
/// rate of no group can grow unless that of another group falls that is not higher.
///
/// All groups first rise to the largest common rate. The groups that limit it keep this rate, and
/// the others rise further (max-min fairness). Vertices that are no members forward, and members
/// also forward for other groups. Each level has prices as its proof.
///
/// A linear program over the trees and routes of all groups gives each level, exactly if its
/// numbers allow. For more than `max_rows` edges and roots, the mean of many cheapest choices
/// comes near.
///
/// graph:  no loops; capacities of its edges are positive
/// groups: at least one; members may be in several groups
/// Source: D. Bertsekas and R. Gallager, "Data Networks", 1987 (max-min fairness);
///         `detail::concurrent_program`, `detail::group_search`.
/// Time:   a few programs for each level, each of a few times (edges + roots) pivots.
/// Pre:    sizes match; members and roots are vertices; there are paths for the trees and routes.
/// Post:   for each edge the weights of the choices that use it sum to at most its capacity. For
///         each root of a group the weights sum to rate / parts. For each level, by its prices,
///         none negative, a unit of the rates of all groups costs 1; with the cost c of a unit of
///         each group, the bound is (sum of price * capacity - sum of c * rate of the groups of
///         earlier levels) / (sum of c of all others). It is at least `rate`, mostly equal. Each
///         group of the level has a positive cost.
/// Throws: precondition_error if a precondition does not hold, or planning_error if a tree has no
///         path; overflow_error if a rate needs more than 61 bits.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] group_packing pack_groups(Graph const& graph, Capacities const& capacities,
                                        std::vector<group_demand> groups,
                                        group_packing_options const& options = {}) {
  detail::group_problem problem{
      to_arc_list(graph), {capacities.begin(), capacities.end()}, std::move(groups)};
  expects(problem.capacity.size() == problem.graph.arcs.size(),
          "pack_groups: the capacities do not match the edges, expected one for each edge");
  for (auto const c : problem.capacity) {
    expects(c > 0, "pack_groups: a capacity is not positive, expected more than 0");
  }
  expects(!problem.groups.empty(), "pack_groups: there is no group, expected at least one");
  for (auto const& group : problem.groups) {
    auto const has = [&](int v) { return std::ranges::count(group.members, v) == 1; };
    expects(group.members.size() >= 2 && std::ranges::all_of(group.members, has),
            "pack_groups: a group has fewer than two members, or one twice, expected two or more");
    expects(std::ranges::all_of(group.members,
                                [&](int v) { return 0 <= v && v < problem.graph.vertex_count; }),
            "pack_groups: a member is not a vertex, expected one of the graph");
    expects(!group.roots.empty() && group.parts > 0,
            "pack_groups: a group has no root or no part, expected at least one");
    for (auto const& root : group.roots) {
      expects(group.shape == group_shape::tree_pairs || has(root.vertex),
              "pack_groups: a root is not in its group, expected a member");
      expects((group.shape == group_shape::routes) == !root.sinks.empty() &&
                  std::ranges::all_of(root.sinks, has),
              "pack_groups: a root has the wrong sinks, expected members for routes, and none for "
              "trees");
    }
  }
  return detail::group_filling(problem, options).run();
}

}}  // namespace blink::BLINK_ABI
