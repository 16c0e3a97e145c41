// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/interop/step_program.hpp>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// A collective as the operations of each thread block: the form of MSCCL++'s execution plans.
// Unlike in a step program, no rank receives. The sender puts data into the receiver's memory and
// signals, and the receiver waits.

namespace blink { inline namespace BLINK_ABI {

/// The path by which a rank reaches another rank.
enum class mscclpp_channel_type : std::uint8_t {
  memory,  ///< by its own threads' stores: inside a server
  port,    ///< by a thread of the host, which asks a NIC: between servers
};

/// The names of paths in MSCCL++'s files.
[[nodiscard]] constexpr std::string_view to_text(mscclpp_channel_type type) {
  return type == mscclpp_channel_type::memory ? "memory" : "port";
}

/// One end of a pair of counters. A rank's k-th channel to a peer belongs to that peer's k-th
/// channel to the rank.
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
  friend auto operator<=>(mscclpp_place const&, mscclpp_place const&) = default;
};

/// The operations of a thread block.
enum class mscclpp_kind : std::uint8_t {
  sync,     ///< the block's threads wait for each other
  wait,     ///< for one more signal on each channel
  signal,   ///< once on each channel
  put,      ///< each source to its destination, at a peer
  copy,     ///< the same, inside the rank
  reduce,   ///< the sum of the sources to the destination
  acquire,  ///< waits until each semaphore is positive, takes one off
  release,  ///< adds one to each semaphore
};

/// The names of operations in MSCCL++'s files.
[[nodiscard]] constexpr std::string_view to_text(mscclpp_kind kind) {
  constexpr std::string_view names[] = {"nop",  "wait", "signal",      "put",
                                        "copy", "re",   "sem_acquire", "sem_release"};
  return names[static_cast<std::size_t>(kind)];
}

/// One operation of a thread block.
struct mscclpp_operation {
  mscclpp_kind kind = mscclpp_kind::sync;
  std::vector<mscclpp_channel> channels = {};  ///< of one path; a put's: one for each destination
  std::vector<mscclpp_place> sources = {};
  std::vector<mscclpp_place> destinations = {};
  int count = 0;                     ///< chunks at each place
  std::vector<int> semaphores = {};  ///< of the rank
};

/// Consecutive operations, run once or in a loop over units of the chunks.
struct mscclpp_segment {
  int loop_chunks = 0;  ///< 0: once
  std::vector<mscclpp_operation> operations = {};
};

/// The segments that one thread block runs, one after the other.
struct mscclpp_block {
  std::vector<mscclpp_segment> segments;
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
};

/// An execution plan. Buffers and chunks are those of a `step_program`.
struct mscclpp_program {
  std::string name;
  blink::collective collective = collective::all_reduce;
  bool in_place = true;
  int unit_bytes = 1 << 18;  ///< of one iteration of a loop
  std::vector<mscclpp_rank> ranks;
};

}}  // namespace blink::BLINK_ABI
