// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/packing/trees/all_gather_rate.hpp>
#include <blink/packing/trees/spanning_tree_packing.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/planning/planners/plan_direct.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {
namespace detail {

/// True if all links have the same capacity in both directions.
[[nodiscard]] inline bool is_full_duplex(topology const& machine) {
  std::map<std::pair<int, int>, std::int64_t> difference;  // one direction minus the other
  for (auto const& l : machine.links) {
    difference[std::minmax(l.tail, l.head)] += l.tail < l.head ? l.capacity : -l.capacity;
  }
  return std::all_of(difference.begin(), difference.end(),
                     [](auto const& s) { return s.second == 0; });
}

/// A price of 1 / (2 (parts - 1)) for entering a part.
[[nodiscard]] inline price_certificate prices_of(topology const& machine,
                                                 std::vector<std::vector<bool>> const& parts) {
  std::map<std::pair<int, int>, std::int64_t> entered;  // parts, by link
  for (auto const& l : machine.links) {
    auto& count = entered[{l.tail, l.head}];
    count = std::count_if(parts.begin(), parts.end(), [&](std::vector<bool> const& part) {
      return !part[static_cast<std::size_t>(l.tail)] && part[static_cast<std::size_t>(l.head)];
    });
  }
  price_certificate result;
  auto const id = [&](int at) { return machine.nodes[static_cast<std::size_t>(at)].id; };
  for (auto const& [ends, count] : entered) {
    if (count == 0) continue;
    result.prices.push_back(
        {id(ends.first), id(ends.second), rational(count, 2 * (std::ssize(parts) - 1))});
  }
  return result;
}

}  // namespace detail

/// Plans all-reduce as reduce-scatter and all-gather at the same time, each with half of every
/// link, if that is optimal. It is optimal where the cuts that limit the all-gather partition the
/// ranks (`tight_partition`). This holds on servers of GPUs behind networks and on most machines
/// whose parts are alike. There it takes no longer than an all-gather.
///
/// Time:   see `plan_direct` for all-gather, and N maximum flows.
/// Post:   rate = bound, proven by prices: a part is entered for 1 / (2 (parts - 1)). Nothing if
///         some link differs by direction, or the two phases are not known to be optimal.
[[nodiscard]] inline std::optional<plan> plan_two_phases(topology const& machine,
                                                         plan_request const& request) {
  auto const ranks = machine.rank_positions();
  if (ranks.size() < 2 || !detail::is_full_duplex(machine)) return std::nullopt;
  auto const capacity = detail::capacities_of(machine);
  auto const optimum = all_gather_rate(machine, capacity, ranks);
  if (optimum.rate_per_root == rational(0)) return std::nullopt;
  auto const parts = tight_partition(machine, capacity, ranks, optimum.rate_per_root);
  if (!parts) return std::nullopt;
  auto all_gather = request;
  all_gather.collective = collective::all_gather;
  plan result = plan_direct(machine, all_gather);
  result.collective = collective::all_reduce;
  result.rate = result.bound = result.rate / 2;
  for (auto& t : result.trees) {
    t.weight = t.weight / 2;
    t.reduce.reserve(t.broadcast.size());
    for (auto e = t.broadcast.rbegin(); e != t.broadcast.rend(); ++e) {  // leaves first
      t.reduce.push_back({e->to, e->from, {e->path.rbegin(), e->path.rend()}});
    }
  }
  result.proof = detail::prices_of(machine, *parts);
  return result;
}

}}  // namespace blink::BLINK_ABI
