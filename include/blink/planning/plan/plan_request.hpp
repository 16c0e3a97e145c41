// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/planning/plan/forest.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// What a plan is wanted for.
struct plan_request {
  blink::collective collective = collective::all_reduce;
  std::optional<int> root;        ///< node id, for broadcast, reduce, gather and scatter; nothing:
                                  ///< the best one
  std::string planner = "exact";  ///< see `planners`
  std::vector<int> destinations{};  ///< permute: node ids, see `plan::destinations`
  std::int64_t bytes = 0;         ///< of the buffer, for plans that depend on it (hybrid); 0: large
  double slow_start_seconds = 0;  ///< hybrid: how much later the slow kind of link starts
  bool cut_surplus = false;  ///< exact: where switches let more out than in and cannot be split,
                             ///< leave some capacity out and lose some rate, see
                             ///< `without_surplus`; if not: unbalanced_switch
};

}}  // namespace blink::BLINK_ABI
