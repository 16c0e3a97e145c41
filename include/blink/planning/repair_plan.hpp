// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/core/work_budget.hpp>
#include <blink/packing/trees/all_gather_rate.hpp>
#include <blink/packing/trees/arborescence_packing.hpp>
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/constraints/detail/reused_trees.hpp>
#include <blink/planning/constraints/detail/reweighted_trees.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/planning/plan/detail/link_loads.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_difference.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/planning/planners/plan_direct.hpp>
#include <blink/planning/planners/plan_exact.hpp>
#include <blink/planning/planners/plan_shares.hpp>
#include <blink/planning/planners/prove_bound.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The way in which a plan was repaired.
enum class repair_algorithm : std::uint8_t {
  reweighted,    ///< the old trees with other weights; the old certificate still proves the rate
  mended,        ///< most old trees, and new ones in the room that they leave
  from_scratch,  ///< planned from the start
};

[[nodiscard]] constexpr char const* to_text(repair_algorithm algorithm) {
  return algorithm == repair_algorithm::reweighted ? "reweighted"
         : algorithm == repair_algorithm::mended   ? "mended"
                                                   : "planned from the start";
}

/// A plan for a changed machine, as good as a fresh one, and how it differs from the old one.
struct repaired_plan {
  blink::plan plan;
  plan_difference difference;
  repair_algorithm algorithm = repair_algorithm::from_scratch;
  std::string reason;  ///< why it was planned from the start
};

namespace detail {

/// Keeps the out-trees that fit, and packs the rest of the demand into the rest of the room, at the
/// rate of `target`. Nothing if the kept trees block too much.
[[nodiscard]] inline std::optional<plan> mended_plan(topology const& machine, plan const& old,
                                                     plan target, std::map<int, rational> demand) {
  constexpr int most_rounds = 8;  // then a fresh plan is no slower
  reused_trees kept(machine, std::move(demand));
  kept.take(old.trees);
  for (int round = 0; round < most_rounds; ++round) {
    if (kept.trees().empty()) return std::nullopt;
    auto const rest = kept.routes(old.trees);
    std::vector<int> everyone;
    std::vector<std::int64_t> wanted;
    std::vector<root_demand> demands;
    for (std::size_t v = 0; v < rest.ids.size(); ++v) {
      auto const d = kept.demand().find(rest.ids[v]);
      everyone.push_back(static_cast<int>(v));
      wanted.push_back(d == kept.demand().end() ? 0 : (d->second / rest.step).numerator());
      if (wanted.back() > 0) demands.push_back({everyone.back(), wanted.back()});
    }
    if (!demands.empty()) {
      auto const optimum = all_gather_rate(rest.graph, rest.capacity, everyone, wanted);
      if (optimum.rate_per_root < rational(1)) {
        std::set<int> inside;
        rational leaving;
        for (std::size_t v = 0; v < optimum.cut.size(); ++v) {
          if (!optimum.cut[v]) continue;
          inside.insert(rest.ids[v]);
          leaving += rest.step * wanted[v];
        }
        if (!kept.relieve(inside, leaving * optimum.rate_per_root)) return std::nullopt;
        continue;
      }
      for (auto const& packed :
           pack_arborescences(rest.graph, rest.capacity, demands, {.tries = 1, .kicks = 0})) {
        tree t{rest.ids[static_cast<std::size_t>(packed.root)],
               rest.step * packed.multiplicity,
               {},
               {}};
        for (int const e : packed.edges) {
          t.broadcast.push_back(rest.edge(static_cast<std::size_t>(e)));
        }
        target.trees.push_back(std::move(t));
      }
    }
    target.trees.insert(target.trees.begin(), kept.trees().begin(), kept.trees().end());
    target.rate = 0;
    for (auto const& t : target.trees) target.rate += t.weight;
    return target;
  }
  return std::nullopt;
}

/// The weight that each root's trees need at the bound, by node id.
[[nodiscard]] inline std::map<int, rational> demand_at_bound(plan const& target, int root) {
  std::map<int, rational> result;
  if (!has_equal_roots(target.collective)) {
    result[root] = target.bound;
    return result;
  }
  rational all;
  for (std::size_t i = 0; i < target.ranks.size(); ++i) {
    all += target.shares.empty() ? 1 : target.shares[i];
  }
  for (std::size_t i = 0; i < target.ranks.size(); ++i) {
    result[target.ranks[i]] = target.bound * (target.shares.empty() ? 1 : target.shares[i]) / all;
  }
  return result;
}

/// A machine with exactly the nodes and links that a plan uses, at the capacity that it uses. All
/// nodes but the plan's ranks copy and reduce.
[[nodiscard]] inline topology machine_of(plan const& p) {
  std::map<int, int> position;
  topology result;
  result.name = "old plan";
  result.unit = p.unit;
  auto const add = [&](int id, node_kind kind) {
    if (!position.emplace(id, static_cast<int>(result.nodes.size())).second) return;
    bool const is_switch = kind == node_kind::switch_node;
    result.nodes.push_back({id, kind, "", 0, is_switch, is_switch});
  };
  for (int const id : p.ranks) add(id, node_kind::rank);
  for (auto const& t : p.trees) {
    for (auto const* phase : {&t.reduce, &t.broadcast}) {
      for (auto const& e : *phase) {
        for (int const id : e.path) add(id, node_kind::switch_node);
      }
    }
  }
  auto const load = link_loads(p.trees);
  std::int64_t steps = 1;
  for (auto const& entry : load) {
    steps = common_multiple(steps, entry.second.denominator());
  }
  result.steps_per_unit = steps;
  for (auto const& [ends, amount] : load) {
    result.links.push_back(
        {position.at(ends.first), position.at(ends.second), (amount * steps).numerator()});
  }
  return result;
}

/// Throws: input_error unless the trees of the plan are sound on some machine.
inline void expect_sound(plan p) {
  auto const machine = machine_of(p);
  p.links.clear();
  p.forbidden_links.clear();
  std::erase_if(p.forwarding_ranks, [&](int id) { return machine.position_of(id) < 0; });
  p.proof = no_certificate{};
  p.bound = 0;
  if (auto const report = check_plan(machine, p); !report) {
    throw input_error("repair: the old plan is not sound: " + *report.fault);
  }
}

/// The plan with every tree reversed: edges towards the root become edges away from it.
[[nodiscard]] inline plan reversed_trees(plan p) {
  for (auto& t : p.trees) {
    std::swap(t.reduce, t.broadcast);
    for (auto* phase : {&t.reduce, &t.broadcast}) {
      for (auto& e : *phase) {
        std::swap(e.from, e.to);
        std::reverse(e.path.begin(), e.path.end());
      }
    }
  }
  return p;
}

}  // namespace detail

