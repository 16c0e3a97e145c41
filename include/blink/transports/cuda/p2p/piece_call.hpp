// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/connections/connection.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/thread_group.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/running/walk/tree_walk.hpp>
#include <blink/transports/cuda/kernels/block_wait.hpp>
#include <blink/transports/cuda/kernels/call_watch.hpp>
#include <blink/transports/cuda/runtime/peer_memory.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

/// The part of a connection between two ranks that both ends see, besides its slots; all 0 at
/// first.
struct pair_head {
  connection_counters counters;
  alignas(128) counter is_refused = 0;  ///< written by the receiver if the sizes of a piece differ
  std::uint64_t sent = 0;               ///< if refused: bytes of the piece that was sent
  std::uint64_t expected = 0;           ///< if refused: bytes of the piece that was expected
};

/// One part of a piece, which goes along one connection.
struct piece_part {
  std::byte* data = nullptr;  ///< in the buffer that it is read from or written to
  std::uint64_t bytes = 0;
  std::uint64_t whole = 0;  ///< bytes of the piece
  std::uint32_t end = 0;    ///< the end of the connection, by number on its device
  /// the next part on the same connection; 0: none, because part 0 is always a first one
  std::uint32_t next = 0;
};

/// Returns the bytes of a message of a part: whole slots for long parts, a quarter of the part for
/// short ones, so that messages overlap. Both ends compute the same.
[[nodiscard]] BLINK_HOST_DEVICE constexpr std::uint64_t message_bytes(std::uint64_t part_bytes,
                                                                      std::uint64_t slot_bytes) {
  constexpr std::uint64_t least = 1 << 14, line = 128;
  std::uint64_t const quarter = (part_bytes / 4 + line) / line * line;
  std::uint64_t const wanted = quarter < least ? least : quarter;
  return wanted < slot_bytes ? wanted : slot_bytes;
}

/// One end of a connection between two ranks of different processes, in memory of that rank's
/// device. It holds the numbers of messages, which increase from call to call.
struct alignas(128) pair_end {
  shared_connection connection{};
  endpoint end{};
  tree_task work{};  ///< the present part
  pair_head* head = nullptr;
  bool judges = false;  ///< true if it is the first of its pair; each piece has a message on it

  std::byte* data = nullptr;
  std::uint64_t whole = 0;
  std::uint32_t next = 0;
  bool is_open = false;        ///< true if a part is not done
  std::uint64_t done = 0;      ///< number of parts
  status result = status::ok;  ///< status at the end of the last call
};
static_assert(std::is_trivially_copyable_v<pair_end>);

/// The sends and receives of one batch on one device, in the form that its blocks receive. It is
/// passed by value, so that each replay of a CUDA graph does the same.
struct piece_call {
  static constexpr std::uint32_t most_parts = 96;  // below the 4 KiB limit of arguments

  piece_part parts[most_parts] = {};  ///< the first part of each connection, then those that follow
  /// all parts, in memory of the device, if they do not fit
  piece_part const* more_parts = nullptr;
  pair_end* ends = nullptr;  ///< of the device
  call_watch watch{};
  std::size_t slot_bytes = 0;
  std::uint32_t connections = 0;  ///< number of connections with a part
  std::uint32_t connections_per_block = 1;

  /// The part with this number, from the argument or from memory of the device.
  [[nodiscard]] BLINK_HOST_DEVICE piece_part const& part(std::uint32_t number) const {
    return more_parts == nullptr ? parts[number] : more_parts[number];
  }
  /// The work of block number `block`; see `run_pieces`.
  template <thread_group Group>
  BLINK_HOST_DEVICE void operator()(Group const group, std::uint32_t block) const;
};
static_assert(std::is_trivially_copyable_v<piece_call> && sizeof(piece_call) <= 4096);

