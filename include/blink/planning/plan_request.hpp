// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>
#include <blink/planning/forest.hpp>

#include <optional>
#include <string>
#include <vector>

namespace blink::inline BLINK_ABI {

/// What a plan is wanted for.
struct plan_request {
  blink::collective collective = collective::all_reduce;
  std::optional<int> root;        ///< node id, for broadcast, reduce, gather and scatter; nothing:
                                  ///< the best one
  std::string planner = "exact";  ///< see `planners`
  std::vector<int> destinations{};  ///< permute: node ids, see `plan::destinations`
};

}  // namespace blink::inline BLINK_ABI
