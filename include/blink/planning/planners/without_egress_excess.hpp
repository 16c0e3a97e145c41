// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/egress_excess.hpp>
#include <blink/graph/max_flow.hpp>
#include <blink/packing/lp/simplex.hpp>
#include <blink/packing/trees/all_gather_rate.hpp>
#include <blink/planning/plan/detail/link_rows.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/detail/routed_forest.hpp>
#include <blink/planning/plan/detail/supplied_graph.hpp>
#include <blink/planning/plan/detail/tree_columns.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/planning/planners/prove_bound.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A machine whose switches balance.
struct balanced_machine {
  topology machine;
  /// The rate that no plan on the machine before exceeds, if a linear program has found it. It may
  /// be below the machine's smallest cut.
  std::optional<proven_bound> optimum{};
};

namespace detail {

/// The data that the roots would send at the rate that the cuts of the machine allow, in capacity
/// steps.
/// shares: by rank, for all-gather; none: equal.
[[nodiscard]] inline std::vector<rank_supply> supplies_at_bound(
    topology const& machine, plan_request const& request, std::vector<std::int64_t> const& shares) {
  if (has_one_root(request.collective)) {
    auto const best = best_root(machine, request);
    return {{best.root, best.rate}};
  }
  auto const capacity = detail::capacities_of(machine);
  auto const ranks = machine.rank_positions();
  auto const rate = all_gather_rate(machine, capacity, ranks, shares).rate_per_root;
  std::vector<rank_supply> result;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    auto const share = shares.empty() ? 1 : shares[i];
    if (share > 0) result.push_back({ranks[i], rate * share});
  }
  return result;
}

/// Up to this number of ranks, a linear program balances the switches.
inline constexpr std::size_t most_ranks_of_program = 24;

[[nodiscard]] inline bool can_be_split(topology const& machine,
                                       std::vector<rank_supply> const& supplies) {
  try {
    (void)to_supplied_graph(machine, supplies);
    return true;
  } catch (unbalanced_switch const&) {
    return false;
  }
}

/// The machine with other capacities, which count 1/`steps` of its capacity steps.
/// Pre: capacities by link, at most those of the machine.
[[nodiscard]] inline topology with_capacities(topology const& machine,
                                              std::vector<std::int64_t> const& capacity,
                                              std::int64_t steps) {
  topology result = machine;
  result.steps_per_unit = (rational(machine.steps_per_unit) * steps).numerator();
  auto divisor = result.steps_per_unit;
  for (auto const c : capacity) divisor = std::gcd(divisor, c);
  result.steps_per_unit /= divisor;
  result.links.clear();
  for (std::size_t i = 0; i < capacity.size(); ++i) {
    if (capacity[i] == 0) continue;
    result.links.push_back(machine.links[i]);
    result.links.back().capacity = capacity[i] / divisor;
  }
  return result;
}

