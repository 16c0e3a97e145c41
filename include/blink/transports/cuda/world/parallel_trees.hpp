// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/schedule/schedule.hpp>

namespace blink { inline namespace BLINK_ABI {

/// The same trees, each `ways` times with an equal part of its share: as many more lanes, so that more
/// blocks move the data. One block does not fill a link between GPUs, or the memory of one.
///
/// Pre:  ways >= 1; the weights sum to less than 2^63.
/// Post: every link carries what it carried; shares differ from those before by rounding to lines.
[[nodiscard]] inline schedule parallel_trees(schedule const& plan, int ways) {
  expects(ways >= 1, "parallel_trees: ways >= 1");
  schedule result = plan;
  result.trees.clear();
  for (auto const& tree : plan.trees) {
    for (int way = 0; way < ways; ++way) result.trees.push_back(tree);
  }
  validate(result);  // as many times the weights may be too much
  return result;
}

}}  // namespace blink::BLINK_ABI
