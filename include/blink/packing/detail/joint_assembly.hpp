// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>
#include <blink/packing/arborescence_packing.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace blink::inline BLINK_ABI::detail {

/// An in-tree and an out-tree with the same root.
struct tree_pair {
  int root = 0;
  std::int64_t multiplicity = 0;
  std::vector<int> in_edges;   ///< leaves first
  std::vector<int> out_edges;  ///< root first
};

/// Pairs trees by root, the heavy with the heavy.
///
/// in, out: the same multiplicities by root; in-trees as arborescences of the graph turned round.
[[nodiscard]] inline std::vector<tree_pair> paired_trees(std::vector<packed_arborescence> in,
                                                         std::vector<packed_arborescence> out) {
  auto const order = [](packed_arborescence const& a, packed_arborescence const& b) {
    return a.root != b.root ? a.root < b.root : a.multiplicity > b.multiplicity;
  };
  std::sort(in.begin(), in.end(), order);
  std::sort(out.begin(), out.end(), order);
  std::vector<tree_pair> result;
  for (std::size_t i = 0, o = 0; i < in.size() && o < out.size();) {
    auto const count = std::min(in[i].multiplicity, out[o].multiplicity);
    result.push_back({in[i].root, count, in[i].edges, out[o].edges});
    std::reverse(result.back().in_edges.begin(), result.back().in_edges.end());
    in[i].multiplicity -= count;
    out[o].multiplicity -= count;
    if (in[i].multiplicity == 0) ++i;
    if (out[o].multiplicity == 0) ++o;
  }
  return result;
}

}  // namespace blink::inline BLINK_ABI::detail
