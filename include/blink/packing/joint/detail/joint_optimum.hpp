// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/packing/joint/detail/joint_loads.hpp>
#include <blink/packing/joint/detail/joint_prices.hpp>
#include <blink/packing/joint/detail/joint_program.hpp>
#include <blink/packing/joint/detail/joint_rounding.hpp>
#include <blink/packing/lp/detail/exact_solve.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

// From an approximate optimum of the joint program to an exact, proven one.

namespace blink { inline namespace BLINK_ABI { namespace detail {

struct joint_optimum {
  rational rate;
  rational bound;  ///< sum of price * capacity; equals the rate if the optimum is exact
  std::int64_t denominator = 1;
  std::vector<layer_loads> layers;
  std::vector<rational> prices;  ///< by resource; every pair costs at least 1
  std::size_t pivots = 0;
};

struct joint_optimum_options {
  std::vector<double> perturbations;
  std::int64_t largest_denominator = 0;
  std::size_t max_pivots = 0;
  double max_work = 0;
  double gap = 0;
  std::uint64_t seed = 0;
};

/// Guesses the fractions behind floating-point numbers of a solution. Returns nothing if they are
/// not near fractions with a small common denominator.
[[nodiscard]] inline std::optional<common_fractions> guessed_fractions(
    std::span<double const> values, std::int64_t first, std::int64_t largest_denominator) {
  auto const denominator = common_denominator(values, first, largest_denominator);
  if (!denominator) return std::nullopt;
  common_fractions result{{}, *denominator};
  for (double const value : values) {
    double const scaled = value * static_cast<double>(*denominator);
    if (std::abs(scaled) > 0x1p60) return std::nullopt;
    result.numerators.push_back(std::llround(scaled));
  }
  return result;
}

/// The result of checking exact prices.
struct joint_bound {
  bool proven = false;          ///< true if every pair costs at least 1
  rational value;               ///< sum of price * capacity
  std::set<tree_layer> layers;  ///< the layers of cheaper pairs
};

/// Returns nothing if a price is negative or the numbers are too large to calculate with.
[[nodiscard]] inline std::optional<joint_bound> bound_of_prices(joint_problem const& problem,
                                                                common_fractions const& prices) {
  wide_integer sum = 0, value = 0;
  for (std::size_t r = 0; r < prices.numerators.size(); ++r) {
    if (prices.numerators[r] < 0) return std::nullopt;
    sum += prices.numerators[r];
    value += wide_integer{prices.numerators[r]} * problem.capacity[r];
  }
  auto const vertices = wide_integer{problem.graph.vertex_count};
  if (2 * sum * vertices >= largest_number || value >= largest_number) return std::nullopt;
  auto pair = cheapest_pair(problem, prices.numerators, prices.denominator);
  return joint_bound{pair.cost >= prices.denominator,
                     rational(static_cast<std::int64_t>(value), prices.denominator),
                     std::move(pair.layers)};
}

/// Returns the values of a program as loads. They must be nonnegative, within the capacities, and
/// hold the promised trees, whose sum is `rate` in both directions. Otherwise it returns nothing.
[[nodiscard]] inline std::optional<std::vector<layer_loads>> loads_of(
    joint_problem const& problem, std::vector<tree_layer> const& layers,
    joint_program const& program, common_fractions const& values, rational const& rate) {
  wide_integer everything = 0;
  for (auto const value : values.numerators) {
    if (value < 0) return std::nullopt;
    everything += value;
  }
  if (everything >= largest_number) return std::nullopt;
  auto const number = [&](int variable) {
    return values.numerators[static_cast<std::size_t>(variable)];
  };
  std::vector<layer_loads> result;
  std::vector<std::int64_t> total(problem.capacity.size(), 0);
  std::vector<std::int64_t> in(problem.roots.size(), 0), out = in;  // amount rooted at each root
  for (std::size_t l = 0; l < layers.size(); ++l) {
    layer_loads loads{layers[l], {}, {}};
    for (std::size_t e = 0; e < problem.resource.size(); ++e) {
      loads.load.push_back(number(program.load(l, e)));
      total[static_cast<std::size_t>(problem.resource[e])] += loads.load.back();
    }
    for (std::size_t i = 0; i < problem.roots.size(); ++i) {
      auto const amount = number(program.rooted(l, i));
      (layers[l].inward ? in : out)[i] += amount;
      if (amount > 0) loads.demands.push_back({problem.roots[i], amount});
    }
    if (!holds_trees(problem, loads)) return std::nullopt;
    if (!loads.demands.empty()) result.push_back(std::move(loads));
  }
  for (std::size_t r = 0; r < total.size(); ++r) {
    if (total[r] > wide_integer{problem.capacity[r]} * values.denominator) return std::nullopt;
  }
  if (problem.is_symmetric) in = out;
  auto const rooted = std::accumulate(out.begin(), out.end(), std::int64_t{0});
  if (in != out || rational(rooted, values.denominator) != rate) return std::nullopt;
  return result;
}

/// Replaces `best` by the program's rounded result if that is better.
inline void keep_rounded(joint_problem const& problem, std::vector<tree_layer> const& layers,
                         joint_program const& program, double most_lost,
                         std::optional<joint_optimum>& best) {
  auto const found = program.result();
  auto bound = bound_near(problem, found.prices);
  if (!bound) return;
  rounded_loads loads(problem, layers, program, found.values, most_lost);
  auto const rate = loads.rate();
  if (best && rate / bound->value <= best->rate / best->bound) return;
  best = joint_optimum{
      rate, bound->value, loads.denominator, std::move(loads.layers), bound->prices, 0};
}

/// Finds the optimum and proves it in integers. The loads hold trees, every pair costs at least 1
/// by the prices, and both have the same value.
///
/// Numbers are guessed from floating-point values by continued fractions. Where that fails, they
/// are solved for without rounding. At first, all trees span all switches that can be spanned.
/// Layers that span other switches are added as long as their trees are cheaper. An exact optimum
/// may need numbers beyond 61 bits, or more pivots or work than allowed. Then the result has loads
/// and prices rounded to smaller numbers. Their rate is proven to miss the optimum by at most
/// `gap`, as a share of the bound. With a `gap` of 1, the best result is taken.
///
/// Throws: overflow_error if there is neither an exact result nor a rounded one.
[[nodiscard]] inline joint_optimum find_joint_optimum(joint_problem const& problem,
                                                      joint_optimum_options const& options) {
  joint_optimum result;
  std::optional<joint_optimum> rounded;
  bool finished = false;
  std::vector<tree_layer> layers{{false, problem.copying}};
  if (!problem.is_symmetric) layers.push_back({true, problem.reducing});
  for (std::size_t attempt = 0; attempt < options.perturbations.size();) {
    joint_program program(problem, layers, options.perturbations[attempt], options.seed);
    bool const solved = program.solve(options.max_pivots, options.max_work);
    result.pivots += program.pivots();
    ++attempt;
    if (!solved && options.gap > 0) {
      keep_rounded(problem, layers, program, options.gap, rounded);
      if (program.work() >= options.max_work) break;
    }
    if (!solved) continue;
    finished = true;
    auto const found = program.result();
    auto prices = guessed_fractions(found.prices, 1, options.largest_denominator);
    auto bound = prices ? bound_of_prices(problem, *prices) : std::nullopt;
    auto const more_layers = [&] {
      return bound && std::ranges::any_of(bound->layers, [&](tree_layer const& l) {
               return std::ranges::find(layers, l) == layers.end();
             });
    };
    if (!bound || (!bound->proven && !more_layers())) {
      prices = program.exact_prices();
      bound = prices ? bound_of_prices(problem, *prices) : std::nullopt;
    }
    if (more_layers()) {
      for (auto const& l : bound->layers) {
        if (std::ranges::find(layers, l) == layers.end()) layers.push_back(l);
      }
      --attempt;
      continue;
    }
    auto const take = [&](std::optional<common_fractions> const& values) {
      auto loads =
          values ? loads_of(problem, layers, program, *values, bound->value) : std::nullopt;
      if (!loads) return false;
      result.denominator = values->denominator;
      result.layers = std::move(*loads);
      return true;
    };
    if (!bound || !bound->proven ||
        (!take(guessed_fractions(found.values, bound->value.denominator(),
                                 options.largest_denominator)) &&
         !take(program.exact_values()))) {
      if (options.gap > 0) keep_rounded(problem, layers, program, options.gap, rounded);
      continue;
    }
    result.rate = result.bound = bound->value;
    for (auto const p : prices->numerators) result.prices.emplace_back(p, prices->denominator);
    return result;
  }
  if (rounded && rounded->rate.to_double() >= (1 - options.gap) * rounded->bound.to_double()) {
    rounded->pivots = result.pivots;
    return *std::move(rounded);
  }
  throw overflow_error(finished
                           ? "joint packing: no optimum found in 61-bit numbers, expected one"
                           : "joint packing: no optimum after " + std::to_string(result.pivots) +
                                 " pivots, expected one within the limits");
}

}}}  // namespace blink::BLINK_ABI::detail
