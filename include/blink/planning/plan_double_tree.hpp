// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/planning/detail/rank_graph.hpp>
#include <blink/planning/detail/route.hpp>
#include <blink/planning/forest.hpp>
#include <blink/planning/plan_request.hpp>
#include <blink/planning/planner.hpp>
#include <blink/rational.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace blink::inline BLINK_ABI {
namespace detail {

/// Parents in the in-order binary tree over 1 … count (0 at its root): i hangs below the number
/// that shares all but its lowest set bit and has the next bit set, if there is one so large.
[[nodiscard]] inline std::vector<std::size_t> in_order_parents(std::size_t count) {
  std::vector<std::size_t> parent(count + 1, 0);
  for (std::size_t i = 1; i <= count; ++i) {
    std::size_t const bit = i & (~i + 1);
    std::size_t const above = (i ^ bit) | (bit << 1U);
    parent[i] = above <= count ? above : i ^ bit;
  }
  return parent;
}

/// The same tree over other names, so that inner nodes and leaves change places: mirrored for an
/// even count, shifted by one for an odd one.
[[nodiscard]] inline std::size_t second_name(std::size_t i, std::size_t count) {
  return count % 2 == 0 ? count + 1 - i : i % count + 1;
}

}  // namespace detail

/// Plans all-reduce, broadcast or reduce over two complementary binary trees in rank order, half of
/// the data each: logarithmic latency at full rate on a switch. A baseline: it does not look at the
/// links. A tree edge between ranks that share no link takes a route of fewest hops, and loads its
/// links.
///
/// Source: Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and
///         scan", Parallel Computing 35, 2009.
/// Time:   O(N L) for N ranks and L links.
/// Post:   `bound` is 0 and there is no certificate: `make_plan` adds the machine's own.
/// Throws: planning_error for other collectives, and if some ranks are not connected.
[[nodiscard]] inline plan plan_double_tree(topology const& machine, plan_request const& request) {
  require_planned("double_tree", free_root_collectives, request);
  plan result = detail::empty_plan(machine, request.collective, "double_tree");
  if (result.ranks.size() == 1) return result;
  bool const both_ways = request.collective == collective::all_reduce;
  // All-reduce: the trees span all ranks. Otherwise they span the rest, and the root feeds both.
  std::vector<int> members = result.ranks;
  int const root = request.root.value_or(members.front());
  if (!both_ways) members.erase(std::find(members.begin(), members.end(), root));

  detail::router const route(machine);
  auto const parent = detail::in_order_parents(members.size());
  for (bool const second : {false, true}) {
    tree t{root, rational(0), {}, {}};
    for (std::size_t i = 1; i <= members.size(); ++i) {
      auto const member = [&](std::size_t k) {
        return members[(second ? detail::second_name(k, members.size()) : k) - 1];
      };
      if (parent[i] == 0 && both_ways) {
        t.root = member(i);
        continue;
      }
      int const below = member(i);
      int const above = parent[i] == 0 ? root : member(parent[i]);
      if (has_reduce_phase(request.collective)) t.reduce.push_back(route(below, above));
      if (has_broadcast_phase(request.collective)) t.broadcast.push_back(route(above, below));
    }
    result.trees.push_back(std::move(t));
  }

  // Both trees get the weight at which the first link is full.
  std::map<std::pair<int, int>, std::int64_t> uses;
  for (auto const& t : result.trees) {
    for (auto const* phase : {&t.reduce, &t.broadcast}) {
      for (auto const& e : *phase) {
        for (std::size_t i = 0; i + 1 < e.path.size(); ++i) ++uses[{e.path[i], e.path[i + 1]}];
      }
    }
  }
  auto const capacity = route.capacities();
  rational weight = capacity.at(uses.begin()->first) / uses.begin()->second;
  for (auto const& [ends, count] : uses) weight = std::min(weight, capacity.at(ends) / count);
  for (auto& t : result.trees) t.weight = weight;
  result.rate = weight * static_cast<std::int64_t>(result.trees.size());
  return result;
}

}  // namespace blink::inline BLINK_ABI
