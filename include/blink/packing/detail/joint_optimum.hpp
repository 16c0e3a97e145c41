// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/detail/flow_network.hpp>
#include <blink/packing/arborescence_packing.hpp>
#include <blink/packing/detail/common_denominator.hpp>
#include <blink/packing/detail/exact_solve.hpp>
#include <blink/packing/detail/joint_prices.hpp>
#include <blink/packing/detail/joint_program.hpp>
#include <blink/rational.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

// From an approximate optimum of the joint program to an exact, proven one.

namespace blink::inline BLINK_ABI::detail {

/// Loads in units of 1 / `denominator` that in-trees and out-trees fill.
struct exact_joint_loads {
  std::int64_t denominator = 1;
  std::vector<std::int64_t> in;      ///< by edge
  std::vector<std::int64_t> out;     ///< by edge
  std::vector<root_demand> demands;  ///< trees wanted by root, of each kind
};

struct joint_optimum {
  rational rate;
  exact_joint_loads loads;
  std::vector<rational> prices;  ///< by resource; every pair costs at least 1
  std::size_t pivots = 0;
};

struct joint_optimum_options {
  std::vector<double> tolls;
  std::int64_t largest_denominator = 0;
  std::size_t max_pivots = 0;
  std::uint64_t seed = 0;
};

constexpr wide_integer largest_number = wide_integer{1} << 61;

/// Numbers of a solution whose last digits are rounded, as fractions; nothing if they are not near
/// fractions with a small common denominator.
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

/// Sum of price * capacity, if the prices are not negative, small enough to calculate with, and every
/// pair costs at least 1.
[[nodiscard]] inline std::optional<rational> proven_bound_of(joint_problem const& problem,
                                                             common_fractions const& prices) {
  wide_integer sum = 0, value = 0;
  for (std::size_t r = 0; r < prices.numerators.size(); ++r) {
    if (prices.numerators[r] < 0) return std::nullopt;
    sum += prices.numerators[r];
    value += wide_integer{prices.numerators[r]} * problem.capacity[r];
  }
  auto const vertices = wide_integer{problem.graph.vertex_count};
  if (2 * sum * vertices >= largest_number || value >= largest_number) return std::nullopt;
  if (cheapest_pair(problem, prices.numerators) < prices.denominator) return std::nullopt;
  return rational(static_cast<std::int64_t>(value), prices.denominator);
}

/// Do the loads keep to the capacities and hold trees with these roots, `rate` in all?
///
/// values: what is rooted, by position in `roots`; the loads in, by edge; the loads out.
[[nodiscard]] inline bool holds_trees(joint_problem const& problem, common_fractions const& values,
                                      rational const& rate) {
  auto const roots = problem.roots.size();
  auto const edges = problem.graph.arcs.size();
  std::vector<wide_integer> load(problem.capacity.size(), 0);
  wide_integer everything = 0;
  for (std::size_t i = 0; i < values.numerators.size(); ++i) {
    if (values.numerators[i] < 0) return false;
    everything += values.numerators[i];
    if (i < roots) continue;
    load[static_cast<std::size_t>(problem.resource[(i - roots) % edges])] += values.numerators[i];
  }
  if (everything >= largest_number) return false;
  for (std::size_t r = 0; r < load.size(); ++r) {
    if (load[r] > wide_integer{problem.capacity[r]} * values.denominator) return false;
  }
  std::int64_t rooted = 0;
  for (std::size_t i = 0; i < roots; ++i) rooted += values.numerators[i];
  if (rational(rooted, values.denominator) != rate) return false;

  int const vertices = problem.graph.vertex_count;
  for (bool const inward : {true, false}) {
    auto const& parts = inward ? problem.in : problem.out;
    std::vector<std::int64_t> surplus(parts.size(), 0);
    flow_network network(vertices + 1);  // to each vertex from what is rooted
    for (std::size_t e = 0; e < edges; ++e) {
      auto const amount = values.numerators[roots + (inward ? 0 : edges) + e];
      auto [tail, head] = problem.graph.arcs[e];
      if (inward) std::swap(tail, head);
      if (amount == 0 || tail == head) continue;
      surplus[static_cast<std::size_t>(head)] += amount;
      surplus[static_cast<std::size_t>(tail)] -= amount;
      network.add(tail, head, amount);
    }
    for (std::size_t i = 0; i < roots; ++i) {
      network.add(vertices, problem.roots[i], values.numerators[i]);
    }
    for (int v = 0; v < vertices; ++v) {
      auto const part = parts[static_cast<std::size_t>(v)];
      if (part == tree_part::forward && surplus[static_cast<std::size_t>(v)] < 0) return false;
      if (part == tree_part::span && network.run(vertices, v, rooted) < rooted) return false;
    }
  }
  return true;
}

/// The optimum, proven in integers: the loads hold trees, no pair costs less than 1 by the prices, and
/// both have the same value.
///
/// Numbers are guessed from the rounded ones by continued fractions, and where that fails solved for
/// without rounding.
/// Post:   if the problem has vertices where trees branch without having to span them, the loads may
///         still hold no trees: the rate is then a bound only.
/// Throws: overflow_error if the optimum has no 61-bit numbers, or not within the pivots allowed.
[[nodiscard]] inline joint_optimum find_joint_optimum(joint_problem const& problem,
                                                      joint_optimum_options const& options) {
  joint_optimum result;
  bool finished = false;
  for (double const toll : options.tolls) {
    joint_program program(problem, toll, options.seed);
    bool const solved = program.solve(options.max_pivots);
    result.pivots += program.pivots();
    if (!solved) continue;
    finished = true;
    auto const found = program.result();
    auto prices = guessed_fractions(found.prices, 1, options.largest_denominator);
    auto bound = prices ? proven_bound_of(problem, *prices) : std::nullopt;
    if (!bound) {
      prices = program.exact_prices();
      bound = prices ? proven_bound_of(problem, *prices) : std::nullopt;
    }
    if (!bound) continue;
    auto values = found.rooted;
    values.insert(values.end(), found.in.begin(), found.in.end());
    values.insert(values.end(), found.out.begin(), found.out.end());
    auto exact = guessed_fractions(values, bound->denominator(), options.largest_denominator);
    if (!exact || !holds_trees(problem, *exact, *bound)) {
      exact = program.exact_values();
      if (!exact || !holds_trees(problem, *exact, *bound)) continue;
    }
    result.rate = *bound;
    for (auto const p : prices->numerators) result.prices.emplace_back(p, prices->denominator);
    result.loads.denominator = exact->denominator;
    auto const roots = problem.roots.size();
    auto const edges = problem.graph.arcs.size();
    for (std::size_t i = 0; i < roots; ++i) {
      if (exact->numerators[i] > 0) {
        result.loads.demands.push_back({problem.roots[i], exact->numerators[i]});
      }
    }
    auto const loads = exact->numerators.begin() + static_cast<std::ptrdiff_t>(roots);
    auto const half = loads + static_cast<std::ptrdiff_t>(edges);
    result.loads.in.assign(loads, half);
    result.loads.out.assign(half, exact->numerators.end());
    return result;
  }
  throw overflow_error(finished ? "pack_joint_trees: no optimum with 61-bit numbers found"
                                : "pack_joint_trees: no optimum within " +
                                      std::to_string(result.pivots) + " pivots");
}

}  // namespace blink::inline BLINK_ABI::detail
