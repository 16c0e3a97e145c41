// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/packing/joint/detail/joint_loads.hpp>
#include <blink/packing/joint/detail/joint_prices.hpp>
#include <blink/packing/joint/detail/joint_program.hpp>
#include <blink/packing/lp/detail/exact_solve.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

// From an approximate solution of the joint program to trees and prices with a proven gap. This
// serves where the exact optimum needs too large numbers or takes too long.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A bound, with prices in small numbers that prove it.
struct rounded_bound {
  rational value;
  std::vector<rational> prices;  ///< by resource; every pair costs at least 1
};

/// Rounds prices and scales them so that the cheapest pair costs 1. Returns nothing if a pair is
/// free or the bound needs more than 61 bits.
[[nodiscard]] inline std::optional<rounded_bound> bound_near(joint_problem const& problem,
                                                             std::vector<double> const& prices) {
  double sum = 0, value = 0;
  for (std::size_t r = 0; r < prices.size(); ++r) {
    double const price = std::max(prices[r], 0.0);
    sum += price;
    value += price * static_cast<double>(problem.capacity[r]);
  }
  double const largest = std::max(2 * sum * problem.graph.vertex_count, value);
  if (!(largest > 0)) return std::nullopt;
  double steps = 0x1p24;  // steps in a price of 1
  while (steps * largest >= 0x1p60) steps /= 2;
  std::vector<std::int64_t> rounded;
  wide_integer total = 0;
  for (std::size_t r = 0; r < prices.size(); ++r) {
    rounded.push_back(std::llround(std::max(prices[r], 0.0) * steps));
    total += wide_integer{rounded.back()} * problem.capacity[r];
  }
  auto const cost = cheapest_pair(problem, rounded, 0).cost;
  if (cost <= 0 || total >= largest_number) return std::nullopt;
  rounded_bound result{rational(static_cast<std::int64_t>(total), cost), {}};
  for (auto const price : rounded) result.prices.emplace_back(price, cost);
  return result;
}

/// Integer loads near those of a program that hold the promised trees.
class rounded_loads {
 public:
  std::int64_t denominator = 1;
  std::vector<layer_loads> layers;  ///< empty if none were found

  /// most_lost: the share of the rooted amounts that may be given up
  rounded_loads(joint_problem const& problem, std::vector<tree_layer> const& tree_layers,
                joint_program const& program, std::vector<double> const& values, double most_lost)
      : problem_(problem) {
    choose_denominator(program, values);
    for (std::size_t l = 0; l < tree_layers.size(); ++l) {
      layers.push_back({tree_layers[l], {}, {}});
      for (std::size_t e = 0; e < problem.resource.size(); ++e) {
        layers.back().load.push_back(std::llround(positive(values, program.load(l, e)) * scale()));
      }
    }
    fit_into_capacities();
    for (auto& loads : layers) balance(loads);
    constexpr double first_loss = 1e-6, growth = 1.5;
    for (double lost = first_loss; lost <= most_lost; lost *= growth) {
      root_trees(program, values, 1 - lost);
      if (std::ranges::all_of(layers, [&](auto const& l) { return holds_trees(problem, l); })) {
        std::erase_if(layers, [](auto const& l) { return l.demands.empty(); });
        return;
      }
    }
    layers.clear();
  }

  [[nodiscard]] rational rate() const {
    wide_integer sum = 0;
    for (auto const& loads : layers) {
      if (loads.layer.inward) continue;
      for (auto const& d : loads.demands) sum += d.multiplicity;
    }
    return {static_cast<std::int64_t>(sum), denominator};
  }

 private:
  static double positive(std::vector<double> const& values, int variable) {
    return std::max(values[static_cast<std::size_t>(variable)], 0.0);
  }
  [[nodiscard]] double scale() const { return static_cast<double>(denominator); }

