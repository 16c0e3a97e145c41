// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/plan.hpp>

#include <cstddef>
#include <optional>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A group of ranks of a machine, and the collective that it performs.
struct group_request {
  blink::collective collective = collective::all_reduce;
  std::vector<int> ranks;     ///< node ids; their order is that of the blocks
  std::optional<int> root{};  ///< node id, of a collective with a root; nothing: the first rank
};

/// Groups that are limited together, and the proof.
///
/// By the prices, none negative, a unit of the rates of all groups costs 1 together. Let c be the
/// cost of a unit of the rate of one group. Then bound = (sum of price * capacity - sum of c * rate
/// of the groups of earlier levels) / (sum of c of all other groups).
struct groups_level {
  std::vector<std::size_t> groups;  ///< positions of those that are limited here
  rational rate;                    ///< the least of these groups and of those of later levels
  rational
      bound;  ///< where the groups of earlier levels keep their rates, no plan gives all others
              ///< more
  price_certificate proof;
};

/// Plans for several groups of ranks that run at the same time.
struct groups_plan {
  std::vector<plan> plans;                 ///< by group, without bounds of their own
  std::vector<groups_level> levels;        ///< by rising rate
  std::vector<int> forwarding_ranks = {};  ///< node ids of the machine's ranks in no group
};

}}  // namespace blink::BLINK_ABI
