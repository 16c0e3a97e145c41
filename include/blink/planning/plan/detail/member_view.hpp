// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A fault of a plan that a checker found.
struct plan_fault : error {
  using error::error;
};

/// The first fault that `check()` throws, in words. An overflow is thrown on, as it says nothing
/// about the plan.
template <class Check>
[[nodiscard]] std::optional<std::string> first_fault(Check&& check) {
  try {
    check();
    return std::nullopt;
  } catch (overflow_error const&) {
    throw;
  } catch (error const& fault) {
    return fault.what();
  }
}

/// The part of a machine that a plan may use, by node ids.
///
/// The nodes are the plan's ranks, all switches, and the ranks that only forward. The links are
/// those between these nodes that the plan does not forbid. If the plan names a kind of link, only
/// links of that kind count. Parallel links are added up.
struct plan_view {
  std::set<int> ranks;
  std::set<int> nodes;                               ///< ranks and switches
  std::set<int> copying, reducing;                   ///< switches
  std::map<std::pair<int, int>, rational> capacity;  ///< by (from, to), in the machine's unit
};

[[nodiscard]] inline plan_view member_view(topology const& machine, plan const& plan) {
  plan_view view;
  if (plan.unit != machine.unit) {
    throw plan_fault("the plan counts in '" + plan.unit + "', the machine in '" + machine.unit +
                     "'");
  }
  if (plan.ranks.empty()) throw plan_fault("the plan has no ranks");
  for (int const id : plan.ranks) {
    int const at = machine.position_of(id);
    if (at < 0 || machine.nodes[static_cast<std::size_t>(at)].kind != node_kind::rank) {
      throw plan_fault("rank " + std::to_string(id) + " is not a rank of the machine");
    }
    if (!view.ranks.insert(id).second) {
      throw plan_fault("rank " + std::to_string(id) + " is named twice");
    }
  }
  view.nodes = view.ranks;
  for (auto const& n : machine.nodes) {
    if (n.kind != node_kind::switch_node) continue;
    view.nodes.insert(n.id);
    if (n.copies) view.copying.insert(n.id);
    if (n.reduces) view.reducing.insert(n.id);
  }
  for (int const id : plan.forwarding_ranks) {
    if (machine.position_of(id) < 0) {
      throw plan_fault("forwarding rank " + std::to_string(id) + " is not a node of the machine");
    }
    if (view.ranks.contains(id)) {
      throw plan_fault("forwarding rank " + std::to_string(id) + " is also a rank of the plan");
    }
    view.nodes.insert(id);
  }
  std::set<std::pair<int, int>> const forbidden(plan.forbidden_links.begin(),
                                                plan.forbidden_links.end());
  for (auto const& l : machine.links) {
    int const from = machine.nodes[static_cast<std::size_t>(l.tail)].id;
    int const to = machine.nodes[static_cast<std::size_t>(l.head)].id;
    bool const right_kind = plan.links.empty() || to_text(l.kind) == plan.links;
    if (right_kind && view.nodes.contains(from) && view.nodes.contains(to) &&
        !forbidden.contains({from, to})) {
      view.capacity[{from, to}] += machine.in_units(l.capacity);
    }
  }
  return view;
}

}}}  // namespace blink::BLINK_ABI::detail