/// Plans again after a link's capacity changed, a link was lost, or a rank was lost or added. The
/// plan is as good as a fresh one and keeps as many of the old trees as it can.
///
/// Above 64 ranks, `plan_among_servers` and `plan_near_torus` make a fresh plan in less time than
/// old trees are kept. Where they apply, theirs is the result. Otherwise the old trees first get
/// other weights. That is enough if they reach the bound that the old certificate proves on the
/// changed machine. Otherwise broadcast, reduce, all-gather and reduce-scatter keep the trees that
/// fit, and mend those that lost a link or a rank. Trees that cross a cut too often are given up,
/// and new trees are packed into the room that is left. The cut condition of Edmonds' theorem
/// decides whether they fit. If not, and for all-reduce, the plan is made from scratch.
///
/// machine: the changed one; all its ranks take part, except the plan's forwarding ranks.
/// old:     a plan that was sound on the machine before the change; ranks keep their shares, new
///          ranks have 1.
/// budget:  half of it is for keeping old trees, the rest for a plan from scratch.
/// Time:    reweighting: a linear program over the old trees; mending: O(N) maximum flows a round,
///          few rounds, and growing the missing trees.
/// Post:    rate = bound, proven, if the planner `exact` reaches its bound. The plan passes
///          `check_plan`.
/// Throws:  as `make_plan`; input_error for plans without spanning trees, and for an old plan with
///          a fault that shows on any machine.
[[nodiscard]] inline repaired_plan repair_plan(topology machine, plan const& old,
                                               work_budget const& budget = {}) {
  budget.validate();
  validate(machine);
  if (!has_spanning_trees(old.collective)) {
    throw input_error("repair: expected a plan of spanning trees, found " +
                      std::string(to_text(old.collective)));
  }
  detail::expect_sound(old);
  detail::budget_scope const scope(budget);
  auto const whole = machine;
  std::erase_if(machine.links, [&](link const& l) {
    return std::ranges::count(old.forbidden_links,
                              std::pair(machine.nodes[static_cast<std::size_t>(l.tail)].id,
                                        machine.nodes[static_cast<std::size_t>(l.head)].id)) != 0;
  });
  for (auto& n : machine.nodes) {
    if (std::ranges::count(old.forwarding_ranks, n.id) != 0) n.kind = node_kind::switch_node;
  }
  plan_request request{old.collective};
  bool const one_root = has_one_root(old.collective);
  std::vector<std::int64_t> shares;
  if (!old.shares.empty()) {
    for (int const at : machine.rank_positions()) {
      auto const found =
          std::ranges::find(old.ranks, machine.nodes[static_cast<std::size_t>(at)].id);
      auto const id = machine.nodes[static_cast<std::size_t>(at)].id;
      shares.push_back(found == old.ranks.end()
                           ? 1
                           : old.shares[static_cast<std::size_t>(found - old.ranks.begin())]);
      request.constraints.shares.emplace(id, shares.back());
    }
  }
  repaired_plan result;
  bool root_lost = false;
  if (one_root && !old.trees.empty()) {
    int const at = machine.position_of(old.trees.front().root);
    root_lost = at < 0 || machine.nodes[static_cast<std::size_t>(at)].kind != node_kind::rank;
    if (!root_lost) request.root = old.trees.front().root;
  }
  auto const finish = [&](plan p, repair_algorithm algorithm) {
    p.links = old.links;
    for (int const id : old.forwarding_ranks) {
      if (whole.position_of(id) >= 0) p.forwarding_ranks.push_back(id);
    }
    p.forbidden_links = old.forbidden_links;
    result.difference = difference(old, p);
    result.plan = std::move(p);
    result.algorithm = algorithm;
    return std::move(result);
  };
  auto const from_scratch = [&](std::string reason) {
    result.reason = std::move(reason);
    return finish(make_plan(machine, request), repair_algorithm::from_scratch);
  };
  if (machine.rank_positions().size() < 2 || old.trees.empty()) return from_scratch("one rank");
  if (root_lost) return from_scratch("the root is lost");

  std::string why;
  auto const scratch = [&](char const* reason) {
    why = reason;
    return std::optional<repaired_plan>();
  };
  auto const kind = detail::forward_collective(old.collective);
  bool const is_reversed = kind != old.collective;
  auto const forward = is_reversed ? detail::reversed(machine) : machine;
  auto const reuse = [&]() -> std::optional<repaired_plan> {
    if (shares.empty()) {
      auto fresh = request;
      fresh.collective = kind;
      if (auto p = detail::first_exact_plan(forward, fresh, true)) {
        if (is_reversed) p = detail::reversed(*std::move(p), machine);
        result.reason = "of so many ranks a fresh plan takes less time";
        return finish(*std::move(p), repair_algorithm::from_scratch);
      }
      if (auto p = detail::reweighted_plan(machine, old)) {
        return finish(std::move(*p), repair_algorithm::reweighted);
      }
    }
    if (has_both_phases(old.collective)) {
      return scratch("other weights of the old trees do not reach the optimum, or are many to try");
    }
    auto target = detail::empty_plan(forward, {kind});
    if (has_equal_roots(kind)) {
      target = detail::plan_of_shares(forward, {kind}, detail::reduced_shares(forward, shares));
    } else {
      auto proven = prove_bound(forward, kind, *request.root);
      target.bound = proven.bound;
      target.proof = std::move(proven.proof);
      if (target.bound == rational(0)) return scratch("the ranks are not connected");
    }
    auto demand = detail::demand_at_bound(target, request.root.value_or(0));
    auto p = detail::mended_plan(forward, is_reversed ? detail::reversed_trees(old) : old,
                                 std::move(target), std::move(demand));
    if (!p) return scratch("the old trees stand in the way of the optimum");
    if (is_reversed) p = detail::reversed(std::move(*p), machine);
    return finish(std::move(*p), repair_algorithm::mended);
  };
  try {
    detail::budget_scope const half(detail::budget_scope::part(0.5));
    if (auto kept = reuse()) return *std::move(kept);
  } catch (detail::budget_spent const&) {
    why = "half of the budget was spent on keeping old trees";
  }
  return from_scratch(std::move(why));
}

}}  // namespace blink::BLINK_ABI
