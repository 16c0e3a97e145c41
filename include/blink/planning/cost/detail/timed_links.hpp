// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// A machine in seconds and bytes, for the cost model and the simulation.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The connection of two nodes: all parallel links together.
struct timed_link {
  double bytes_per_second = 0;
  double latency_seconds = 0;  ///< the largest of the parallel links
};

using timed_links = std::map<std::pair<int, int>, timed_link>;  // by (from, to) node ids

/// The links of a machine in seconds and bytes.
///
/// kind:           only links of this kind; empty: all
/// bytes_per_unit: rate of one unit of capacity, bytes per second
/// Pre: bytes_per_unit > 0.
[[nodiscard]] inline timed_links links_in_seconds(topology const& machine, std::string_view kind,
                                                  double bytes_per_unit) {
  expects(bytes_per_unit > 0, "links_in_seconds: expected bytes_per_unit > 0");
  timed_links result;
  for (auto const& l : machine.links) {
    if (!kind.empty() && to_text(l.kind) != kind) continue;
    auto& joined = result[{machine.nodes[static_cast<std::size_t>(l.tail)].id,
                           machine.nodes[static_cast<std::size_t>(l.head)].id}];
    joined.bytes_per_second += machine.in_units(l.capacity).to_double() * bytes_per_unit;
    joined.latency_seconds = std::max(joined.latency_seconds, l.latency_seconds);
  }
  return result;
}

/// The link between two nodes.
/// Throws: planning_error if the machine has no link there.
[[nodiscard]] inline timed_link const& link_between(timed_links const& links, int from, int to) {
  auto const found = links.find({from, to});
  if (found == links.end()) {
    throw planning_error("no link " + std::to_string(from) + " -> " + std::to_string(to) +
                         " in the machine that the plan is to run on");
  }
  return found->second;
}

/// An edge of one phase of a tree, with its position in the tree and the height of the part below
/// it.
struct phase_edge {
  tree_edge const* edge = nullptr;
  int near = 0;    ///< the end nearer to the root
  int far = 0;     ///< the other end
  int depth = 0;   ///< edges between `near` and the root
  int height = 0;  ///< edges on the longest way from `far` away from the root
};

/// The edges of a phase, those nearest to the root first.
/// Throws: planning_error if they do not form a tree at `root`.
[[nodiscard]] inline std::vector<phase_edge> edges_from_root(std::vector<tree_edge> const& phase,
                                                             int root, bool towards_root) {
  std::multimap<int, tree_edge const*> below;
  for (auto const& e : phase) below.emplace(towards_root ? e.to : e.from, &e);
  std::vector<phase_edge> result;
  std::vector<std::pair<int, int>> open{{root, 0}};  // node, depth
  for (std::size_t next = 0; next < open.size() && result.size() <= phase.size(); ++next) {
    auto const [near, depth] = open[next];
    auto const [first, last] = below.equal_range(near);
    for (auto at = first; at != last; ++at) {
      int const far = towards_root ? at->second->from : at->second->to;
      result.push_back({at->second, near, far, depth, 0});
      open.emplace_back(far, depth + 1);
    }
  }
  if (result.size() != phase.size()) {
    throw planning_error("a tree at " + std::to_string(root) +
                         " has edges that are not connected to it");
  }
  std::map<int, int> height;
  for (auto e = result.rbegin(); e != result.rend(); ++e) {
    e->height = height[e->far];
    height[e->near] = std::max(height[e->near], e->height + 1);
  }
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
