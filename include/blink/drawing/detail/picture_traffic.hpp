// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// One tree on one pair of joined nodes.
struct strand {
  std::size_t tree = 0;
  bool is_forth = false;      ///< data goes from the lower to the higher position
  bool is_back = false;       ///< data goes from the higher to the lower position
  bool only_reduces = false;  ///< drawn dashed
};

/// Two joined nodes: all links between them, of both directions.
struct joined_pair {
  rational capacity_forth, capacity_back;  ///< in units; forth: from the lower position on
  rational load_forth, load_back;
  link_kind kind = link_kind::unknown;  ///< of one of its links
  std::vector<strand> strands;
};

/// The drawn part of a machine, with the loads of a plan.
struct picture_traffic {
  topology drawn;                                      ///< the part of the machine that is drawn
  std::map<std::pair<int, int>, joined_pair> between;  ///< by positions in `drawn`, lower first
};

/// The machine without the links that the plan was not made on. Switches that no tree visits go as
/// well, unless `with_unused_switches`.
[[nodiscard]] inline topology drawn_part(topology const& machine, plan const& what,
                                         bool with_unused_switches) {
  std::set<int> used;
  for (auto const& t : what.trees) {
    for (auto const* phase : {&t.reduce, &t.broadcast}) {
      for (auto const& edge : *phase) used.insert(edge.path.begin(), edge.path.end());
    }
  }
  topology drawn = machine;
  drawn.nodes.clear();
  drawn.links.clear();
  std::vector<int> position(machine.nodes.size(), -1);
  for (std::size_t i = 0; i < machine.nodes.size(); ++i) {
    auto const& here = machine.nodes[i];
    bool const is_drawn = here.kind == node_kind::rank || with_unused_switches ||
                          what.trees.empty() || used.contains(here.id);
    if (!is_drawn) continue;
    position[i] = static_cast<int>(drawn.nodes.size());
    drawn.nodes.push_back(here);
  }
  for (auto link : machine.links) {
    link.tail = position[static_cast<std::size_t>(link.tail)];
    link.head = position[static_cast<std::size_t>(link.head)];
    if (link.tail < 0 || link.head < 0) continue;
    if (!what.links.empty() && what.links != to_text(link.kind)) continue;
    drawn.links.push_back(link);
  }
  return drawn;
}

/// The trees on each pair of joined nodes, with their loads.
///
/// Throws: precondition_error if a path visits a node that the machine lacks.
[[nodiscard]] inline picture_traffic traffic_of(topology const& machine, plan const& what,
                                                bool with_unused_switches) {
  picture_traffic result{drawn_part(machine, what, with_unused_switches), {}};
  for (auto const& link : result.drawn.links) {
    auto& here = result.between[std::minmax(link.tail, link.head)];
    auto const capacity = result.drawn.in_units(link.capacity);
    here.kind = link.kind;
    (link.tail < link.head ? here.capacity_forth : here.capacity_back) += capacity;
  }
  for (std::size_t i = 0; i < what.trees.size(); ++i) {
    auto const& t = what.trees[i];
    for (auto const* phase : {&t.reduce, &t.broadcast}) {
      bool const is_reduce = phase == &t.reduce;
      for (auto const& edge : *phase) {
        for (std::size_t hop = 0; hop + 1 < edge.path.size(); ++hop) {
          int const tail = result.drawn.position_of(edge.path[hop]);
          int const head = result.drawn.position_of(edge.path[hop + 1]);
          expects(tail >= 0 && head >= 0, "draw_svg: the plan names a node that the machine lacks");
          bool const is_forth = tail < head;
          auto& here = result.between[std::minmax(tail, head)];
          (is_forth ? here.load_forth : here.load_back) += t.weight;
          auto mine = std::find_if(here.strands.begin(), here.strands.end(),
                                   [&](strand const& other) { return other.tree == i; });
          if (mine == here.strands.end()) {
            mine = here.strands.insert(mine, {i, false, false, true});
          }
          (is_forth ? mine->is_forth : mine->is_back) = true;
          mine->only_reduces = mine->only_reduces && is_reduce;
        }
      }
    }
  }
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
