// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/max_flow.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Finds vertex sets that partition the ranks and have exactly the capacity into them that they
/// need. Every rank sends at `rate` to all other ranks.
///
/// If such sets exist, all-reduce cannot be faster than reduce-scatter followed by all-gather. An
/// in-tree and an out-tree each enter P sets at least P - 1 times. The capacities into the sets sum
/// to rate * N * (P - 1). Such sets exist on machines whose parts are equal (servers, tori), and
/// seldom on others.
///
/// rate:   of each root, from `all_gather_rate`
/// Source: the sets are minimum cuts; the bound is that of C. St. J. A. Nash-Williams,
///         "Edge-disjoint spanning trees of finite graphs", J. London Math. Soc. 36, 1961, for
///         directed links.
/// Time:   N maximum flows.
/// Pre:    as for `all_gather_rate`.
/// Post:   sets of vertices, each with a rank, every rank in one of them; nothing if the cuts
///         around single ranks do not form a partition.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] std::optional<std::vector<std::vector<bool>>> tight_partition(
    Graph const& graph, Capacities const& capacities, std::vector<int> const& ranks,
    rational const& rate) {
  arc_list const& arcs = to_arc_list(graph);
  auto const n = static_cast<std::size_t>(arcs.vertex_count);
  std::vector<std::int64_t> scaled;
  for (std::size_t e = 0; e < arcs.arcs.size(); ++e) {
    scaled.push_back(
        (rational(static_cast<std::int64_t>(capacities[e])) * rate.denominator()).numerator());
  }
  auto network = detail::to_flow_network(arcs, scaled, 1);
  int const super_source = arcs.vertex_count;
  for (int const rank : ranks) network.add(super_source, rank, rate.numerator());
  auto const wanted =
      (rational(rate.numerator()) * static_cast<std::int64_t>(ranks.size())).numerator();
  // The smallest set around each rank with no more capacity into it than it needs.
  std::vector<std::vector<bool>> sets;
  for (int const rank : ranks) {
    network.run(super_source, rank, wanted);
    sets.push_back(network.sink_side());
    sets.back().pop_back();  // removes the super source
  }
  auto const ranks_in = [&](std::vector<bool> const& set) {
    return std::count_if(ranks.begin(), ranks.end(),
                         [&](int r) { return set[static_cast<std::size_t>(r)]; });
  };
  std::vector<std::pair<std::ptrdiff_t, std::size_t>> order;
  for (std::size_t i = 0; i < sets.size(); ++i) order.emplace_back(-ranks_in(sets[i]), i);
  std::sort(order.begin(), order.end());
  if (-order.front().first == std::ssize(ranks)) return std::nullopt;  // not tight
  std::vector<bool> covered(n, false);
  std::vector<std::vector<bool>> result;
  for (auto const& [size, i] : order) {
    if (covered[static_cast<std::size_t>(ranks[i])]) continue;
    for (int const r : ranks) {
      auto const v = static_cast<std::size_t>(r);
      if (!sets[i][v]) continue;
      if (covered[v]) return std::nullopt;
      covered[v] = true;
    }
    result.push_back(std::move(sets[i]));
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
