// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/core/work_budget.hpp>
#include <blink/packing/flows/detail/concurrent_program.hpp>
#include <blink/packing/flows/detail/rounded_prices.hpp>
#include <blink/packing/groups/detail/group_choices.hpp>
#include <blink/packing/lp/detail/exact_solve.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Whole prices of the edges, and the cost of the cheapest choices of each group by them.
struct group_prices {
  std::vector<std::int64_t> price;  ///< by edge
  std::int64_t value = 0;           ///< of all capacities
  std::vector<std::int64_t> cost;   ///< by group: of one cheapest choice of each root
};

/// The prices with their costs. Returns nothing if the numbers may exceed 61 bits.
[[nodiscard]] inline std::optional<group_prices> costs_by_prices(group_problem const& problem,
                                                                 std::vector<std::int64_t> price) {
  constexpr wide_integer largest = wide_integer{1} << 61;
  wide_integer value = 0, sum = 0;
  for (std::size_t e = 0; e < price.size(); ++e) {
    value += wide_integer{price[e]} * problem.capacity[e];
    sum += price[e];
  }
  wide_integer edges = 0;
  for (auto const& group : problem.groups) {
    edges += wide_integer{2} * group.members.size() * group.roots.size();
  }
  if (value >= largest || sum * edges >= largest) return std::nullopt;
  group_prices result{std::move(price), static_cast<std::int64_t>(value), {}};
  for (auto const& group : problem.groups) {
    group_search<std::int64_t> search(problem.graph, group);
    search.set_prices(result.price);
    std::int64_t cost = 0;
    for (std::size_t r = 0; r < group.roots.size(); ++r) cost += search.cheapest_cost(r);
    result.cost.push_back(cost);
  }
  return result;
}

/// The sum of two price vectors.
[[nodiscard]] inline std::optional<group_prices> sum_of_prices(group_problem const& problem,
                                                               group_prices const& a,
                                                               group_prices const& b) {
  auto sum = a.price;
  for (std::size_t e = 0; e < sum.size(); ++e) sum[e] += b.price[e];
  return costs_by_prices(problem, std::move(sum));
}

/// Choices of all groups, with weights that are whole multiples of 1 / `steps`.
struct moved_amounts {
  rational scale;  ///< so much of all amounts fits
  std::int64_t steps = 1;
  std::vector<std::tuple<std::size_t, std::int64_t, group_choice>> uses;  ///< (group, weight,
                                                                          ///< choice)
};

/// The search for the largest scale at which given amounts of all groups fit: the best choices and
/// the best bound so far.
class group_race {
 public:
  /// amounts: by group, whole weights of the trees of each root; not all 0
  group_race(group_problem const& problem, std::vector<std::int64_t> amounts)
      : problem_(problem), amounts_(std::move(amounts)) {}

  /// Offers prices, rounded in a few ways.
  void offer(std::vector<double> const& prices) {
    for_each_rounding(prices, [&](std::vector<std::int64_t> whole) { offer(std::move(whole)); });
  }
  void offer(std::vector<std::int64_t> prices) {
    auto found = costs_by_prices(problem_, std::move(prices));
    if (!found) return;
    try {
      rational cost;
      for (std::size_t g = 0; g < amounts_.size(); ++g) {
        cost += rational(amounts_[g]) * found->cost[g];
      }
      if (cost == rational(0)) return;
      auto const bound = rational(found->value) / cost;
      if (prices_ && bound > bound_) return;
      if (prices_ && bound == bound_) return combine(*found);
      bound_ = bound;
      prices_ = std::move(*found);
    } catch (overflow_error const&) {  // other prices have smaller numbers
    }
  }
  void offer(moved_amounts moved) {
    if (moved.scale > best_.scale) best_ = std::move(moved);
  }
  [[nodiscard]] bool has_result() const { return prices_ && best_.scale > rational(0); }
  [[nodiscard]] bool is_won() const { return prices_ && best_.scale == bound_; }
  [[nodiscard]] bool is_within(double gap) const {
    return has_result() && bound_.to_double() <= best_.scale.to_double() * (1 + gap);
  }
  [[nodiscard]] rational const& bound() const { return bound_; }
  [[nodiscard]] group_prices const& prices() const { return *prices_; }
  [[nodiscard]] moved_amounts const& best() const { return best_; }

  /// Offers simple prices: 1 for each edge into a member, or out of one, of each group and of all.
  /// These limit groups whose members have one port each.
  void offer_ports() {
    for (bool const into : {true, false}) {
      std::vector<std::int64_t> of_all(problem_.capacity.size(), 0);
      for (std::size_t g = 0; g < amounts_.size(); ++g) {
        if (amounts_[g] == 0) continue;
        std::vector<bool> is_member(static_cast<std::size_t>(problem_.graph.vertex_count));
        for (int const v : problem_.groups[g].members)
          is_member[static_cast<std::size_t>(v)] = true;
        std::vector<std::int64_t> price(problem_.capacity.size(), 0);
        for (std::size_t e = 0; e < price.size(); ++e) {
          auto const& a = problem_.graph.arcs[e];
          if (!is_member[static_cast<std::size_t>(into ? a.head : a.tail)]) continue;
          price[e] = 1;
          ++of_all[e];
        }
        offer(std::move(price));
      }
      offer(std::move(of_all));
    }
  }

