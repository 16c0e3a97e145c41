// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/schedule/schedule.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The tree edge and direction of a connection.
struct connection_place {
  std::uint32_t tree = 0;
  bool is_reduce = false;  ///< towards the root
  int from = 0;
  int to = 0;
  bool sender_is_source = false;  ///< it sends only its own input
  bool sender_keeps = false;      ///< its output keeps the data that it sends
  bool receiver_keeps = false;    ///< its output keeps the data that it receives

  /// The rank below the edge: the connection leads from it to its parent, or back.
  [[nodiscard]] int child() const { return is_reduce ? from : to; }
  /// True if `other` is the opposite direction of the same tree edge.
  [[nodiscard]] bool reverses(connection_place const& other) const {
    return tree == other.tree && from == other.to && to == other.from;
  }
};

namespace detail {

template <class = when_used>
[[nodiscard]] bool keeps(schedule_tree const& tree, int rank) {
  if (tree.receivers.empty()) return true;
  for (int const receiver : tree.receivers) {
    if (receiver == rank) return true;
  }
  return false;
}

}  // namespace detail

/// All connections of a schedule, by number: ordered by tree, the reduce connections first, by rank
/// of the child.
///
/// Time: O(T V) for T trees of V ranks.
/// Pre:  `validate(schedule)` passed.
template <class = when_used>
[[nodiscard]] BLINK_COLD std::vector<connection_place> connection_places(schedule const& source) {
  std::vector<connection_place> result;
  std::vector<int> inner;
  for (std::size_t tree = 0; tree < source.trees.size(); ++tree) {
    auto const& from = source.trees[tree];
    inner.assign(from.reduce_parent.size(), 0);
    for (auto const& edge : from.reduce_parent.entries()) {
      inner[static_cast<std::size_t>(edge.value)] = 1;
    }
    for (bool const is_reduce : {true, false}) {
      auto const& parents = is_reduce ? from.reduce_parent : from.broadcast_parent;
      for (auto const& [child, parent] : parents.entries()) {
        connection_place place;
        place.tree = static_cast<std::uint32_t>(tree);
        place.is_reduce = is_reduce;
        place.from = parent;
        place.to = child;
        if (is_reduce) {
          std::swap(place.from, place.to);
          place.sender_is_source = inner[static_cast<std::size_t>(child)] == 0;
        } else {
          place.sender_is_source = parent == from.root;
          place.sender_keeps = detail::keeps(from, parent);
          place.receiver_keeps = detail::keeps(from, place.to);
        }
        result.push_back(place);
      }
    }
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
