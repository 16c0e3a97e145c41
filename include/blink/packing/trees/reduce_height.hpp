// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/packing/trees/detail/arborescence_growth.hpp>
#include <blink/packing/trees/detail/reduce_tree_heights.hpp>
#include <blink/packing/trees/few_trees.hpp>
#include <blink/packing/trees/weighted_tree.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The effort of `reduce_height`.
struct height_reduction_options {
  int kicks = 100;         ///< random exchanges after the descent, each undone if it does not help
  std::uint64_t seed = 1;  ///< of the random exchanges
};

/// Lowers the trees of a packing by exchanging edges among them, because height causes latency.
/// Weights and rate stay the same.
///
/// Two trees exchange the edges by which they enter a vertex, or one tree enters a vertex over an
/// edge with room. This happens while deep vertices move up. Because it is a local search, trees
/// need not be as low as possible.
///
/// Time:   O((1 + kicks) rounds T^2 V^2) for T trees of V vertices; very few rounds are usual.
/// Pre:    `packing` holds distinct arborescences from `root` that respect the capacities, as
///         `few_trees` returns them; capacities are integers.
/// Post:   as many trees or fewer, because trees that become equal are merged; the same rate and
///         unit; the loads respect the capacities.
/// Throws: precondition_error if a precondition does not hold.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] few_trees_result reduce_height(Graph const& graph, int root,
                                             Capacities const& capacities, few_trees_result packing,
                                             height_reduction_options const& options = {}) {
  auto const& arcs = to_arc_list(graph);
  expects(0 <= root && root < arcs.vertex_count,
          "reduce_height: the root is not a vertex, expected one of the graph");
  expects(static_cast<std::size_t>(capacities.size()) == arcs.arcs.size(),
          "reduce_height: the capacities do not match the edges, expected one for each edge");
  if (packing.trees.empty()) return packing;
  std::vector<std::int64_t> room;  // by edge, in units
  for (std::size_t e = 0; e < arcs.arcs.size(); ++e) {
    rational const units = rational(capacities[e]) / packing.unit;
    room.push_back(units.numerator() / units.denominator());
  }
  std::vector<detail::growing_tree> trees;
  auto const n = static_cast<std::size_t>(arcs.vertex_count);
  for (auto const& packed : packing.trees) {
    auto& tree = trees.emplace_back();
    tree.root = root;
    tree.multiplicity = (packed.weight / packing.unit).numerator();
    tree.edges = packed.edges;
    tree.reached = n;
    tree.depth.assign(n, -1);
    tree.depth[static_cast<std::size_t>(root)] = 0;
    for (bool more = true; more;) {  // an edge gives its head a depth once its tail has one
      more = false;
      for (int const e : packed.edges) {
        auto const [tail, head] = arcs.arcs[static_cast<std::size_t>(e)];
        int& depth = tree.depth[static_cast<std::size_t>(head)];
        if (depth >= 0 || tree.depth[static_cast<std::size_t>(tail)] < 0) continue;
        depth = tree.depth[static_cast<std::size_t>(tail)] + 1;
        tree.height = std::max(tree.height, depth);
        more = true;
      }
    }
    expects(packed.edges.size() + 1 == n && std::ranges::count(tree.depth, -1) == 0,
            "reduce_height: a tree is not an arborescence, expected one from the root");
  }
  auto const lowest = detail::eccentricity(arcs, room, root);
  std::mt19937_64 random(options.seed);
  detail::height_reduction(arcs, room, trees).run(options.kicks, lowest, random);
  for (auto& tree : trees) std::ranges::sort(tree.edges);
  packing.trees.clear();
  for (auto& tree : trees) {
    auto const same = std::ranges::find(packing.trees, tree.edges, &weighted_tree::edges);
    rational const weight = packing.unit * tree.multiplicity;
    if (same == packing.trees.end()) {
      packing.trees.push_back({weight, std::move(tree.edges)});
    } else {
      same->weight += weight;
    }
  }
  std::ranges::sort(packing.trees, [](auto const& a, auto const& b) {
    return a.weight != b.weight ? b.weight < a.weight : a.edges < b.edges;
  });
  return packing;
}

}}  // namespace blink::BLINK_ABI