/// The machine with only as much capacity out of switches as the best packing of trees of routes
/// uses. The result also has the rate of this packing, proven by prices. Nothing if the numbers get
/// too large, or shares too fine.
[[nodiscard]] inline std::optional<balanced_machine> balanced_by_program(
    topology const& machine, std::vector<rank_supply> const& supplies,
    std::vector<std::int64_t> const& shares) {
  constexpr std::int64_t most_copies = 1024;
  constexpr std::int64_t most_steps = std::int64_t{1} << 30;
  tree_family family;
  family.shares = shares;
  auto const ranks = machine.rank_positions();
  auto const family_kind = supplies.size() == 1 ? collective::broadcast : collective::all_gather;
  family.collective = family_kind;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (supplies.size() > 1 || ranks[i] == supplies.front().position) {
      family.roots.push_back(static_cast<int>(i));
    }
  }
  if (rational sum; std::ranges::any_of(shares, [&](std::int64_t s) {
        sum += s;
        return sum > rational(most_copies);
      })) {
    return std::nullopt;
  }
  link_rows const rows(machine);
  bundle_oracle oracle(rows, std::move(family));
  auto const packed = simplex(rows.capacity(), oracle);
  if (packed.stopped_because != simplex_stop::optimal) return std::nullopt;
  std::map<std::pair<int, int>, rational> load;
  std::int64_t steps = 1;
  for (auto const& column : packed.columns) {
    for (int const row : column.rows) load[rows.link(row)] += column.weight;
  }
  for (auto const& [ends, amount] : load) {
    steps = common_multiple(steps, amount.denominator());
    if (steps > most_steps) return std::nullopt;
  }
  std::vector<std::int64_t> capacity;
  for (auto const& l : machine.links) {
    capacity.push_back((rational(l.capacity) * steps).numerator());
    auto const& from = machine.nodes[static_cast<std::size_t>(l.tail)];
    if (from.kind != node_kind::switch_node) continue;
    auto& rest = load[{from.id, machine.nodes[static_cast<std::size_t>(l.head)].id}];
    capacity.back() = std::min(capacity.back(), (rest * steps).numerator());
    rest -= rational(capacity.back(), steps);  // parallel links share it
  }
  rational copies = 1;  // of a bundle's trees, so that their sum is the whole rate
  if (has_equal_roots(family_kind)) {
    copies = shares.empty() ? static_cast<std::int64_t>(ranks.size()) : 0;
    for (auto const s : shares) copies += s;
  }
  price_certificate prices;
  for (std::size_t row = 0; row < packed.prices.size(); ++row) {
    if (packed.prices[row] == rational(0)) continue;
    auto const [from, to] = rows.link(static_cast<int>(row));
    prices.prices.push_back({from, to, packed.prices[row] * copies});
  }
  return balanced_machine{with_capacities(machine, capacity, steps),
                          proven_bound{machine.in_units(packed.rate * copies), std::move(prices)}};
}

/// Lowers the links out of switches until all switches balance. A search finds the largest part of
/// the supplies, in steps of 1/2520, that still flows. Nothing if none was found.
[[nodiscard]] inline std::optional<topology> balanced_by_search(
    topology const& machine, std::vector<rank_supply> const& supplies) {
  constexpr std::int64_t parts = 2520;  // a multiple of 1 ... 10
  std::int64_t steps = 1;               // to one capacity step of the machine
  for (auto const& s : supplies) steps = common_multiple(steps, s.rate.denominator());
  steps = (rational(steps) * parts).numerator();
  std::vector<bool> is_switch;
  for (auto const& n : machine.nodes) is_switch.push_back(n.kind == node_kind::switch_node);
  std::vector<std::int64_t> capacity;
  for (auto const& l : machine.links) {
    capacity.push_back((rational(l.capacity) * steps).numerator());
  }
  std::optional<std::vector<std::int64_t>> best;
  std::int64_t works = 0, fails = parts;
  while (fails - works > 1) {
    auto const tried = works + (fails - works) / 2;
    std::vector<root_supply> amounts;
    for (auto const& s : supplies) {
      amounts.push_back({s.position, (s.rate * (steps / parts) * tried).numerator()});
    }
    if (auto found = remove_egress_excess(machine, capacity, is_switch, amounts)) {
      best = std::move(found);
      works = tried;
    } else {
      fails = tried;
    }
  }
  if (!best) return std::nullopt;
  return with_capacities(machine, *best, steps);
}

}  // namespace detail

