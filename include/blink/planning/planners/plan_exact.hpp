// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/planning/planners/plan_among_servers.hpp>
#include <blink/planning/planners/plan_barrier.hpp>
#include <blink/planning/planners/plan_direct.hpp>
#include <blink/planning/planners/plan_flows.hpp>
#include <blink/planning/planners/plan_gather.hpp>
#include <blink/planning/planners/plan_joint.hpp>
#include <blink/planning/planners/plan_near_torus.hpp>
#include <blink/planning/planners/plan_switch.hpp>
#include <blink/planning/planners/plan_two_phases.hpp>
#include <blink/planning/planners/without_egress_excess.hpp>
#include <blink/topology/subset.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Plans broadcast or all-gather by `plan_direct`, on balanced switches where it must.
[[nodiscard]] inline plan plan_balanced(topology const& machine, plan_request const& request) {
  return plan_below_cuts(machine, request, {}, plan_direct);
}

/// An algorithm of the planner `exact`.
struct exact_algorithm {
  collective_set collectives;
  bool (*suits)(topology const& machine);
  /// Returns nothing if the algorithm does not apply after all.
  std::optional<plan> (*make)(topology const& machine, plan_request const& request);
  /// True if this takes less time than keeping trees of an old plan.
  bool is_quick = false;
};

template <plan (*Make)(topology const&, plan_request const&)>
[[nodiscard]] std::optional<plan> made_by(topology const& machine, plan_request const& request) {
  return Make(machine, request);
}

[[nodiscard]] inline bool is_any(topology const& /*machine*/) {
  return true;
}

template <std::size_t Ranks>
[[nodiscard]] bool has_more_ranks_than(topology const& machine) {
  return machine.rank_positions().size() > Ranks;
}

/// True if the machine has switches or more than `Ranks` ranks.
template <std::size_t Ranks>
[[nodiscard]] bool is_beyond(topology const& machine) {
  return !used_switches(machine).empty() || has_more_ranks_than<Ranks>(machine);
}

/// True if the machine has more than `Ranks` ranks and servers whose links differ, inside or to the
/// outside.
template <std::size_t Ranks>
[[nodiscard]] bool has_uneven_servers(topology const& machine) {
  if (!has_more_ranks_than<Ranks>(machine)) return false;
  enum class side : std::uint8_t { inside, leaving, entering };
  constexpr int outside = -1;
  auto const server_of = [&](int at) {
    auto const& n = machine.nodes[static_cast<std::size_t>(at)];
    bool const is_alone = n.server < 0 && n.kind == node_kind::rank;  // a server by itself
    return is_alone ? outside - 1 - at : n.server;
  };
  std::map<int, std::vector<std::pair<side, std::int64_t>>> links;  // by server
  for (auto const& l : machine.links) {
    int const from = server_of(l.tail), to = server_of(l.head);
    if (from == to) {
      links[from].emplace_back(side::inside, l.capacity);
    } else {
      links[from].emplace_back(side::leaving, l.capacity);
      links[to].emplace_back(side::entering, l.capacity);
    }
  }
  links.erase(outside);
  for (auto& [server, of_server] : links) std::ranges::sort(of_server);
  return std::ranges::any_of(
      links, [&](auto const& each) { return each.second != links.begin()->second; });
}

/// Plans all-reduce by `plan_joint`. Where that comes only near the optimum, the better of it and a
/// plan among servers is the result, with the lower of their bounds.
[[nodiscard]] inline plan plan_joint_or_among_servers(topology const& machine,
                                                      plan_request const& request) {
  auto result = plan_joint(machine, request);
  if (result.rate == result.bound) return result;
  std::optional<plan> other;
  try {
    other = best_among_servers(machine, request);
  } catch (budget_spent const&) {  // then the plan that there is
  }
  if (!other) return result;
  other->planner = result.planner;
  auto& worse = other->rate > result.rate ? result : *other;
  auto& better = other->rate > result.rate ? *other : result;
  if (worse.bound < better.bound) {
    better.bound = worse.bound;
    better.proof = std::move(worse.proof);
  }
  return std::move(better);
}

/// The algorithms in the order in which they are tried.
///
/// Joint trees are fewer than the trees of two or three phases, but for many ranks take long to
/// find.
/// `plan_direct` finds fewer trees than `plan_joint` for few ranks, and takes longer for more. Its
/// broadcasts are lower than those of `plan_among_servers`.
inline constexpr exact_algorithm exact_algorithms[]{
    {{collective::barrier}, is_any, made_by<plan_barrier>},
    {collective_set{[](collective kind) { return is_point_to_point(kind) && has_root(kind); }},
     is_any, made_by<plan_gather>},
    {collective_set{sends_and_receives}, is_any, made_by<plan_flows>},
    {{collective::all_reduce}, has_copying_switches, made_by<plan_joint>},
    {{collective::broadcast, collective::all_gather, collective::all_reduce}, is_any, plan_star},
    {{collective::all_reduce}, is_beyond<64>, plan_two_phases},
    {{collective::all_reduce}, has_more_ranks_than<64>, plan_among_servers, true},
    {{collective::all_gather, collective::broadcast},
     has_uneven_servers<64>,
     plan_among_servers,
     true},
    {{collective::broadcast}, has_more_ranks_than<256>, plan_among_servers, true},
    {{collective::all_reduce}, is_beyond<8>, made_by<plan_joint_or_among_servers>},
    {{collective::all_reduce}, is_any, made_by<plan_direct>},
    {{collective::all_gather}, has_more_ranks_than<64>, plan_near_torus, true},
    {{collective::broadcast, collective::all_gather}, is_any, made_by<plan_balanced>},
};

/// The plan of the first of `exact_algorithms` that applies, or of the first quick one. Nothing if
/// none does.
[[nodiscard]] inline std::optional<plan> first_exact_plan(topology const& whole,
                                                          plan_request const& request,
                                                          bool only_quick) {
  expect_forward(request);
  auto const machine = without_idle_switches(whole);
  for (auto const& each : exact_algorithms) {
    if (only_quick && !each.is_quick) continue;
    if (!each.collectives.contains(request.collective) || !each.suits(machine)) continue;
    if (auto result = each.make(machine, request)) return result;
  }
  return std::nullopt;
}

/// Plans optimally on any machine, by the first of `exact_algorithms` that applies.
///
/// Pre: neither a reduce nor a reduce_scatter.
[[nodiscard]] inline plan plan_exact(topology const& machine, plan_request const& request) {
  if (auto result = first_exact_plan(machine, request, false)) return *std::move(result);
  throw planning_error("exact: no algorithm plans " + std::string(to_text(request.collective)));
}

}}}  // namespace blink::BLINK_ABI::detail
