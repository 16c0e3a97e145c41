// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/walk/packet.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/schedule/proportional_split.hpp>

#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// A tree's share of a segment, among the trees that carry parts of it.
struct tree_share {
  std::uint64_t before = 0;  ///< sum of the weights of earlier trees
  std::uint64_t weight = 0;
  std::uint64_t total = 0;
  std::uint64_t heaviest = 0;  ///< largest weight among them, at least 1
};

/// The room of a slot of a connection.
struct slot_room {
  std::size_t slot_bytes = 0;
  bool has_packets = false;

  /// Bytes of data in a slot.
  [[nodiscard]] BLINK_HOST_DEVICE constexpr std::size_t bytes(element_sizes const& sizes) const {
    return has_packets ? packets_of::most_chunk_bytes(slot_bytes, sizes) : slot_bytes;
  }
};

/// Assigns a task its tree's part of a segment of `count` elements. Returns the begin of the part.
///
/// Pre: that of `part_begin`.
BLINK_HOST_DEVICE constexpr std::size_t take_part(tree_task& here, tree_share const& share,
                                                  std::size_t count, element_sizes const& sizes) {
  std::size_t const begin = part_begin(count, sizes.value, share.before, share.total);
  here.count = part_begin(count, sizes.value, share.before + share.weight, share.total) - begin;
  return begin;
}

/// Cuts the part of a task into chunks of `asked` elements, or of as many as a slot holds.
BLINK_HOST_DEVICE constexpr void cut_part(tree_task& here, slot_room const& room,
                                          element_sizes const& sizes, std::size_t asked) {
  std::size_t const most = room.bytes(sizes) / sizes.largest();
  // Packets are passed on one by one, so smaller chunks gain nothing.
  std::size_t const wanted = room.has_packets || most < asked ? most : asked;
  here.chunk = wanted < 1 ? 1 : wanted;
  here.stride = here.chunk;
}

/// Assigns a task its tree's share of each period of `count` elements, each as a chunk. Returns the
/// begin of the first.
///
/// Pre: that of `period_of` and `part_begin`.
BLINK_HOST_DEVICE constexpr std::size_t take_periods(tree_task& here, tree_share const& share,
                                                     slot_room const& room, std::size_t count,
                                                     element_sizes const& sizes) {
  constexpr std::size_t share_bytes = 1 << 15;  // of the heaviest tree
  std::size_t const bytes = room.bytes(sizes) < share_bytes ? room.bytes(sizes) : share_bytes;
  std::size_t const most = bytes / sizes.largest();
  auto const period = period_of(most < 1 ? 1 : most, sizes.value, share.heaviest, share.total);
  auto const part = part_of_periods(count, period, share.before, share.weight, share.total);
  here.count = part.count;
  here.chunk = part.share < 1 ? 1 : part.share;
  here.stride = period.elements;
  return part.begin;
}

}}  // namespace blink::BLINK_ABI
