// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/detail/servers.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/planning/planners/detail/plan_over_rails.hpp>
#include <blink/planning/planners/plan_three_phase.hpp>
#include <blink/planning/planners/plan_two_phases.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {
namespace detail {

/// A bound of the links among servers, and its proof.
struct bound_among_servers {
  rational bound;
  certificate proof;
};

/// Nodes, and the capacity of the links that cross into them, or out of them, in units.
struct node_set {
  std::vector<bool> has;  ///< by node
  rational capacity;
};

/// The set of nodes of which `is_in(position)` is true, and the links that enter or leave it.
/// NICs of single ranks are left out where their links to the rank are narrower than the others.
///
/// owner: by node, as of `owners_inside`
template <class IsIn>
[[nodiscard]] node_set narrow_set(topology const& machine, std::vector<int> const& owner,
                                  bool enters, IsIn is_in) {
  auto const nodes = machine.nodes.size();
  node_set result;
  std::vector<std::int64_t> inner(nodes, 0), outer(nodes, 0);
  for (std::size_t at = 0; at < nodes; ++at) result.has.push_back(is_in(at));
  for (auto const& l : machine.links) {
    auto const tail = static_cast<std::size_t>(l.tail), head = static_cast<std::size_t>(l.head);
    auto const from = enters ? tail : head, to = enters ? head : tail;
    if (result.has[from] && owner[from] == static_cast<int>(to)) inner[from] += l.capacity;
    if (result.has[to] && !result.has[from]) outer[to] += l.capacity;
  }
  for (std::size_t at = 0; at < nodes; ++at) {
    bool const is_nic = owner[at] >= 0 && owner[at] != static_cast<int>(at);
    if (is_nic && inner[at] < outer[at]) result.has[at] = false;
  }
  for (auto const& l : machine.links) {
    bool const from = result.has[static_cast<std::size_t>(enters ? l.head : l.tail)];
    bool const to = result.has[static_cast<std::size_t>(enters ? l.tail : l.head)];
    if (from && !to) result.capacity += machine.in_units(l.capacity);
  }
  return result;
}

/// Disjoint sets of nodes, each of which a pair of an in-tree and an out-tree enters.
class disjoint_parts {
 public:
  explicit disjoint_parts(std::size_t nodes) : part_(nodes, none) {}

  /// Adds a part, whose nodes leave the others.
  void add(std::vector<bool> const& has) {
    for (std::size_t at = 0; at < has.size(); ++at) {
      if (has[at]) part_[at] = count_;
    }
    ++count_;
  }
  /// With `count` parts, each pair enters them 2 (count - 1) times.
  [[nodiscard]] rational bound(topology const& machine) const {
    rational entered;
    for (auto const& l : machine.links) {
      int const from = part_[static_cast<std::size_t>(l.tail)];
      int const to = part_[static_cast<std::size_t>(l.head)];
      if (to != none && to != from) entered += machine.in_units(l.capacity);
    }
    return entered / (2 * (count_ - 1));
  }
  [[nodiscard]] std::vector<std::vector<bool>> sets() const {
    std::vector<std::vector<bool>> result(static_cast<std::size_t>(count_));
    for (int part = 0; part < count_; ++part) {
      for (int const of_node : part_) {
        result[static_cast<std::size_t>(part)].push_back(of_node == part);
      }
    }
    return result;
  }

