// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collective.hpp>
#include <blink/collectives/method_table.hpp>

#include <vector>

namespace blink::tools {

/// Ways to do a collective where every pair of ranks is joined equally well, as in one memory. The
/// first is a good one for large buffers.
///
/// root:         of a broadcast, reduce, gather or scatter
/// destinations: of a permute, by rank
/// Pre:    0 <= root < ranks.
/// Throws: input_error if a permute has not one destination for each rank.
[[nodiscard]] std::vector<method> memory_methods(collective kind, int ranks, int root,
                                                 std::vector<int> const& destinations);

}  // namespace blink::tools
