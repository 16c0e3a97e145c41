// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/graph/detail/flow_network.hpp>
#include <blink/packing/joint/detail/joint_problem.hpp>
#include <blink/packing/lp/detail/exact_solve.hpp>
#include <blink/packing/trees/arborescence_packing.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

// Integer loads of the edges, and a check that they hold the promised trees.

namespace blink { inline namespace BLINK_ABI { namespace detail {

constexpr wide_integer largest_number = wide_integer{1} << 61;

/// The loads that the trees of one layer fill, in units of 1 / `joint_optimum::denominator`.
struct layer_loads {
  tree_layer layer;
  std::vector<std::int64_t> load;    ///< by edge
  std::vector<root_demand> demands;  ///< wanted trees by root
};

/// True if the loads of a layer hold the wanted trees.
[[nodiscard]] inline bool holds_trees(joint_problem const& problem, layer_loads const& loads) {
  int const vertices = problem.graph.vertex_count;
  std::vector<std::int64_t> egress_excess(problem.is_switch.size(), 0);
  flow_network network(vertices + 1);  // arcs from the super source to the roots included
  for (std::size_t e = 0; e < loads.load.size(); ++e) {
    auto [tail, head] = problem.graph.arcs[e];
    if (loads.layer.inward) std::swap(tail, head);
    if (loads.load[e] == 0) continue;
    egress_excess[static_cast<std::size_t>(head)] += loads.load[e];
    egress_excess[static_cast<std::size_t>(tail)] -= loads.load[e];
    network.add(tail, head, loads.load[e]);
  }
  std::int64_t rooted = 0;
  for (auto const& d : loads.demands) {
    network.add(vertices, d.root, d.multiplicity);
    rooted += d.multiplicity;
  }
  for (int v = 0; v < vertices; ++v) {
    bool const spanned = !problem.is_switch[static_cast<std::size_t>(v)] ||
                         std::ranges::binary_search(loads.layer.switches, v);
    if (spanned ? rooted > 0 && network.run(vertices, v, rooted) < rooted
                : egress_excess[static_cast<std::size_t>(v)] < 0) {
      return false;
    }
  }
  return true;
}

}}}  // namespace blink::BLINK_ABI::detail