  /// Chooses a denominator so large that rounding each edge by half a step loses little.
  void choose_denominator(joint_program const& program, std::vector<double> const& values) {
    double rooted = 0, everything = 0;
    for (std::size_t i = 0; i < problem_.roots.size(); ++i) {
      rooted += positive(values, program.rooted(0, i));
    }
    for (double const value : values) everything += std::max(value, 0.0);
    double const wanted = 0x1p12 * static_cast<double>(problem_.resource.size());
    while (scale() * rooted < wanted && scale() * everything < 0x1p58) denominator *= 2;
  }

  void fit_into_capacities() {
    std::vector<wide_integer> room;
    for (auto const c : problem_.capacity) room.push_back(wide_integer{c} * denominator);
    for (auto& loads : layers) {
      for (std::size_t e = 0; e < loads.load.size(); ++e) {
        auto& left = room[static_cast<std::size_t>(problem_.resource[e])];
        if (left < loads.load[e]) loads.load[e] = static_cast<std::int64_t>(left);
        left -= loads.load[e];
      }
    }
  }

  /// Lowers loads out of a switch until they are at most the loads into it.
  void balance(layer_loads& loads) const {
    auto const count = problem_.is_switch.size();
    std::vector<std::int64_t> egress_excess(count, 0);
    std::vector<std::vector<std::size_t>> leaving(count);
    auto const ends = [&](std::size_t e) {
      auto const& a = problem_.graph.arcs[e];
      auto const tail = static_cast<std::size_t>(a.tail), head = static_cast<std::size_t>(a.head);
      return loads.layer.inward ? std::pair(head, tail) : std::pair(tail, head);
    };
    for (std::size_t e = 0; e < loads.load.size(); ++e) {
      auto const [tail, head] = ends(e);
      egress_excess[head] += loads.load[e];
      egress_excess[tail] -= loads.load[e];
      leaving[tail].push_back(e);
    }
    std::vector<std::size_t> short_of;
    auto const note = [&](std::size_t v) {
      bool const spanned = !problem_.is_switch[v] ||
                           std::ranges::binary_search(loads.layer.switches, static_cast<int>(v));
      if (!spanned && egress_excess[v] < 0) short_of.push_back(v);
    };
    for (std::size_t v = 0; v < count; ++v) note(v);
    while (!short_of.empty()) {
      auto const v = short_of.back();
      short_of.pop_back();
      while (egress_excess[v] < 0) {
        auto const most =
            *std::ranges::max_element(leaving[v], {}, [&](std::size_t e) { return loads.load[e]; });
        auto const less = std::min(-egress_excess[v], loads.load[most]);
        auto const head = ends(most).second;
        loads.load[most] -= less;
        egress_excess[v] += less;
        egress_excess[head] -= less;
        note(head);
      }
    }
  }

  /// Requests trees for this share of the program's amounts at the roots, equal in both directions.
  void root_trees(joint_program const& program, std::vector<double> const& values, double share) {
    for (auto& loads : layers) loads.demands.clear();
    for (std::size_t i = 0; i < problem_.roots.size(); ++i) {
      std::vector<std::int64_t> amount;
      std::int64_t in = 0, out = 0;
      for (std::size_t l = 0; l < layers.size(); ++l) {
        auto const rooted = positive(values, program.rooted(l, i));
        amount.push_back(static_cast<std::int64_t>(rooted * share * scale()));
        (layers[l].layer.inward ? in : out) += amount.back();
      }
      auto const both = problem_.is_symmetric ? out : std::min(in, out);
      in = out = both;
      for (std::size_t l = 0; l < layers.size(); ++l) {
        auto& left = layers[l].layer.inward ? in : out;
        amount[l] = std::min(amount[l], left);
        left -= amount[l];
        if (amount[l] > 0) layers[l].demands.push_back({problem_.roots[i], amount[l]});
      }
    }
  }

  joint_problem const& problem_;
};

}}}  // namespace blink::BLINK_ABI::detail