  /// Offers the mean of many cheapest choices. Prices rise where the choices so far load most.
  ///
  /// Source: S. Plotkin, D. Shmoys and E. Tardos, "Fast approximation algorithms for fractional
  ///         packing and covering problems", Math. of Operations Research 20, 1995.
  void run_rounds(std::size_t rounds, double gap) {
    group_commodities all(problem_, amounts_);
    auto const edges = problem_.capacity.size();
    std::vector<std::int64_t> load(edges, 0);
    std::map<std::pair<std::size_t, group_choice>, std::int64_t> times;  // by (group, choice)
    std::vector<double> price(edges), best_price;
    for (std::size_t e = 0; e < edges; ++e) {
      price[e] = 1 / static_cast<double>(problem_.capacity[e]);
    }
    double least_bound = 0;
    std::size_t done = 0;
    auto const finish = [&] {
      unlimited_scope const whole;
      offer(best_price);
      moved_amounts moved{
          scale_of(load, static_cast<std::int64_t>(done)), static_cast<std::int64_t>(done), {}};
      for (auto const& [use, count] : times) {
        moved.uses.emplace_back(use.first, count * amounts_[use.first], use.second);
      }
      offer(std::move(moved));
    };
    try {
      while (done < rounds) {
        all.set_prices(price);
        double cost = 0, value = 0;
        std::vector<group_commodities::choice> chosen;
        for (std::size_t c = 0; c < all.count(); ++c) {
          chosen.push_back(all.cheapest(c));
          for (auto const& [e, amount] : chosen.back().loads) {
            cost += price[e] * static_cast<double>(amount);
          }
        }
        for (auto& each : chosen) {  // of a whole round: the budget may end within one
          for (auto const& [e, amount] : each.loads) load[e] += amount;
          ++times[{each.group, std::move(each.made)}];
        }
        ++done;
        double most = 0;  // the largest load over capacity
        for (std::size_t e = 0; e < edges; ++e) {
          value += price[e] * static_cast<double>(problem_.capacity[e]);
          most = std::max(most,
                          static_cast<double>(load[e]) / static_cast<double>(problem_.capacity[e]));
        }
        if (best_price.empty() || value / cost < least_bound) {
          least_bound = value / cost;
          best_price = price;
        }
        if (least_bound * most <= (1 + gap) * static_cast<double>(done)) break;
        // Steeper with time, as the mean moves less in each round.
        double const steepness = 10 * std::sqrt(static_cast<double>(done));
        for (std::size_t e = 0; e < edges; ++e) {
          double const use =
              static_cast<double>(load[e]) / static_cast<double>(problem_.capacity[e]) / most;
          price[e] = std::exp(steepness * (use - 1)) / static_cast<double>(problem_.capacity[e]);
        }
      }
    } catch (budget_spent const&) {
      if (done > 0) finish();
      throw;
    }
    finish();
  }

  /// Solves the program and offers its results, exact if its numbers are.
  void run_program(std::size_t max_pivots, std::size_t max_equations, std::uint64_t seed) {
    constexpr std::int64_t largest = std::int64_t{1} << 60;
    for (double const perturbation : {0.0, 1e-8, 1e-6}) {  // selects one of many optimal bases
      group_commodities all(problem_, amounts_);
      concurrent_program program(all, bound_.to_double(), best_.scale.to_double(), perturbation,
                                 seed);
      bool const solved = program.solve(max_pivots);
      offer(program.best_prices());
      if (!solved) continue;
      offer(program.prices());
      // Loads of all amounts must fit, so large amounts leave few steps.
      auto const rounded = std::min(std::int64_t{1} << 24, largest / all.largest_load());
      auto const guessed = program.guessed_steps(std::min<std::int64_t>(100'000, rounded));
      for (auto const steps : {guessed.value_or(rounded), rounded}) {
        if (steps == 0) continue;
        offer_choices(program, program.rounded(steps));
        if (is_won()) return;
      }
      if (auto prices = program.exact_prices(max_equations)) offer(*std::move(prices));
      if (auto const choices = program.exact(max_equations, all.largest_load())) {
        offer_choices(program, *choices);
      }
      // A basis of so many equations is seldom solved without rounding, whichever it is.
      if (is_won() || problem_.capacity.size() + all.count() > max_equations) return;
    }
  }

 private:
  /// Adds prices that prove the same bound to the present ones, if they limit other groups too. The
  /// sum proves that bound for all of them, as the cheapest choices by it cost no less.
  void combine(group_prices const& other) {
    bool limits_more = false;
    for (std::size_t g = 0; g < amounts_.size(); ++g) {
      limits_more = limits_more || (prices_->cost[g] == 0 && other.cost[g] > 0);
    }
    if (!limits_more) return;
    if (auto both = sum_of_prices(problem_, *prices_, other)) prices_ = std::move(*both);
  }

  void offer_choices(concurrent_program<group_commodities> const& program,
                     whole_choices const& choices) {
    std::vector<std::int64_t> load(problem_.capacity.size(), 0);
    moved_amounts moved{{}, choices.steps, {}};
    for (auto const& [number, times] : choices.uses) {
      auto const& [group, amount, made, loads] = program.choice(number);
      for (auto const& [e, of_edge] : loads) load[e] += of_edge * times;
      moved.uses.emplace_back(group, times * amount, made);
    }
    moved.scale = scale_of(load, choices.steps);
    offer(std::move(moved));
  }

  /// load: by edge, of amounts times `steps`
  [[nodiscard]] rational scale_of(std::vector<std::int64_t> const& load, std::int64_t steps) const {
    std::optional<rational> least;
    for (std::size_t e = 0; e < load.size(); ++e) {
      if (load[e] == 0) continue;
      rational const room(problem_.capacity[e], load[e]);
      if (!least || room < *least) least = room;
    }
    return least ? *least * steps : rational(0);
  }

  group_problem const& problem_;
  std::vector<std::int64_t> amounts_;
  moved_amounts best_;
  rational bound_;
  std::optional<group_prices> prices_;
};

}}}  // namespace blink::BLINK_ABI::detail
