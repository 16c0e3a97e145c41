// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/detail/route.hpp>
#include <blink/planning/plan/detail/routed_rings.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/planning/planners/plan_ring.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {
namespace detail {

/// The ring over these ranks in order, each hop by its route; nothing if a hop has none.
[[nodiscard]] inline std::optional<routed_ring> ring_in_order(router route,
                                                              std::vector<int> const& ids,
                                                              bool through_ranks) {
  routed_ring result;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    auto edge = route.find(ids[i], ids[(i + 1) % ids.size()], through_ranks);
    if (!edge) return std::nullopt;
    route.take(*edge);
    result.edges.push_back(*std::move(edge));
  }
  for (auto const& edge : result.edges) {
    for (std::size_t i = 0; i + 1 < edge.path.size(); ++i) {
      int const a = edge.path[i];
      int const b = edge.path[i + 1];
      auto const room = route.capacity(a, b) / route.uses(a, b);
      if (result.rate == rational(0) || room < result.rate) result.rate = room;
    }
  }
  return result;
}

}  // namespace detail

/// Plans a collective over the one ring that ring libraries fall back to where NVLink rings do not
/// close: any order of the ranks, each hop by its shortest route, over PCIe switches and sockets
/// where there is no direct link. Other ranks forward only where nothing else leads on.
///
/// Starts in rank order and in the order that `plan_ring` would take, and turns parts of the ring
/// round while that makes it faster (2-opt, within a budget).
///
/// Source: G. Croes, "A method for solving traveling-salesman problems", Operations Research 6,
///         1958 (2-opt).
/// Time:   O(N L) a try for N ranks and L links, 3,000 / N tries.
/// Post:   `bound` is 0 and there is no certificate: `make_plan` adds the machine's own.
/// Throws: planning_error if the ranks are not connected.
[[nodiscard]] inline plan plan_pcie_ring(topology const& machine, plan_request const& request) {
  auto const empty = detail::empty_plan(machine, request);
  auto const n = empty.ranks.size();
  if (n == 1) return empty;
  detail::router const route(machine);
  std::vector<std::vector<int>> orders{empty.ranks, {}};
  for (auto const& edge : detail::ring_finder(machine).next().edges) {
    orders.back().push_back(edge.from);
  }
  bool const through_ranks = !detail::ring_in_order(route, empty.ranks, false).has_value();
  std::optional<detail::routed_ring> best;
  std::vector<int> order;
  for (auto& each : orders) {
    auto found = detail::ring_in_order(route, each, through_ranks);
    if (!found || (best && found->rate <= best->rate)) continue;
    best = std::move(found);
    order = std::move(each);
  }
  if (!best) throw planning_error("pcie_ring: the ranks are not connected");
  for (std::size_t tries = 3'000 / n, improved = 1; improved > 0 && tries > 0;) {
    improved = 0;
    for (std::size_t i = 1; i + 1 < n && tries > 0; ++i) {
      for (std::size_t j = i + 1; j < n && tries > 0; ++j, --tries) {
        auto other = order;
        std::reverse(other.begin() + static_cast<std::ptrdiff_t>(i),
                     other.begin() + static_cast<std::ptrdiff_t>(j) + 1);
        auto found = detail::ring_in_order(route, other, through_ranks);
        if (!found || found->rate <= best->rate) continue;
        best = std::move(found);
        order = std::move(other);
        ++improved;
      }
    }
  }
  return detail::plan_on_rings(machine, request, {*std::move(best)});
}

}}  // namespace blink::BLINK_ABI
