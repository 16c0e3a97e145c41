// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/planning/check/detail/dead_ends.hpp>
#include <blink/planning/check/detail/view_index.hpp>
#include <blink/planning/plan/detail/member_view.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

#include <set>
#include <variant>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// States the cut of a plan's certificate on a whole machine, of which the plan was made for a
/// part.
///
/// A part has no switches at dead ends (`subset`, `only_links`). On the whole machine, a link from
/// a node of the cut to such a switch would count as leaving the cut. So switches that lead nowhere
/// join the cut, and switches that no rank reaches leave it. Switches with one neighbour are on the
/// side of that neighbour. `check_plan` accepts the plan with either cut.
///
/// Post:   the links out of the cut are the same, as far as they lead from rank to rank.
/// Throws: error if the plan's ranks are not ranks of the machine.
[[nodiscard]] inline plan complete_cut(topology const& machine, plan p) {
  auto* const cut = std::get_if<cut_certificate>(&p.proof);
  if (cut == nullptr) return p;
  detail::view_index const index(detail::member_view(machine, p));
  auto const ends = detail::find_dead_ends(index);
  if (ends.empty()) return p;
  std::set<int> side(cut->nodes.begin(), cut->nodes.end());
  for (auto end = ends.rbegin(); end != ends.rend(); ++end) {
    bool const joins = end->why == detail::dead_end::cause::leads_nowhere ||
                       (end->why == detail::dead_end::cause::one_neighbour &&
                        side.contains(index.id(end->neighbour)));
    if (joins) {
      side.insert(index.id(end->node));
    } else {
      side.erase(index.id(end->node));
    }
  }
  cut->nodes.assign(side.begin(), side.end());
  return p;
}

}}  // namespace blink::BLINK_ABI
