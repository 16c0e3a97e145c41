// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/interop/step_program.hpp>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// A collective as the operations of each thread block: the form of MSCCL++'s execution plans.
// Unlike in a step program, no rank receives. The sender puts data into the receiver's memory and
// signals, and the receiver waits. Or the receiver reads the sender's memory.

namespace blink { inline namespace BLINK_ABI {

/// The path by which a rank reaches other ranks.
enum class mscclpp_channel_type : std::uint8_t {
  memory,    ///< by its own threads' loads and stores: inside a server
  port,      ///< by a thread of the host, which asks a NIC: between servers
  multimem,  ///< through a switch that copies and reduces: all ranks of a group at once
};

/// The names of paths in MSCCL++'s files.
[[nodiscard]] constexpr std::string_view to_text(mscclpp_channel_type type) {
  constexpr std::string_view names[] = {"memory", "port", "switch"};
  return names[static_cast<std::size_t>(type)];
}

/// One end of a pair of counters. A rank's k-th channel to a peer belongs to that peer's k-th
/// channel of the same type to the rank.
struct mscclpp_channel {
  mscclpp_channel_type type = mscclpp_channel_type::memory;
  int id = 0;  ///< position among the rank's peers of this type
  friend auto operator<=>(mscclpp_channel const&, mscclpp_channel const&) = default;
};

/// The first of some consecutive chunks of a rank's buffer.
struct mscclpp_place {
  int rank = -1;  ///< -1: the rank itself
  step_buffer buffer = step_buffer::input;
  int chunk = 0;
  int group = -1;  ///< of the rank, all of whose members are meant; -1: none
  friend auto operator<=>(mscclpp_place const&, mscclpp_place const&) = default;
};

/// The operations of a thread block.
///
/// Packets hold data and the number of the call (LL protocol) and need twice the memory. A read of
/// packets waits until they have arrived.
enum class mscclpp_kind : std::uint8_t {
  sync,                     ///< the block's threads wait for each other
  wait,                     ///< for one more signal on each channel
  signal,                   ///< once on each channel
  put,                      ///< each source to its destination, at a peer
  copy,                     ///< the same, inside the rank
  reduce,                   ///< the sum of the sources to the destination
  acquire,                  ///< waits until each semaphore is positive, takes one off
  release,                  ///< adds one to each semaphore
  barrier,                  ///< some blocks of the rank wait for each other
  relaxed_wait,             ///< as wait, without a promise about the peer's stores
  relaxed_signal,           ///< as signal, without a promise about earlier stores
  flush,                    ///< waits until what was put over the port channels has arrived
  put_signal,               ///< over ports: put, then signal
  put_signal_flush,         ///< over ports: put, signal, flush
  get,                      ///< each source, at a peer, to its destination
  reduce_put,               ///< reduce, with more destinations at peers
  read_reduce,              ///< reduce, with all sources but the first at peers
  read_reduce_put,          ///< read_reduce, with more destinations at peers
  put_packets,              ///< put, arriving as packets; over ports, sources are packets
  forward_packets,          ///< packets to packets at peers
  pack,                     ///< copy, to packets
  unpack,                   ///< copy, from packets
  reduce_packets,           ///< reduce, with all sources but the first packets
  reduce_packets_put,       ///< the same, with more destinations: packets at peers
  reduce_packets_pack,      ///< reduce_packets, with a second destination: packets
  reduce_packets_pack_put,  ///< the same, with more destinations: packets at peers
  group_reduce,             ///< the sum over a group's ranks to all ranks of a group
  group_store,              ///< the source to all ranks of a group
  group_store_packets,      ///< packets to packets at all ranks of a group
};

/// The names of operations in MSCCL++'s files.
inline constexpr std::array<std::string_view, 29> mscclpp_names{
    "nop",     "wait",    "signal",    "put",    "copy",     "re",   "sem_acquire", "sem_release",
    "barrier", "rlxwait", "rlxsignal", "flush",  "pws",      "pwsf", "get",         "res",
    "rre",     "rres",    "ppkt",      "rppkt",  "cpkt",     "upkt", "repkt",       "respkt",
    "recpkt",  "recspkt", "glres",     "gstore", "gstorepkt"};

/// The name of an operation in MSCCL++'s files.
[[nodiscard]] constexpr std::string_view to_text(mscclpp_kind kind) {
  return mscclpp_names[static_cast<std::size_t>(kind)];
}

/// True if the operation adds up.
[[nodiscard]] constexpr bool adds_up(mscclpp_kind kind) {
  return kind == mscclpp_kind::reduce ||
         (kind >= mscclpp_kind::reduce_put && kind <= mscclpp_kind::read_reduce_put) ||
         (kind >= mscclpp_kind::reduce_packets && kind <= mscclpp_kind::group_reduce);
}

/// One operation of a thread block.
struct mscclpp_operation {
  mscclpp_kind kind = mscclpp_kind::sync;
  std::vector<mscclpp_channel> channels = {};  ///< of one path; a put's: one for each destination
  std::vector<mscclpp_place> sources = {};
  std::vector<mscclpp_place> destinations = {};
  int count = 0;                     ///< chunks at each place
  std::vector<int> counts = {};      ///< the same, by pair of places where they differ
  std::vector<int> semaphores = {};  ///< of the rank
  int slice = 0;                     ///< the part of each place that this block does
  int slices = 1;                    ///< the number of parts, one for each of some blocks
  int barrier = -1;                  ///< number of a barrier of the rank
  int barrier_blocks = 0;            ///< that meet there
  friend bool operator==(mscclpp_operation const&, mscclpp_operation const&) = default;
};

/// Consecutive operations, run once or in a loop over units of the chunks.
struct mscclpp_segment {
  int loop_chunks = 0;  ///< 0: once
  std::vector<mscclpp_operation> operations = {};
  int unit_bytes = 0;  ///< of one iteration; 0: the program's
  friend bool operator==(mscclpp_segment const&, mscclpp_segment const&) = default;
};

/// The segments that one thread block runs, one after the other.
struct mscclpp_block {
  std::vector<mscclpp_segment> segments;
  friend bool operator==(mscclpp_block const&, mscclpp_block const&) = default;
};

/// Ranks whose buffers a switch reads and writes together.
struct mscclpp_group {
  step_buffer buffer = step_buffer::input;
  std::vector<int> ranks;
  int chunks = 0;  ///< of the buffer
  friend bool operator==(mscclpp_group const&, mscclpp_group const&) = default;
};

/// The thread blocks of one rank, with its buffers, peers and semaphores.
struct mscclpp_rank {
  int input_chunks = 0;
  int output_chunks = 0;
  int scratch_chunks = 0;
  std::vector<int> memory_peers;  ///< by id of the channel
  std::vector<int> port_peers;    ///< the same
  int semaphores = 0;             ///< that blocks of this rank share
  std::vector<mscclpp_block> blocks;
  std::vector<mscclpp_group> groups = {};
  std::vector<int> semaphore_values = {};  ///< at the start; empty: all 0
  friend bool operator==(mscclpp_rank const&, mscclpp_rank const&) = default;
};

/// An execution plan. Buffers and chunks are those of a `step_program`.
struct mscclpp_program {
  std::string name;
  /// nothing: another one, whose meaning is not known
  std::optional<blink::collective> collective = collective::all_reduce;
  bool in_place = true;
  int unit_bytes = 1 << 18;  ///< of one iteration of a loop
  std::vector<mscclpp_rank> ranks;
  std::string collective_name = {};  ///< the name in the file if the meaning is not known
  bool has_packets = false;          ///< protocol LL: scratch chunks have room for packets
  bool doubles_scratch = false;      ///< calls use two halves of scratch memory in turn
  /// scratch memory has a fixed size, used again and again by chunks that are too large for it
  bool shares_scratch = false;
  int alignment = 16;  ///< of chunks, in bytes
  int threads = 1024;  ///< of a block
  std::uint64_t least_bytes = 0;
  std::uint64_t most_bytes = std::numeric_limits<std::uint64_t>::max();
  friend bool operator==(mscclpp_program const&, mscclpp_program const&) = default;
};

/// The limits of MSCCL++'s executor.
struct mscclpp_limits {
  int blocks = 108;            ///< of a rank: one for each multiprocessor of an A100
  int operations = 64;         ///< of a block, a loop counting as one more
  int loop_operations = 16;    ///< of a loop
  int channels = 16;           ///< of a block
  int operation_channels = 8;  ///< of an operation; also places it reads or writes
  int semaphores = 16;         ///< of a rank
};

}}  // namespace blink::BLINK_ABI
