// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/graph/concepts.hpp>

#include <compare>
#include <cstdint>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The problem of packing pairs of an in-tree and an out-tree. Trees span the ranks. Data moves
/// over an edge of an in-tree towards the root.
struct joint_problem {
  arc_list graph;
  std::vector<int> resource;           ///< by edge: the resource whose capacity it uses
  std::vector<std::int64_t> capacity;  ///< by resource, positive
  std::vector<int> roots;              ///< distinct ranks
  std::vector<bool> is_switch;         ///< by vertex; trees pass through switches
  std::vector<int> reducing;           ///< switches that in-trees may span
  std::vector<int> copying;            ///< switches that out-trees may span
  /// True if both directions of a link are one resource. Then an in-tree uses as much of it as the
  /// same tree as an out-tree. So only out-trees are packed, and each pair is a tree and its
  /// reverse.
  bool is_symmetric = false;
};

/// Trees of one direction that span the ranks and `switches`, and pass through other switches.
struct tree_layer {
  bool inward = false;
  std::vector<int> switches;  ///< ascending
  friend auto operator<=>(tree_layer const&, tree_layer const&) = default;
  friend bool operator==(tree_layer const&, tree_layer const&) = default;  // nvcc warns without
};

}}}  // namespace blink::BLINK_ABI::detail
