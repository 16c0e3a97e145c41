// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/connections/connection.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/schedule/connection_place.hpp>
#include <blink/schedule/schedule.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>

// The places of messages in slots that cores share.
//
// A core that overwrites data which another core has just read waits for that core's cache. Data
// that both have dropped from their second-level caches since then is overwritten faster. So
// messages of any length rotate through all slots of a connection. `default_window` provides enough
// of them.

namespace blink { inline namespace BLINK_ABI {

/// Alignment of parts of slots: pairs of cache lines, which cores fetch together.
inline constexpr std::size_t slot_line = 128;

/// Bytes of one of the 2^subdivisions parts of a slot: whole lines.
[[nodiscard]] constexpr std::size_t part_of_slot(std::size_t slot_bytes,
                                                 std::uint32_t slot_subdivision) {
  return (slot_bytes >> slot_subdivision) / slot_line * slot_line;
}

/// The place of a message in the slots of a connection, whose messages use the 2^subdivision parts
/// of a slot in turn.
[[nodiscard]] inline std::byte* place_in_slots(shared_connection const& at, std::uint64_t message,
                                               std::uint32_t slot_subdivision) {
  std::uint64_t const turn = message / at.window & ((std::uint64_t{1} << slot_subdivision) - 1);
  return at.slots + message % at.window * at.slot_bytes +
         turn * part_of_slot(at.slot_bytes, slot_subdivision);
}

/// The number of times that a slot can be halved so that a part still holds a message of
/// `message_bytes`.
[[nodiscard]] constexpr std::uint8_t slot_subdivision_of(std::size_t slot_bytes,
                                                         std::size_t message_bytes) {
  auto const slot = std::bit_width(slot_bytes);  // at least 2^(slot - 1) bytes
  auto const message = std::bit_width((message_bytes < slot_line ? slot_line : message_bytes) - 1);
  return slot <= message ? std::uint8_t{0} : static_cast<std::uint8_t>(slot - 1 - message);
}

/// Lets the messages of a task, whose call fields are set, use the parts of their slots in turn.
/// Both ends of a connection get the same result.
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

/// Slots for each connection of a schedule all of whose connections have slots.
///
/// The slots that a rank reads from hold 2 MiB together. There are at least 2 for each connection,
/// so that one is written while the other is read, and at most 8.
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
