// SPDX-License-Identifier: Apache-2.0
// The signature of a planner by pattern. See scripts/check_pages.
#include <blink/planning/planners/rank_patterns.hpp>

#include <type_traits>
#include <vector>

namespace shown {
using blink::plan_request;
using blink::topology;
using blink::detail::pattern_trees;
#include BLOCK
static_assert(std::is_same_v<decltype(binomial_trees), decltype(blink::detail::binomial_trees)>);
}  // namespace shown