/// The machine with capacity left out of its switches until they split: on it, broadcast and
/// all-gather reach what its cuts allow. The machine itself if nothing stands in the way, and for
/// all other collectives. A reduce or reduce-scatter needs the reversed machine and its forward
/// collective.
///
/// A switch that lets more out than in may keep cuts above what forwarding can do. Up to 24 ranks,
/// a linear program finds the highest rate of forwarding. Links out of switches keep the capacity
/// that this rate takes, and its prices prove that no plan is faster. For more ranks, and where its
/// numbers get too large, a search lowers the egress excess alone. The search finds the largest
/// part of the rate that works.
///
/// shares: by rank, for all-gather; none: equal.
/// Time:   see `simplex`; the search: a dozen times `remove_egress_excess`.
/// Post:   the same nodes; capacities are at most those of `machine`, in smaller steps.
/// Throws: planning_error if the ranks are not connected, or no part of the rate was found to work.
[[nodiscard]] inline balanced_machine without_egress_excess(
    topology const& machine, plan_request const& request,
    std::vector<std::int64_t> const& shares = {}) {
  if (has_reduce_phase(request.collective) || !has_spanning_trees(request.collective)) {
    return {machine};
  }
  std::vector<bool> is_switch;
  for (auto const& n : machine.nodes) is_switch.push_back(n.kind == node_kind::switch_node);
  auto const capacity = detail::capacities_of(machine);
  auto const ranks = machine.rank_positions();
  if (ranks.size() < 2 || unbalanced_switches(machine, capacity, is_switch).empty()) {
    return {machine};
  }
  auto const supplies = detail::supplies_at_bound(machine, request, shares);
  if (supplies.front().rate == rational(0) || detail::can_be_split(machine, supplies)) {
    return {machine};
  }
  if (ranks.size() <= detail::most_ranks_of_program) {
    if (auto found = detail::balanced_by_program(machine, supplies, shares)) {
      return *std::move(found);
    }
  }
  if (auto found = detail::balanced_by_search(machine, supplies)) return {*std::move(found)};
  throw planning_error("machine '" + machine.name +
                       "': no part of the rate is left when its switches are balanced");
}

namespace detail {

/// Plans with `make(machine, request)`. If a switch with egress excess stands in the way, the plan
/// is made on the balanced machine. Its bound is the rate of the best forwarding plan, as far as it
/// is known, and else the smallest cut of the machine.
///
/// A broadcast without a root then has the root with the highest rate, up to 24 ranks; for more,
/// the one with the highest cut.
template <class Make>
[[nodiscard]] plan plan_below_cuts(topology const& machine, plan_request request,
                                   std::vector<std::int64_t> const& shares, Make const& make) {
  try {
    return make(machine, request);
  } catch (unbalanced_switch const&) {
  }
  auto const planned = [&](plan_request const& with_root) {
    auto balanced = without_egress_excess(machine, with_root, shares);
    plan result = make(balanced.machine, with_root);
    auto proven = prove_bound(machine, result.collective, with_root.root.value_or(0), shares);
    if (balanced.optimum && balanced.optimum->bound < proven.bound) {
      proven = *std::move(balanced.optimum);
    }
    result.bound = proven.bound;
    result.proof = std::move(proven.proof);
    return result;
  };
  if (!has_one_root(request.collective) || request.root) return planned(request);
  auto const ranks = machine.rank_positions();
  if (ranks.size() > most_ranks_of_program) {
    request.root = machine.nodes[static_cast<std::size_t>(best_root(machine, request).root)].id;
    return planned(request);
  }
  auto const capacity = capacities_of(machine);
  std::vector<std::pair<rational, int>> roots;  // the smallest cut, negative, and the position
  for (int const at : ranks) {
    roots.emplace_back(-machine.in_units(rooted_connectivity(machine, capacity, at, ranks).value),
                       at);
  }
  std::sort(roots.begin(), roots.end());
  std::optional<plan> best;
  for (auto const& [negative_cut, at] : roots) {
    if (best && -negative_cut <= best->rate) break;
    request.root = machine.nodes[static_cast<std::size_t>(at)].id;
    auto found = plan_below_cuts(machine, request, shares, make);
    if (!best || found.rate > best->rate) best = std::move(found);
  }
  return *std::move(best);
}

}  // namespace detail

}}  // namespace blink::BLINK_ABI
