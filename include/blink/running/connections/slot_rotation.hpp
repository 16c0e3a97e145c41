// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/schedule/connection_place.hpp>
#include <blink/schedule/schedule.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>

// Where messages lie in slots that cores share. A core that overwrites what another one has read lately waits for that
// one's cache; what both have dropped from their second-level caches since then is overwritten faster. So messages go round
// through all the memory of a wire's slots, however short they are, and there is enough of it.
//
// Measured on two cores of an AMD EPYC that share a third-level cache (`scripts/bench_peers --only processes`, before and
// with this): broadcast of 64 KiB 8.1 and 4.4 us, of 512 KiB 50 and 29; reduce 8.2 and 3.8, 30 and 20.

namespace blink { inline namespace BLINK_ABI {

/// Parts of slots begin where pairs of cache lines do, which cores fetch together.
inline constexpr std::size_t slot_line = 128;

/// Bytes of one of the 2^subdivisions parts of a slot: whole lines.
[[nodiscard]] constexpr std::size_t part_of_slot(std::size_t slot_bytes,
                                                 std::uint32_t slot_subdivision) {
  return (slot_bytes >> slot_subdivision) / slot_line * slot_line;
}

/// How often a slot can be halved so that a part of it still holds a message of so many bytes.
[[nodiscard]] constexpr std::uint8_t slot_subdivision_of(std::size_t slot_bytes,
                                                         std::size_t message_bytes) {
  auto const slot = std::bit_width(slot_bytes);  // at least 2^(slot - 1) bytes
  auto const message = std::bit_width((message_bytes < slot_line ? slot_line : message_bytes) - 1);
  return slot <= message ? std::uint8_t{0} : static_cast<std::uint8_t>(slot - 1 - message);
}

/// Has the messages of a task whose call fields are set take the parts of their slots in turn. Both ends of a connection come
/// to the same.
///
/// Time: O(connections of the task).
inline void take_slots_in_turn(tree_task& here, std::size_t slot_bytes,
                               element_sizes const& sizes) {
  std::size_t const chunk = here.chunk < here.count ? here.chunk : here.count;
  auto const slot_subdivision = slot_subdivision_of(slot_bytes, chunk * sizes.largest());
  for (std::uint32_t k = 0; k < here.in_count; ++k) here.in[k].slot_subdivision = slot_subdivision;
  for (std::uint32_t k = 0; k < here.out_count; ++k)
    here.out[k].slot_subdivision = slot_subdivision;
}

/// Slots for each connection of a schedule all of whose connections have them: so many that those from which a rank reads hold 2 MiB
/// together, but 2 at least, for one to be written while the other is read, and 8 at most.
///
/// Time: O(T V). Pre: slot_bytes >= 1.
template <class = when_used>
[[nodiscard]] std::uint32_t default_window(schedule const& source, std::size_t slot_bytes) {
  constexpr std::size_t wanted = std::size_t{1} << 21, least = 2, most = 8;
  std::size_t const connections = connection_places(source).size();
  if (connections == 0) return least;
  std::size_t const slots =
      ((wanted - 1) / slot_bytes + 1) * static_cast<std::size_t>(source.rank_count);
  std::size_t const window = (slots - 1) / connections + 1;
  return static_cast<std::uint32_t>(window < least ? least : window > most ? most : window);
}

}}  // namespace blink::BLINK_ABI
