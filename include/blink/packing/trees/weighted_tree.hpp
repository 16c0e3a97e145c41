// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>

#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// One tree of a packing, and exactly how much of it is packed.
struct weighted_tree {
  rational weight;
  std::vector<int> edges;  ///< positions in `edges(graph)`, ascending
};

}}  // namespace blink::BLINK_ABI
