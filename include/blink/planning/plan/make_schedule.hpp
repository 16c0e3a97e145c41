// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/detail/member_view.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/schedule/flow_schedules.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/schedule/schedule_blocks.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A tree that spans the ranks of a plan over links that it may use; nothing if it does not reach
/// some rank.
///
/// The tree has the fewest links from the root to each rank, and the lowest node ids among equal
/// routes.
///
/// towards_root: if true, links are taken in the other direction, and the edges lead to the root
/// Time:         O((nodes + links) log nodes).
[[nodiscard]] inline std::optional<std::vector<tree_edge>> shortest_tree(plan_view const& view,
                                                                         int root,
                                                                         bool towards_root) {
  std::map<int, std::vector<int>> beyond;
  for (auto const& [ends, capacity] : view.capacity) {
    beyond[towards_root ? ends.second : ends.first].push_back(towards_root ? ends.first
                                                                           : ends.second);
  }
  std::map<int, int> before{{root, root}};
  std::vector<int> found{root};
  for (std::size_t k = 0; k < found.size(); ++k) {
    int const at = found[k];
    for (int const node : beyond[at]) {
      if (before.emplace(node, at).second) found.push_back(node);
    }
  }
  std::vector<tree_edge> result;
  for (int const node : found) {
    if (node == root || !view.ranks.contains(node)) continue;
    std::vector<int> path{node};
    do {
      path.push_back(before.at(path.back()));
    } while (!view.ranks.contains(path.back()));
    if (!towards_root) std::reverse(path.begin(), path.end());
    result.push_back({path.front(), path.back(), path});
  }
  if (result.size() + 1 != view.ranks.size()) return std::nullopt;
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail

namespace blink { inline namespace BLINK_ABI {

/// Bytes per second of a capacity unit: "GB/s" or "GiB/s".
/// Throws: input_error for any other unit, such as "links": the caller must then give the rate of a
///         link.
[[nodiscard]] inline double bytes_per_second(std::string_view unit) {
  if (unit == "GB/s") return 1e9;
  if (unit == "GiB/s") return 1024.0 * 1024.0 * 1024.0;
  throw input_error("unit '" + std::string(unit) +
                    "' has no known rate, expected GB/s or GiB/s, or a rate given beside it");
}

namespace detail {

/// Adds the blocks that stay on their rank, which plans leave out.
///
/// These are a rank's own block in a gather, a scatter or an all-to-all. A rank of a permutation
/// that names itself also keeps its block. With a single rank, everything stays.
inline void add_what_stays(schedule& result, plan const& plan) {
  auto const kind = plan.collective;
  auto const ranks = static_cast<int>(plan.ranks.size());
  auto const add = [&](int rank) { result.trees.push_back(direct_flow(ranks, rank, rank)); };
  if (!is_point_to_point(kind)) {
    if (result.trees.empty() && ranks == 1) result.trees.push_back(both_phases(0, {-1}));
    return;
  }
  int const root = result.trees.empty() ? 0 : root_of(result, kind);
  for (int rank = 0; rank < ranks; ++rank) {
    auto const at = static_cast<std::size_t>(rank);
    bool const stays = kind == collective::permute ? plan.destinations[at] == plan.ranks[at]
                                                   : has_flow(kind, rank, rank, root);
    if (stays) add(rank);
  }
}

/// The trees of a plan, and one tree for each rank whose share is 0.
///
/// Plans have no tree for such a rank, but calls in which it has a block need one. Where no route
/// leads from it (or to it), there is none.
[[nodiscard]] inline std::vector<tree> trees_for_all_roots(topology const& machine,
                                                           plan const& plan) {
  auto result = plan.trees;
  if (plan.shares.empty() || plan.trees.empty()) return result;
  bool const reduces = has_reduce_phase(plan.collective);
  auto const view = member_view(machine, plan);
  for (std::size_t i = 0; i < plan.ranks.size(); ++i) {
    if (plan.shares[i] != 0) continue;
    auto edges = shortest_tree(view, plan.ranks[i], reduces);
    if (!edges) continue;
    // The only tree of its root carries the whole block, so any weight will do.
    auto& added = result.emplace_back(tree{plan.ranks[i], plan.trees.front().weight, {}, {}});
    (reduces ? added.reduce : added.broadcast) = *std::move(edges);
  }
  return result;
}

}  // namespace detail

/// A plan as a schedule that ranks can run.
///
/// Ranks are numbered 0 … N-1 in the order of `plan.ranks`. Parents are by rank. Weights are
/// integers in the plan's proportion. Each edge has its physical links. The schedule has the plan's
/// unequal shares; see `trees_for_all_roots`.
///
/// machine:        where the plan's links are
/// bytes_per_unit: rate of one capacity unit, bytes per second
/// Pre:    the plan passes `check_plan` on the machine.
/// Throws: overflow_error if the weights have no common denominator within 64 bits; planning_error
///         if the plan names a rank or link that is not in the machine, or a switch copies or
///         reduces.
/// Time:   O(tree edges * path length * log links), and a search of the machine for each rank with
///         the share 0.
[[nodiscard]] inline schedule make_schedule(topology const& machine, plan const& plan,
                                            double bytes_per_unit) {
  auto const trees = detail::trees_for_all_roots(machine, plan);
  schedule result;
  result.rank_count = static_cast<int>(plan.ranks.size());
  for (auto const share : plan.shares) result.shares.push_back(static_cast<std::uint64_t>(share));
  std::map<int, std::size_t> index;
  for (std::size_t i = 0; i < plan.ranks.size(); ++i) index[plan.ranks[i]] = i;

  std::map<std::pair<int, int>, int> link;  // by node ids; parallel links are one
  for (auto const& l : machine.links) {
    if (!plan.links.empty() && to_text(l.kind) != plan.links) continue;
    std::pair const ends(machine.nodes[static_cast<std::size_t>(l.tail)].id,
                         machine.nodes[static_cast<std::size_t>(l.head)].id);
    auto const [entry, fresh] = link.emplace(ends, static_cast<int>(link.size()));
    if (fresh) {
      result.link_bytes_per_second.push_back(0);
      result.link_names.push_back(std::string(to_text(l.kind)) + " " + std::to_string(ends.first) +
                                  "-" + std::to_string(ends.second));
    }
    result.link_bytes_per_second[static_cast<std::size_t>(entry->second)] +=
        machine.in_units(l.capacity).to_double() * bytes_per_unit;
  }

  std::int64_t denominator = 1;
  for (auto const& t : trees) {
    denominator = detail::common_multiple(denominator, t.weight.denominator());
  }
  std::int64_t divisor = 0;
  for (auto const& t : trees) {
    divisor = std::gcd(divisor, (t.weight * denominator).numerator());
  }
  auto const rank_of = [&](int id) {
    auto const found = index.find(id);
    if (found == index.end()) {
      throw planning_error(
          "make_schedule: node " + std::to_string(id) +
          " of a tree is no rank of the plan, expected trees without switches that copy or reduce");
    }
    return found->second;
  };
  for (auto const& t : trees) {
    schedule_tree out;
    out.root = static_cast<int>(rank_of(t.root));
    // A barrier's tree carries no data and has the weight 0.
    out.weight = divisor == 0
                     ? 1
                     : static_cast<std::uint64_t>((t.weight * denominator).numerator() / divisor);
    for (int const member : t.members) {
      if (member != t.root) out.receivers.push_back(static_cast<int>(rank_of(member)));
    }
    auto const fill = [&](std::vector<tree_edge> const& phase, bool towards_root,
                          by_rank<int>& parent, by_rank<std::vector<int>>& route) {
      if (phase.empty()) return;
      parent.assign(plan.ranks.size(), -1);
      route.assign(plan.ranks.size(), {});
      for (auto const& e : phase) {
        auto const child = rank_of(towards_root ? e.from : e.to);
        parent.set(child, static_cast<int>(rank_of(towards_root ? e.to : e.from)));
        std::vector<int> links;
        for (std::size_t i = 0; i + 1 < e.path.size(); ++i) {
          auto const found = link.find({e.path[i], e.path[i + 1]});
          if (found == link.end()) {
            throw planning_error("make_schedule: no link " + std::to_string(e.path[i]) + " -> " +
                                 std::to_string(e.path[i + 1]) + " in the machine");
          }
          links.push_back(found->second);
        }
        route.set(child, std::move(links));
      }
    };
    fill(t.reduce, true, out.reduce_parent, out.reduce_route);
    fill(t.broadcast, false, out.broadcast_parent, out.broadcast_route);
    result.trees.push_back(std::move(out));
  }
  detail::add_what_stays(result, plan);
  return result;
}

/// The schedule with the rate of the machine's unit. Throws: as above; input_error for unit
/// "links".
[[nodiscard]] inline schedule make_schedule(topology const& machine, plan const& plan) {
  return make_schedule(machine, plan, bytes_per_second(machine.unit));
}

}}  // namespace blink::BLINK_ABI
