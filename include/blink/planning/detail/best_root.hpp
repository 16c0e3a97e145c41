// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/graph/rooted_connectivity.hpp>
#include <blink/planning/detail/rank_graph.hpp>
#include <blink/planning/plan_request.hpp>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace blink::inline BLINK_ABI::detail {

/// A root of a broadcast, its rate in capacity steps, and the cut that bounds it.
struct root_choice {
  int root = 0;  ///< vertex
  std::int64_t rate = 0;
  std::vector<bool> source_side;
};

/// The root of the request, or the one with the highest rate (the first of equals).
/// Throws: planning_error if the root does not reach everyone.
[[nodiscard]] inline root_choice best_root(rank_graph const& ranks, plan_request const& request) {
  std::vector<int> everyone(ranks.ids.size());
  std::iota(everyone.begin(), everyone.end(), 0);
  auto const seen_from = [&](int root) {
    auto cut = rooted_connectivity(ranks.graph, ranks.capacity, root, everyone);
    return root_choice{root, cut.value, std::move(cut.source_side)};
  };
  auto best = seen_from(request.root ? ranks.vertex_of(*request.root) : 0);
  for (int other = 1; !request.root && other < ranks.graph.vertex_count; ++other) {
    if (auto candidate = seen_from(other); candidate.rate > best.rate) best = std::move(candidate);
  }
  if (best.rate == 0) {
    throw planning_error("no way leads from rank " +
                         std::to_string(ranks.ids[static_cast<std::size_t>(best.root)]) +
                         " to every other rank");
  }
  return best;
}

}  // namespace blink::inline BLINK_ABI::detail
