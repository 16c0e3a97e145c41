// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/core/work_budget.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/packing/flows/detail/balanced_routing.hpp>
#include <blink/packing/flows/detail/flow_commodities.hpp>
#include <blink/packing/flows/detail/flow_descent.hpp>
#include <blink/packing/flows/detail/flow_problem.hpp>
#include <blink/packing/flows/detail/interior_flows.hpp>
#include <blink/packing/flows/detail/rounded_prices.hpp>
#include <blink/packing/flows/detail/simple_flows.hpp>
#include <blink/packing/flows/detail/whole_flow.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A source and its sinks. Every pair of a source and a sink receives the same amount.
struct flow_demand {
  int source = 0;
  std::vector<int> sinks;  ///< distinct, the source not among them
};

/// Limits that choose the algorithms of `concurrent_flow` and when they stop.
struct concurrent_flow_options {
  /// sufficient bound / rate - 1 where an exact optimum takes long; many pairs: five times that
  double gap = 0.002;
  /// up to this number, a program over the routes of each pair runs first
  std::size_t few_pairs = 300;
  std::size_t few_rows = 420;  ///< up to this number of edges + sources, a program over trees runs
                               ///< before the descent of flows, else after
  /// up to this number, pairs are tried where trees are not exact
  std::size_t max_exact_pairs = 600;
  std::size_t max_exact_rows = 700;  ///< beyond this number, no program runs
  std::size_t max_pivots = 6000;     ///< of each program
  std::size_t few_equations = 60;    ///< solved without rounding at first
  std::size_t max_equations = 300;   ///< solved without rounding at last
  double interior_work = 2e9;        ///< operations of a step of the interior-point method, at most
  std::size_t routing_rounds = 40;
  std::size_t descent_rounds = 2000;
  double descent_work = 1e8;  ///< rounds * edges * sources, at most
  std::uint64_t seed = 1;
};

/// Equal flows for all pairs, and the prices that bound them.
struct concurrent_flow_result {
  rational rate;                 ///< of each pair, in the unit of the capacities
  rational bound;                ///< no flows give each pair more
  std::vector<rational> prices;  ///< by edge; the cheapest routes of all pairs cost 1 together, and
                                 ///< price * capacity sums to `bound`
  std::int64_t per_sink = 0;     ///< parts that each sink receives from its source
  std::vector<std::vector<std::int64_t>> flow;  ///< by demand and edge, in parts
  std::string found_by;  ///< "spread", "routing", "program", "interior" or "descent"
};

namespace detail {

/// Keeps the best flows and the best bound, and detects when they are equal.
class flow_race {
 public:
  explicit flow_race(flow_problem const& problem) : problem_(problem) {}

  void offer(std::optional<whole_flows> flows, char const* found_by) {
    auto const rate = flows ? rate_of(problem_, *flows) : std::nullopt;
    if (!rate || *rate <= rate_) return;
    rate_ = *rate;
    flows_ = std::move(*flows);
    found_by_ = found_by;
  }
  void offer(std::optional<proven_flow_bound> bound) {
    if (bound && (!bound_ || bound->bound < bound_->bound)) bound_ = std::move(bound);
  }
  [[nodiscard]] bool is_won() const { return bound_ && rate_ == bound_->bound; }
  [[nodiscard]] bool is_within(double gap) const {
    return bound_ && rate_ > rational(0) &&
           bound_->bound.to_double() <= rate_.to_double() * (1 + gap);
  }
  [[nodiscard]] proven_flow_bound const& bound() const { return *bound_; }
  [[nodiscard]] whole_flows const& flows() const { return flows_; }
  [[nodiscard]] rational const& rate() const { return rate_; }
  [[nodiscard]] char const* found_by() const { return found_by_; }

