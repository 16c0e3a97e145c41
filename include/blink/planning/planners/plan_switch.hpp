// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/topology/topology.hpp>

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

namespace detail {

/// The plan of `plan_switch`, or nothing where it throws a planning_error.
///
/// Pre: neither a reduce nor a reduce_scatter.
[[nodiscard]] inline std::optional<plan> plan_star(topology const& machine,
                                                   plan_request const& request) {
  auto const star = to_star(machine);
  if (!star) return std::nullopt;
  plan result = empty_plan(machine, request);
  auto const& ids = star->ids;
  auto const& ports = star->ports;
  auto const n = static_cast<std::int64_t>(ids.size());
  if (n == 1) return result;
  auto const hop = [&](int from, int to) { return tree_edge{from, to, {from, star->center, to}}; };
  auto const narrowest = std::min_element(ports.begin(), ports.end());
  int const narrow_id = ids[static_cast<std::size_t>(narrowest - ports.begin())];
  // No more can enter the narrowest rank.
  auto const all_but_narrowest = [&] {
    cut_certificate cut{{star->center}};
    std::ranges::copy_if(ids, std::back_inserter(cut.nodes),
                         [&](int id) { return id != narrow_id; });
    return cut;
  };

  if (has_one_root(request.collective)) {
    int const root = request.root.value_or(ids.front());
    for (int const first : ids) {
      if (first == root) continue;
      tree t{root, *narrowest / (n - 1), {}, {hop(root, first)}};
      for (int const rest : ids) {
        if (rest != root && rest != first) t.broadcast.push_back(hop(first, rest));
      }
      result.trees.push_back(std::move(t));
    }
    result.rate = *narrowest;
    result.proof = root == narrow_id ? cut_certificate{{root}} : all_but_narrowest();
  } else if (has_both_phases(request.collective)) {
    // A pair of trees crosses 4 (N-1) ports, however it is shaped. A root sends and receives N - 2
    // times more than a leaf, for which each rank has what its port leaves.
    auto const all = std::accumulate(ports.begin(), ports.end(), rational(0));
    result.rate = all / (2 * (n - 1));
    if (*narrowest < result.rate || (n == 2 && ports[0] != ports[1])) return std::nullopt;
    for (std::size_t k = 0; k < ids.size(); ++k) {
      auto const weight = n == 2 ? ports[k] / 2 : (ports[k] - result.rate) / (n - 2);
      if (weight == rational(0)) continue;
      tree t{ids[k], weight, {}, {}};
      for (int const other : ids) {
        if (other == ids[k]) continue;
        t.broadcast.push_back(hop(ids[k], other));
        t.reduce.push_back(hop(other, ids[k]));
      }
      result.trees.push_back(std::move(t));
    }
    price_certificate prices;
    for (int const id : ids) {
      for (auto const& [from, to] : {std::pair(id, star->center), std::pair(star->center, id)}) {
        prices.prices.push_back({from, to, rational(1, 4 * (n - 1))});
      }
    }
    result.proof = std::move(prices);
  } else {
    auto const weight = *narrowest / (n - 1);
    for (int const root : ids) {
      tree t{root, weight, {}, {}};
      for (int const other : ids) {
        if (other != root) t.broadcast.push_back(hop(root, other));
      }
      result.trees.push_back(std::move(t));
    }
    result.rate = weight * n;
    result.proof = all_but_narrowest();
  }
  result.bound = result.rate;
  return result;
}

}  // namespace detail

/// Plans a collective for N ranks behind one non-blocking switch in closed form. Ports may differ,
/// as after the loss of some links; b is the narrowest one. The switch neither copies nor reduces.
///
/// broadcast:  N-1 two-hop trees (root, one other rank, all the rest): rate b.
/// all_gather: a one-hop star for each rank's share: rate N b / (N-1).
/// all_reduce: the same stars, both ways, with weights by ports: the sum of the ports / (2 (N-1)).
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
///         such switch, or a port is narrower than the rate of an all-reduce.
[[nodiscard]] inline plan plan_switch(topology const& machine, plan_request const& request) {
  detail::expect_forward(request);
  if (auto result = detail::plan_star(machine, request)) return std::move(*result);
  throw planning_error("machine '" + machine.name +
                       "' is not one switch with a port for each rank that is equal in both "
                       "directions, and for all_reduce wide enough, which this planner needs");
}

}}  // namespace blink::BLINK_ABI