namespace detail {

[[nodiscard]] BLINK_HOST_DEVICE inline sized_peer_transport link_of(pair_end& here,
                                                                    piece_call const& call) {
  sized_peer_transport transport{};
  transport.connections = &here.connection;
  transport.abort = call.watch.abort;
  transport.bytes_of_slot = call.slot_bytes;
  transport.own_rank = here.end.sends ? here.connection.sender : here.connection.receiver;
  transport.whole = here.whole;
  return transport;
}

/// Opens a part. A piece without bytes also has one message, which takes its turn and compares the
/// sizes.
BLINK_HOST_DEVICE inline void open_part(pair_end& here, piece_call const& call,
                                        piece_part const& part) {
  here.data = part.data;
  here.whole = part.whole;
  here.next = part.next;
  here.is_open = true;
  here.result = status::ok;
  here.work.count = part.bytes;
  here.work.chunk = message_bytes(part.bytes, call.slot_bytes);
  here.work.stride = here.work.chunk;
  here.work.chunks = part.bytes == 0 ? 1 : (part.bytes + here.work.chunk - 1) / here.work.chunk;
  open_task(lone_thread{}, link_of(here, call), here.work, 1);
}
/// Opens the next part if the present one is done. Returns true if it was.
BLINK_HOST_DEVICE inline bool advance(pair_end& here, piece_call const& call) {
  if (!here.is_open || !here.work.is_finished) return false;
  close_task(lone_thread{}, here.work);
  ++here.done;
  here.is_open = false;
  if (here.next != 0) open_part(here, call, call.part(here.next));
  return true;
}

/// True if a piece of another size than expected has arrived. In that case both sizes are reported.
BLINK_HOST_DEVICE inline bool refuses(pair_end& here, piece_call const& call) {
  if (!here.judges || here.end.sends || !here.is_open || here.work.done == here.work.chunks) {
    return false;
  }
  auto const transport = link_of(here, call);
  std::uint64_t const message = here.end.first + here.work.done;
  slot_peer_transport const& connection = transport;
  if (!connection.has_arrived(0, message) || transport.announced(0, message) == here.whole)
    return false;
  here.head->sent = transport.announced(0, message);
  here.head->expected = here.whole;
  publish(here.head->is_refused, 1);
  return true;
}

}  // namespace detail

/// The work of one block for sends and receives. It serves its connections in turns, part after
/// part, and never waits for a single connection. All pieces of a batch therefore progress at once,
/// in any order.
///
/// Pre: all blocks of the call on this device run at once.
template <thread_group Group>
BLINK_HOST_DEVICE void run_pieces(Group const group, piece_call const& call, std::uint32_t block) {
  std::uint32_t const first = block * call.connections_per_block;
  std::uint32_t const rest = call.connections - first;
  std::uint32_t const count = rest < call.connections_per_block ? rest : call.connections_per_block;
  auto const end_of = [&](std::uint32_t k) -> pair_end& {
    return call.ends[call.part(first + k).end];
  };
  bool const leads = group.thread_rank() == 0;
  if (!call.watch.lets_begin(group)) return;
  for (std::uint32_t k = 0; leads && k < count; ++k) {
    detail::open_part(end_of(k), call, call.part(first + k));
  }
  group.sync();
  block_wait wait = call.watch.wait_policy();
  status result = status::ok;
  for (;;) {
    bool goes_on = false;  // known to the leader, like all that follows from it
    bool is_open = false;
    for (std::uint32_t k = 0; k < count; ++k) {
      pair_end& here = end_of(k);
      auto* const data = reinterpret_cast<unsigned char*>(here.data);
      call_buffers<unsigned char> const buffers{data, data};
      auto const round = walk_round(group, detail::link_of(here, call), &here.work, 1, buffers,
                                    detail::no_reducer{}, wait);
      if (!leads) continue;
      goes_on = detail::advance(here, call) || round.moved || goes_on;
      is_open = is_open || here.is_open;
      if (!round.moved && detail::refuses(here, call)) result = status::aborted;
    }
    if (leads && is_open && result == status::ok) {
      result = goes_on ? wait.on_progress() : wait.on_idle();
    }
    if (!group.from_leader(is_open && result == status::ok)) break;
  }
  if (!leads || result == status::ok) return;
  for (std::uint32_t k = 0; k < count; ++k) {
    if (end_of(k).is_open) end_of(k).result = result;
  }
  call.watch.give_up();
}

template <thread_group Group>
BLINK_HOST_DEVICE void piece_call::operator()(Group const group, std::uint32_t block) const {
  run_pieces(group, *this, block);
}

}}  // namespace blink::BLINK_ABI