 private:
  flow_problem const& problem_;
  rational rate_;
  whole_flows flows_;
  char const* found_by_ = "";
  std::optional<proven_flow_bound> bound_;
};

/// Offers prices rounded in a few ways.
inline void offer_prices(flow_problem const& problem, std::vector<double> const& prices,
                         flow_race& race) {
  for_each_rounding(prices, [&](std::vector<std::int64_t> const& whole) {
    race.offer(bound_of_prices(problem, whole));
  });
}

/// Converts the flows of `parts` to flows of `problem`. `parts` has the same pairs in the same
/// order.
[[nodiscard]] inline std::optional<whole_flows> joined_flows(flow_problem const& problem,
                                                             flow_problem const& parts,
                                                             std::optional<whole_flows> flows) {
  if (!flows) return flows;
  whole_flows result{flows->per_sink, {}};
  std::size_t part = 0;
  for (auto const& from : problem.sources) {
    auto& sum = result.flow.emplace_back(problem.capacity.size(), 0);
    for (std::size_t left = from.sinks.size(); left > 0; ++part) {
      for (std::size_t e = 0; e < sum.size(); ++e) sum[e] += flows->flow[part][e];
      left -= parts.sources[part].sinks.size();
    }
  }
  return result;
}

/// Solves the program for the sources of `problem` and offers its results.
///
/// parts:   the same pairs, with one source for each pair or for each source of `problem`
/// patient: if true, tries several optima and solves larger systems of equations without rounding
inline void offer_program(flow_problem const& problem, flow_problem const& parts,
                          concurrent_flow_options const& options, bool patient, flow_race& race) {
  constexpr std::int64_t rounded = std::int64_t{1} << 20;
  // Any route for each pair allows at least this rate.
  double const least = static_cast<double>(*std::ranges::min_element(problem.capacity)) /
                       static_cast<double>(problem.pair_count());
  constexpr double perturbations[] = {0, 1e-8, 1e-6};  // selects one of many optimal bases
  for (std::size_t attempt = 0, rounds = 0;
       attempt < (patient ? std::size(perturbations) : 1) && rounds < 8; ++rounds) {
    double const unit = race.bound().bound.to_double();
    flow_commodities sources(parts);
    concurrent_program program(sources, unit, std::max(race.rate().to_double(), least),
                               perturbations[attempt], options.seed);
    bool const solved = program.solve(options.max_pivots);
    offer_prices(problem, program.best_prices(), race);
    if (solved) {
      offer_prices(problem, program.prices(), race);
      auto const steps = program.guessed_steps(100'000);
      for (auto const each : {steps.value_or(rounded), rounded}) {
        race.offer(joined_flows(problem, parts, flows_of(program, parts, program.rounded(each))),
                   "program");
        if (race.is_won()) return;
      }
      auto const most = patient ? options.max_equations : options.few_equations;
      if (auto const prices = program.exact_prices(most)) {
        race.offer(bound_of_prices(problem, *prices));
      }
      if (auto const choices = program.exact(most, parts.pair_count())) {
        race.offer(joined_flows(problem, parts, flows_of(program, parts, *choices)), "program");
      }
      if (race.is_won()) return;
    }
    // Rounding hurts if the bound that serves as the unit was far from the optimum.
    if (race.bound().bound.to_double() * 2 > unit) ++attempt;
  }
}

/// Offers simple prices, and flows over all cheapest routes at once.
inline void offer_spread_flows(flow_problem const& problem, flow_race& race) {
  unlimited_scope const whole;
  auto const edges = problem.capacity.size();
  race.offer(simple_bound(problem));
  // Use all cheapest routes equally, first by number of edges, then with narrow edges expensive.
  std::vector<std::int64_t> const ones(edges, 1);
  auto const largest = *std::max_element(problem.capacity.begin(), problem.capacity.end());
  std::vector<std::int64_t> narrow;
  for (auto const c : problem.capacity) narrow.push_back(std::max<std::int64_t>(1, largest / c));
  for (auto const& costs : {ones, narrow}) {
    auto flows = spread_flows(problem, costs);
    race.offer(bound_of_full_edges(problem, flows));
    race.offer(std::move(flows), "spread");
    if (race.is_won()) return;
  }
}

/// A descent that begins with the best flows so far.
[[nodiscard]] inline flow_descent start_descent(flow_problem const& problem,
                                                flow_race const& race) {
  unlimited_scope const whole;
  return flow_descent(problem, race.flows());
}
inline void offer_descent(flow_problem const& problem, flow_descent const& descent,
                          flow_race& race) {
  unlimited_scope const whole;
  if (!descent.prices().empty()) offer_prices(problem, descent.prices(), race);
  race.offer(few_flows(problem, descent.flows(), 0.999), "descent");
}

/// Runs the algorithms from fast to slow until the best flows meet the best bound.
inline void run_flow_race(flow_problem const& problem, concurrent_flow_options const& options,
                          flow_race& race) {
  auto const edges = problem.capacity.size();
  auto const pairs = static_cast<std::size_t>(problem.pair_count());
  auto const route = [&] {
    if (pairs > 10'000) return;
    std::vector<double> prices;
    for (auto const p : race.bound().numerators) prices.push_back(static_cast<double>(p));
    balanced_routing routing(problem, race.bound().bound, prices);
    if (routing.run(options.routing_rounds)) race.offer(routing.flows(), "routing");
  };
  auto const by_way = [&] {
    auto single = problem;
    single.sources.clear();
    for (auto const& from : problem.sources) {
      for (int const sink : from.sinks) single.sources.push_back({from.vertex, {sink}});
    }
    offer_program(problem, single, options, false, race);
  };
  auto const by_tree = [&](bool patient) {
    offer_program(problem, problem, options, patient, race);
  };
  auto const by_descent = [&] {
    auto descent = start_descent(problem, race);
    double const work = static_cast<double>(edges) * static_cast<double>(problem.sources.size());
    auto const rounds =
        std::min(options.descent_rounds, static_cast<std::size_t>(options.descent_work / work) + 1);
    constexpr std::size_t few_rounds = 500;
    try {
      descent.run(rounds < few_rounds ? 5 * options.gap : options.gap, rounds);
    } catch (budget_spent const&) {
      offer_descent(problem, descent, race);
      throw;
    }
    offer_descent(problem, descent, race);
  };
  auto const by_interior = [&] {
    if (interior_flows::work_of_step(problem) > options.interior_work) return;
    // A part of the budget, so that time remains for the descent.
    try {
      budget_scope const part(budget_scope::part(0.6));
      interior_flows interior(problem);
      interior.run(1e-9);
      unlimited_scope const whole;
      offer_prices(problem, interior.prices(), race);
      race.offer(few_flows(problem, interior.flows(), 1), "interior");
    } catch (budget_spent const&) {
    }
  };
  constexpr double tiny = 1e-6;
  auto const rows = edges + problem.sources.size();
  bool const small = pairs <= options.few_pairs;
  bool const large = !small && rows > options.few_rows;
  if (small) by_way();
  if (!small && !large) by_tree(false);
  if (race.is_won()) return;
  route();
  if (race.is_won()) return;
  if (small) by_tree(true);
  if (!race.is_won()) by_interior();
  if (race.is_won() || small) return;
  if (!large && pairs <= options.max_exact_pairs) {
    by_way();
    if (!race.is_won()) by_tree(true);
  }
  if (race.is_within(tiny)) return;
  by_descent();
  if (!large || race.is_won()) return;
  route();
  if (race.is_won() || rows > options.max_exact_rows) return;
  by_tree(false);
  if (!race.is_won()) route();
}

}  // namespace detail

/// Sends the largest equal amount from every source to each of its sinks at the same time: a
/// maximum concurrent flow. All vertices forward.
///
/// The steps below run in order until flows and bound meet:
/// - Simple prices, and flows over all cheapest routes at once. These are optimal on many symmetric
///   machines.
/// - A linear program over routes, or over trees of routes if there are many pairs. It generates
///   rows by cheapest routes. It is exact if its weights have small denominators, otherwise nearly
///   so.
/// - A search for one route for each pair that reaches the bound.
/// - An interior-point method, which ends within 1e-6 of the bound, up to about 128 sources.
/// - A descent of the flows' congestion, which ends near `gap`.
///
/// If the thread's budget is spent before, the best flows so far are the result.
///
/// Source: F. Shahrokhi and D. Matula, "The maximum concurrent flow problem", J. ACM 37, 1990
///         (prices as the dual); see `detail/concurrent_program.hpp`, `detail/flow_descent.hpp`.
/// Time:   depends on the numbers of sources and sinks; see the benchmark.
/// Pre:    capacities are not negative; there is a pair; sources and sinks are vertices.
/// Post:   each sink receives rate = rate * flow / per_sink; those flows keep to the capacities. By
///         `prices`, none negative, the cheapest routes of all pairs cost 1 together; bound = sum
///         of price * capacity; rate <= bound, mostly equal.
/// Throws: precondition_error if a precondition does not hold; planning_error that names a pair
///         without a route; overflow_error if capacities times pairs exceed 61 bits.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] concurrent_flow_result concurrent_flow(Graph const& graph,
                                                     Capacities const& capacities,
                                                     std::vector<flow_demand> const& demands,
                                                     concurrent_flow_options const& options = {}) {
  arc_list const plain = to_arc_list(graph);
  expects(static_cast<std::size_t>(capacities.size()) == plain.arcs.size(),
          "concurrent_flow: the capacities do not match the edges, expected one for each edge");
  detail::flow_problem problem;
  problem.graph.vertex_count = plain.vertex_count;
  std::vector<std::size_t> edge;  // by edge of the problem: the edge of the graph
  std::int64_t divisor = 0;
  for (std::size_t e = 0; e < plain.arcs.size(); ++e) {
    auto const c = static_cast<std::int64_t>(capacities[e]);
    expects(c >= 0, "concurrent_flow: a capacity is negative, expected at least 0");
    if (c == 0 || plain.arcs[e].tail == plain.arcs[e].head) continue;
    problem.graph.arcs.push_back(plain.arcs[e]);
    problem.capacity.push_back(c);
    edge.push_back(e);
    divisor = std::gcd(divisor, c);
  }
  for (auto& c : problem.capacity) c /= divisor;
  auto const is_vertex = [&](int v) { return 0 <= v && v < plain.vertex_count; };
  std::vector<std::size_t> position;  // by source of the problem: the position in `demands`
  for (std::size_t d = 0; d < demands.size(); ++d) {
    auto sorted = demands[d].sinks;
    std::sort(sorted.begin(), sorted.end());
    expects(is_vertex(demands[d].source) && std::all_of(sorted.begin(), sorted.end(), is_vertex),
            "concurrent_flow: a source or sink is not a vertex, expected one of the graph");
    expects(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end() &&
                !std::binary_search(sorted.begin(), sorted.end(), demands[d].source),
            "concurrent_flow: a sink is its source or named twice, expected distinct vertices");
    if (sorted.empty()) continue;
    position.push_back(d);
    problem.sources.push_back({demands[d].source, demands[d].sinks});
  }
  expects(!problem.sources.empty(), "concurrent_flow: there is no pair, expected at least one");
  detail::route_search<std::int64_t> search(problem.graph);
  std::vector<std::int64_t> const ones(problem.capacity.size(), 1);
  for (auto const& from : problem.sources) {
    search.run(from.vertex, ones);
    for (int const sink : from.sinks) {
      if (search.is_reached(sink)) continue;
      throw planning_error("concurrent_flow: no path leads from vertex " +
                           std::to_string(from.vertex) + " to vertex " + std::to_string(sink) +
                           ", expected one");
    }
  }

  detail::flow_race race(problem);
  detail::offer_spread_flows(problem, race);
  try {
    if (!race.is_won()) detail::run_flow_race(problem, options, race);
  } catch (detail::budget_spent const&) {
    if (race.rate() == rational(0)) {
      detail::offer_descent(problem, detail::start_descent(problem, race), race);
    }
  }
  concurrent_flow_result result;
  result.rate = race.rate() * divisor;
  result.bound = race.bound().bound * divisor;
  result.found_by = race.found_by();
  result.per_sink = race.flows().per_sink;
  result.prices.resize(plain.arcs.size());
  result.flow.assign(demands.size(), std::vector<std::int64_t>(plain.arcs.size(), 0));
  for (std::size_t e = 0; e < edge.size(); ++e) {
    result.prices[edge[e]] = rational(race.bound().numerators[e], race.bound().denominator);
    for (std::size_t s = 0; s < position.size(); ++s) {
      result.flow[position[s]][edge[e]] = race.flows().flow[s][e];
    }
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
