// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/interop/mscclpp_kind.hpp>
#include <blink/interop/step_program.hpp>

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
  friend bool operator==(mscclpp_channel const&, mscclpp_channel const&) = default;
};

/// The first of some consecutive chunks of a rank's buffer.
struct mscclpp_place {
  int rank = -1;  ///< -1: the rank itself
  step_buffer buffer = step_buffer::input;
  int chunk = 0;
  int group = -1;  ///< of the rank, all of whose members are meant; -1: none
  friend auto operator<=>(mscclpp_place const&, mscclpp_place const&) = default;
  friend bool operator==(mscclpp_place const&, mscclpp_place const&) = default;
};

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

/// The number of a block's operations, a loop counting as one more.
[[nodiscard]] inline int operation_count(mscclpp_block const& block) {
  std::size_t count = 0;
  for (auto const& s : block.segments) count += s.operations.size() + (s.loop_chunks > 0 ? 1 : 0);
  return static_cast<int>(count);
}

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
  std::vector<int> semaphore_values = {};  ///< at the start; 0 for those that are absent

  /// The peers by id of the channel. Pre: the type is memory or port.
  [[nodiscard]] std::vector<int> const& peers(mscclpp_channel_type type) const {
    return type == mscclpp_channel_type::port ? port_peers : memory_peers;
  }
  [[nodiscard]] std::vector<int>& peers(mscclpp_channel_type type) {
    return type == mscclpp_channel_type::port ? port_peers : memory_peers;
  }
  [[nodiscard]] std::size_t channel_count(mscclpp_channel_type type) const {
    return type == mscclpp_channel_type::multimem ? groups.size() : peers(type).size();
  }
  /// A semaphore's value at the start.
  [[nodiscard]] int semaphore_value(int semaphore) const {
    auto const at = static_cast<std::size_t>(semaphore);
    return at < semaphore_values.size() ? semaphore_values[at] : 0;
  }
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

  /// The bytes of one iteration of a loop.
  [[nodiscard]] int unit_of(mscclpp_segment const& loop) const {
    return loop.unit_bytes > 0 ? loop.unit_bytes : unit_bytes;
  }
  friend bool operator==(mscclpp_program const&, mscclpp_program const&) = default;
};

/// The name of a collective in MSCCL++'s files: blink's name without "_".
[[nodiscard]] inline std::string mscclpp_name(collective kind) {
  std::string name(to_text(kind));
  std::erase(name, '_');
  return name;
}

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
