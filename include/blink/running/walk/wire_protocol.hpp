// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/walk/lane.hpp>
#include <blink/running/walk/packet_walk.hpp>
#include <blink/running/walk/status.hpp>
#include <blink/running/walk/thread_group.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/running/walk/tree_walk.hpp>

#include <cstdint>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

/// Wires carry chunks, which counters announce: for all sizes. Where peers reach each other's
/// buffers most wires carry nothing but the announcements.
struct whole_chunks {
  template <class Group, class Link, class Wait, class T, class Reducer>
  BLINK_HOST_DEVICE static status walk_lanes(Group const group, Link const link, lane* lanes,
                                             std::uint32_t lane_count,
                                             call_buffers<T> const& buffers, Reducer const& reduce,
                                             Wait& wait) {
    return walk(group, link, lanes, lane_count, buffers, reduce, wait);
  }
};

/// Wires carry packets: for messages of up to some kilobytes (`walk_packets`). A wire does so over
/// its whole life, so a schedule that runs both ways has two sets of tables.
///
/// Pre: several lanes of one group are in the same order on all ranks, and what each has to send fits
///      into its window: they are walked one after the other.
struct small_packets {
  template <class Group, class Link, class Wait, class T, class Reducer>
  BLINK_HOST_DEVICE static status walk_lanes(Group const group, Link const link, lane* lanes,
                                             std::uint32_t lane_count,
                                             call_buffers<T> const& buffers, Reducer const& reduce,
                                             Wait& wait) {
    status result = status::ok;
    for (std::uint32_t k = 0; k < lane_count && result == status::ok; ++k) {
      result = walk_packets(group, link, lanes[k], buffers, reduce, wait);
    }
    return result;
  }
};

/// How wires carry data: an empty type, because it selects a kernel.
template <class P>
concept wire_protocol = std::is_same_v<P, whole_chunks> || std::is_same_v<P, small_packets>;

}}  // namespace blink::BLINK_ABI
