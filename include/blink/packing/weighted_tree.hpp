// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>
#include <blink/rational.hpp>

#include <vector>

namespace blink::inline BLINK_ABI {

/// One tree of a packing, and exactly how much of it is packed.
struct weighted_tree {
  rational weight;
  std::vector<int> edges;  ///< positions in `edges(graph)`, ascending
};

}  // namespace blink::inline BLINK_ABI
