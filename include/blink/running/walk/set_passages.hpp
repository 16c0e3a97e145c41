// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/walk/lane.hpp>

#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// How data passes a wire. Both ends come to the same answer.
///
/// reaches:  are peers' buffers read and written directly?
/// leads_up: is the wire of the phase towards the root?
/// reduces:  does the call have that phase, so that roots send results and not their inputs?
[[nodiscard]] BLINK_HOST_DEVICE constexpr passage passage_of(wire_end const& end, bool reaches,
                                                             bool leads_up, bool reduces) {
  if (!reaches) return passage::slots;
  if (leads_up) return end.sender_is_source ? passage::pull_input : passage::slots;
  if (!end.sender_is_source) return end.sender_keeps ? passage::pull_output : passage::slots;
  if (!reduces) return passage::pull_input;
  return end.receiver_keeps ? passage::push : passage::slots;
}

BLINK_HOST_DEVICE constexpr void set_passage(wire_end& end, bool reaches, bool leads_up,
                                             bool reduces, element_sizes const& sizes) {
  end.way = passage_of(end, reaches, leads_up, reduces);
  // Leaves hand on elements as they are, unless what reducers send is smaller, or nobody else lifts them.
  bool const is_element = end.sender_is_source && sizes.value <= sizes.wire && !sizes.lifts_at_home;
  end.is_partial = leads_up && end.way == passage::slots && !is_element;
}

}  // namespace detail

/// Sets how data passes the wires of a lane in a call, and as what.
///
/// sizes: of elements, and of partial results on wires (`sizes_of`)
/// Time:  O(wires of the lane).
BLINK_HOST_DEVICE inline void set_passages(lane& here, bool reaches, bool reduces,
                                           element_sizes const& sizes) {
  for (std::uint32_t k = 0; k < here.in_count; ++k) {
    detail::set_passage(here.in[k], reaches, here.is_reduce, reduces, sizes);
  }
  for (std::uint32_t k = 0; k < here.out_count; ++k) {
    detail::set_passage(here.out[k], reaches, here.is_reduce && !here.is_root, reduces, sizes);
  }
}

}}  // namespace blink::BLINK_ABI
