// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/rotations.hpp>
#include <blink/packing/lp/simplex.hpp>
#include <blink/packing/trees/detail/rotation_oracle.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A tree out of the first rank, which stands for its images: one at every rank.
struct rotated_tree {
  rational weight;                      ///< of each image, in the unit of the capacities
  std::vector<std::vector<int>> paths;  ///< from parent to child, each after the one above it
};

/// Packs out-trees that look alike from every rank, as many at each, at the highest rate; relays
/// forward.
///
/// Under all symmetries, a tree loads every link of an orbit alike. So the rows of the program are
/// the few orbits of links, and a tree from one rank stands for one from each: thousands of ranks
/// take no longer than a dozen. No optimum is lost: the average of an optimal packing over all
/// symmetries is one of this kind. Trees of the least height are tried first.
///
/// ranks, turns: as for and from `find_rotations`.
/// wanted: the rate of a root that is known to be possible, from `equal_root_rate`.
/// Source: symmetry in linear programs: R. Bödi, K. Herr, M. Joswig, "Algorithms for highly symmetric
///         linear and integer programs", Math. Programming 137, 2013. The pricing: cheapest trees on a
///         graph that looks alike from every vertex, by growing over the cheapest edge (Prim 1957).
/// Time:   O(N^2 + E log V) for each call of the oracle; a few dozen calls.
/// Post:   the weights sum to `wanted`; with all images the loads are within the capacities.
///         Nothing if the program did not end at that rate.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] std::optional<std::vector<rotated_tree>> pack_rotated_trees(
    Graph const& graph, Capacities const& capacities, std::vector<int> const& ranks,
    rotations const& turns, rational const& wanted) {
  detail::link_orbits const orbits(to_arc_list(graph), capacities, turns);
  auto const n = static_cast<std::int64_t>(ranks.size());
  for (bool const lowest : {true, false}) {
    detail::rotation_oracle oracle(orbits, ranks, turns, lowest);
    auto const solution = simplex(orbits.capacity, oracle, {});
    if (solution.stopped_because != simplex_stop::optimal || solution.rate != wanted * n) continue;
    std::vector<rotated_tree> result;
    for (auto const& column : solution.columns) {
      result.push_back({column.weight / n, oracle.tree_of(column.rows)});
    }
    return result;
  }
  return std::nullopt;
}

}}  // namespace blink::BLINK_ABI
