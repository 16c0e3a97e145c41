// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Plans a collective for N ranks behind one non-blocking switch with equal ports of rate b, in
/// closed form. The switch forwards, it does not copy or reduce.
///
/// broadcast:  N-1 two-hop trees (root, one other rank, all the rest): rate b.
/// all_gather: a one-hop star for each rank's share: rate N b / (N-1).
/// all_reduce: the same stars, both ways: rate N b / (2 (N-1)).
///
/// One star alone would give a broadcast b / (N-1) only, and a chain of N-1 hops the full rate at
/// N-1 times the latency.
///
/// Source: one-hop trees of an all-reduce: Wang et al., "Blink: Fast and Generic Collectives for
///         Distributed ML", MLSys 2020. The certificate proves the optimality of all.
/// Time:   O(N^2) tree edges.
/// Pre:    neither a reduce nor a reduce_scatter, which `make_plan` plans on the reversed machine.
/// Post:   rate = bound; proven by a cut, for all-reduce by prices.
/// Throws: precondition_error for a reduce or reduce_scatter; planning_error if the machine is no
///         such switch.
[[nodiscard]] inline plan plan_switch(topology const& machine, plan_request const& request) {
  detail::expect_forward(request);
  auto const star = detail::to_star(machine);
  if (!star) {
    throw planning_error("machine '" + machine.name +
                         "' is not one switch with equal ports, which this planner needs");
  }
  plan result = detail::empty_plan(machine, request);
  auto const& ids = star->ids;
  auto const n = static_cast<std::int64_t>(ids.size());
  if (n == 1) return result;
  auto const hop = [&](int from, int to) { return tree_edge{from, to, {from, star->center, to}}; };

  if (has_one_root(request.collective)) {
    int const root = request.root.value_or(ids.front());
    for (int const first : ids) {
      if (first == root) continue;
      tree t{root, star->port / (n - 1), {}, {hop(root, first)}};
      for (int const rest : ids) {
        if (rest != root && rest != first) t.broadcast.push_back(hop(first, rest));
      }
      result.trees.push_back(std::move(t));
    }
    result.rate = star->port;
    result.proof = cut_certificate{{root}};
  } else {
    bool const both_ways = has_both_phases(request.collective);
    auto const weight = star->port / ((both_ways ? 2 : 1) * (n - 1));
    for (int const root : ids) {
      tree t{root, weight, {}, {}};
      for (int const other : ids) {
        if (other == root) continue;
        t.broadcast.push_back(hop(root, other));
        if (both_ways) t.reduce.push_back(hop(other, root));
      }
      result.trees.push_back(std::move(t));
    }
    result.rate = weight * n;
    if (both_ways) {
      // A pair of trees crosses 4 (N-1) ports, however it is shaped.
      price_certificate prices;
      for (int const id : ids) {
        for (auto const& [from, to] : {std::pair(id, star->center), std::pair(star->center, id)}) {
          prices.prices.push_back({from, to, rational(1, 4 * (n - 1))});
        }
      }
      result.proof = std::move(prices);
    } else {
      cut_certificate all_but_one{{star->center}};
      all_but_one.nodes.insert(all_but_one.nodes.end(), ids.begin(), ids.end() - 1);
      result.proof = std::move(all_but_one);
    }
  }
  result.bound = result.rate;
  return result;
}

}}  // namespace blink::BLINK_ABI
