// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/walk/counter.hpp>

#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// Four bytes of data and a flag that identifies their message, in one word that arrives as a
/// whole. So the receiver needs no further signal, and there is no barrier before or after it.
///
/// Source: the low-latency protocol of NCCL; Z. Hu et al., "Demystifying NCCL", 2025, section III.
using packet = counter;

/// Packets for small messages: their number and their flags.
namespace packets_of {

/// Messages after which a slot is filled as a whole, so that it holds no flag of the last cycle of
/// the 32-bit flags.
inline constexpr std::uint64_t messages_between_fills = std::uint64_t{1} << 30;

/// The most slots that a connection of packets may have. As many messages in a row are filled.
inline constexpr std::uint64_t most_window = 64;

/// True if this message fills its slot. The first is `messages_between_fills`, because until then
/// the contents of a slot are older than all flags, or 0.
[[nodiscard]] BLINK_HOST_DEVICE constexpr bool fills_slot(std::uint64_t message) {
  return message >= messages_between_fills && message % messages_between_fills < most_window;
}

[[nodiscard]] BLINK_HOST_DEVICE constexpr std::uint32_t flag(std::uint64_t message) {
  return static_cast<std::uint32_t>(message + 1);  // slots are 0 at first
}

/// Elements that are sent and received together: the smallest number whose sizes fill packets.
[[nodiscard]] BLINK_HOST_DEVICE constexpr std::size_t unit_elements(element_sizes const& sizes) {
  std::size_t const odd = sizes.value | sizes.connection;
  return odd % 4 == 0 ? 1 : (odd % 2 == 0 ? 2 : 4);
}

/// The largest chunk whose packets fit into a slot, in bytes of the larger of both sizes. 0: no
/// unit fits.
[[nodiscard]] BLINK_HOST_DEVICE constexpr std::size_t most_chunk_bytes(std::size_t slot_bytes,
                                                                       element_sizes const& sizes) {
  std::size_t const unit = unit_elements(sizes) * sizes.largest();
  return slot_bytes / sizeof(packet) * 4 / unit * unit;
}

/// The largest unit, in bytes. A thread holds one of each size in its registers.
inline constexpr std::size_t most_unit_bytes = 64;

/// True if packets carry elements and partial results of these sizes.
[[nodiscard]] BLINK_HOST_DEVICE constexpr bool carries(element_sizes const& sizes) {
  return unit_elements(sizes) * sizes.largest() <= most_unit_bytes;
}

}  // namespace packets_of

namespace detail {

/// Loads a packet. Its data and flag are complete, and nothing else is published with it.
///
/// One dependency remains. In place, when the result comes back, a block overwrites data that
/// another block of its rank has read and sent. A device keeps that order, because the data that
/// was sent depends on the read. C++ has no name for it except release and acquire, which hosts
/// use.
[[nodiscard]] BLINK_HOST_DEVICE inline packet load_packet(packet const& from) {
#if BLINK_DEVICE_PASS
  return counter_reference(const_cast<packet&>(from)).load(relaxed_order);
#else
  return observe(from);
#endif
}
BLINK_HOST_DEVICE inline void store_packet(packet& to, std::uint32_t data, std::uint32_t flag) {
  packet const word = std::uint64_t{flag} << 32 | data;
#if BLINK_DEVICE_PASS
  counter_reference(to).store(word, relaxed_order);
#else
  publish(to, word);
#endif
}

}  // namespace detail

}}  // namespace blink::BLINK_ABI