 private:
  static constexpr int none = -1;
  std::vector<int> part_;  // by node
  int count_ = 0;
};

/// The bound of the links among two or more servers, and of those of single ranks.
///
/// all_reduce: with M servers, a pair of an in-tree and an out-tree enters servers at least
///             2 (M - 1) times. Ranks with narrow links inside count as servers. Or what leaves or
///             enters one server or rank.
/// all_gather: what enters the server or rank that receives its part of the buffer last.
/// broadcast:  what leaves the root or its server, or enters another server or rank.
///
/// root: node id, of a broadcast
/// Time: O(ranks * links)
[[nodiscard]] inline bound_among_servers bound_of_servers(topology const& machine,
                                                          std::vector<server> const& servers,
                                                          collective kind, int root) {
  bool const has_root = has_one_root(kind);
  bool const both_ways = has_both_phases(kind);
  auto const ranks = machine.rank_positions();
  auto const root_at = static_cast<std::size_t>(has_root ? machine.position_of(root) : 0);
  bound_among_servers result;
  auto const consider = [&](rational const& bound, node_set const& part, bool enters) {
    if (result.bound > rational(0) && bound >= result.bound) return;
    auto side = part.has;
    if (enters) side.flip();
    result = {bound, cut_at(machine, side)};
  };
  auto const consider_part = [&](node_set const& part, std::int64_t held, bool enters) {
    bool const holds_root = has_root && part.has[root_at];
    auto const all = std::ssize(ranks);
    if (enters && !holds_root) {
      consider(both_ways || has_root ? part.capacity : part.capacity * all / (all - held), part,
               true);
    } else if (!enters && (both_ways || holds_root)) {
      consider(part.capacity, part, false);
    }
  };
  disjoint_parts parts(machine.nodes.size());
  struct rank_alone {
    rational width;         ///< of its links inside its server, both ways
    std::vector<bool> has;  ///< by node
  };
  std::vector<rank_alone> alone;
  for (auto const& s : servers) {
    auto const owner = owners_inside(machine, s);
    auto const inner = inner_widths(machine, s, s.ids);
    for (bool const enters : {true, false}) {
      auto const all = narrow_set(machine, owner, enters, [&](std::size_t at) {
        return is_inside(machine, s, static_cast<int>(at));
      });
      consider_part(all, std::ssize(s.ids), enters);
      if (enters && both_ways) parts.add(all.has);
      for (std::size_t k = 0; k < s.ids.size(); ++k) {
        int const rank = machine.position_of(s.ids[k]);
        auto const one =
            narrow_set(machine, owner, enters, [&](std::size_t at) { return owner[at] == rank; });
        consider_part(one, 1, enters);
        if (enters && both_ways && s.ids.size() > 1)
          alone.push_back({inner[k].in + inner[k].out, one.has});
      }
    }
  }
  if (both_ways) {
    std::ranges::sort(alone, {}, &rank_alone::width);
    auto bound = parts.bound(machine);
    for (auto const& r : alone) {
      auto more = parts;
      more.add(r.has);
      auto const lower = more.bound(machine);
      if (lower >= bound) break;
      bound = lower;
      parts = std::move(more);
    }
    if (bound <= result.bound) result = {bound, prices_of(machine, parts.sets())};
  }
  return result;
}

/// The best plan of `plan_among_servers`, however far from the bound. Nothing without switches or
/// several servers, or if no way of planning applies.
[[nodiscard]] inline std::optional<plan> best_among_servers(topology const& machine,
                                                            plan_request const& request) {
  bool const both_ways = has_both_phases(request.collective);
  expect_forward(request);
  expects(has_spanning_trees(request.collective),
          "plan_among_servers: another collective, expected broadcast, all_gather or all_reduce");
  auto const servers = servers_of(machine);
  // Where ranks are joined directly, routes among servers take links inside of others.
  if (servers.size() < 2 || used_switches(machine).empty()) return std::nullopt;
  plan_request wanted = request;
  if (has_one_root(request.collective) && !request.root) {
    auto const best = best_root(machine, request).root;
    wanted.root = machine.nodes[static_cast<std::size_t>(best)].id;
  }
  auto const proven =
      bound_of_servers(machine, servers, request.collective, wanted.root.value_or(-1));
  std::optional<plan> result;
  auto const also = [&](auto const& other) {
    if (result && result->rate == proven.bound) return;
    try {
      auto made = std::optional<plan>(other());
      if (made && (!result || made->rate > result->rate)) result = std::move(made);
    } catch (planning_error const&) {  // a server whose ranks are not connected inside
    } catch (overflow_error const&) {
    }
  };
  auto const over_rails = [&](narrow_rank_rule rule, std::size_t stride = 1) {
    also([&] { return plan_over_rails(machine, wanted, servers, proven.bound, rule, stride); });
  };
  over_rails(narrow_rank_rule::none);
  // Narrow servers have room for each other's data only where they are no neighbours.
  for (std::size_t const stride : {5U, 7U, 11U, 13U, 17U, 19U, 23U}) {
    if (has_one_root(request.collective) && std::gcd(stride, servers.size() - 1) == 1) {
      over_rails(narrow_rank_rule::none, stride);
    }
  }
  if (both_ways) {
    over_rails(narrow_rank_rule::leaves);
    constexpr double rounded = 1e-4;  // what rounding may lose
    if (!result || ratio(result->rate, proven.bound) < 1 - rounded) {
      over_rails(narrow_rank_rule::rounded_leaves);
    }
    also([&] {
      return glued_phases(machine, request, {.shares_by_width = true, .leaders_by_width = true});
    });
  }
  if (!result) return std::nullopt;
  result->bound = proven.bound;
  result->proof = proven.proof;
  return result;
}

}  // namespace detail

/// Plans broadcast, all-gather or all-reduce where the links among servers are the narrowest,
/// however much the servers' shares of them differ. Data crosses between ranks that have links to
/// spare. Links inside servers may be narrow too: in an all-gather, more data then enters at their
/// ranks. In an all-reduce, these ranks are leaves, partly of ranks in other servers.
///
/// Source: the stars: Wang et al., "Blink: Fast and Generic Collectives for Distributed ML", MLSys
///         2020, section 3.5; the bound of all-reduce: the partition of Tutte and Nash-Williams
///         (1961), in both directions.
/// Time:   O(trees * N) edges, see `detail::plan_over_rails`; for an all-reduce that is not exact
///         also as one choice of `plan_three_phase`.
/// Pre:    a broadcast, all-gather or all-reduce.
/// Post:   bound is proven, by prices for entering a server or by the cut of a server or rank. For
///         all-reduce, rate >= 0.999 * bound, or 0.995 * bound among more than 128 ranks. For the
///         others rate = bound. Nothing for all other machines, in particular without switches or
///         several servers.
[[nodiscard]] inline std::optional<plan> plan_among_servers(topology const& machine,
                                                            plan_request const& request) {
  auto result = detail::best_among_servers(machine, request);
  if (!result) return std::nullopt;
  constexpr std::size_t many_ranks = 128;  // for which no other planner comes nearer in seconds
  std::int64_t const gap_parts = result->ranks.size() > many_ranks ? 200 : 1000;
  bool const is_near = has_both_phases(request.collective) &&
                       result->rate >= result->bound * rational(gap_parts - 1, gap_parts);
  if (is_near || result->rate == result->bound) return result;
  return std::nullopt;
}

}}  // namespace blink::BLINK_ABI
