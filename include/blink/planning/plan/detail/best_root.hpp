// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/rooted_connectivity.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A root of a broadcast, its rate in capacity steps of the machine, and the cut that bounds it.
struct root_choice {
  int root = 0;  ///< position of the node
  std::int64_t rate = 0;
  std::vector<bool> source_side;  ///< by position of the nodes
};

/// The root of the request, or the one with the highest rate (the first of equals).
/// Throws: planning_error if the root does not reach everyone.
[[nodiscard]] inline root_choice best_root(topology const& machine, plan_request const& request) {
  auto const everyone = machine.rank_positions();
  std::vector<std::int64_t> capacity;
  for (auto const& l : machine.links) capacity.push_back(l.capacity);
  auto const plain = to_arc_list(machine);
  auto const seen_from = [&](int root) {
    auto cut = rooted_connectivity(plain, capacity, root, everyone);
    return root_choice{root, cut.value, std::move(cut.source_side)};
  };
  auto best = seen_from(request.root ? machine.position_of(*request.root) : everyone.front());
  for (std::size_t i = 1; !request.root && i < everyone.size(); ++i) {
    if (auto other = seen_from(everyone[i]); other.rate > best.rate) best = std::move(other);
  }
  if (best.rate == 0) {
    throw planning_error("no way leads from rank " +
                         std::to_string(machine.nodes[static_cast<std::size_t>(best.root)].id) +
                         " to every other rank");
  }
  return best;
}

}}}  // namespace blink::BLINK_ABI::detail
