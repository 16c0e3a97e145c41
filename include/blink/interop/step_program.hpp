// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// A collective as the steps of each thread block of each rank: the form of MSCCL's algorithm files.
// A plan gives each tree its share; a step program gives each block its chunks in order.

namespace blink { inline namespace BLINK_ABI {

/// The three buffers of a rank.
enum class step_buffer : std::uint8_t { input, output, scratch };

/// The name of a buffer.
[[nodiscard]] constexpr std::string_view to_text(step_buffer buffer) {
  constexpr std::string_view names[] = {"input", "output", "scratch"};
  return names[static_cast<std::size_t>(buffer)];
}

/// The letter of a buffer in the files of MSCCL and MSCCL++: i, o or s.
[[nodiscard]] constexpr std::string_view letter_of(step_buffer buffer) {
  return to_text(buffer).substr(0, 1);
}
/// The buffer with a letter; nothing for other texts.
[[nodiscard]] constexpr std::optional<step_buffer> buffer_of(std::string_view letter) {
  for (auto const buffer : {step_buffer::input, step_buffer::output, step_buffer::scratch}) {
    if (letter == letter_of(buffer)) return buffer;
  }
  return std::nullopt;
}

/// The action of a step on each of its chunks.
enum class step_kind : std::uint8_t {
  send,                      ///< source to the send peer
  receive,                   ///< from the receive peer to destination
  receive_copy_send,         ///< received to destination and to the send peer
  receive_reduce_send,       ///< received + source to the send peer; nothing is stored
  receive_reduce_copy,       ///< received + source to destination
  receive_reduce_copy_send,  ///< received + source to destination and to the send peer
  copy,                      ///< source to destination
  reduce,                    ///< destination + source to destination
  nothing,                   ///< waits for its dependency
};

/// The short names of the steps in MSCCL's files.
inline constexpr std::array<std::string_view, 9> step_names{"s",    "r",   "rcs", "rrs", "rrc",
                                                            "rrcs", "cpy", "re",  "nop"};

/// The name of a step in MSCCL's files.
[[nodiscard]] constexpr std::string_view to_text(step_kind kind) {
  return step_names[static_cast<std::size_t>(kind)];
}
/// True if the step sends.
[[nodiscard]] constexpr bool sends(step_kind kind) {
  return kind == step_kind::send || kind == step_kind::receive_copy_send ||
         kind == step_kind::receive_reduce_send || kind == step_kind::receive_reduce_copy_send;
}
/// True if the step receives.
[[nodiscard]] constexpr bool receives(step_kind kind) {
  return kind == step_kind::receive || kind == step_kind::receive_copy_send ||
         kind == step_kind::receive_reduce_send || kind == step_kind::receive_reduce_copy ||
         kind == step_kind::receive_reduce_copy_send;
}
/// True if the step reads its source.
[[nodiscard]] constexpr bool reads_source(step_kind kind) {
  return kind == step_kind::send || kind == step_kind::receive_reduce_send ||
         kind == step_kind::receive_reduce_copy || kind == step_kind::receive_reduce_copy_send ||
         kind == step_kind::copy || kind == step_kind::reduce;
}
/// True if the step writes its destination.
[[nodiscard]] constexpr bool writes_destination(step_kind kind) {
  return kind == step_kind::receive || kind == step_kind::receive_copy_send ||
         kind == step_kind::receive_reduce_copy || kind == step_kind::receive_reduce_copy_send ||
         kind == step_kind::copy || kind == step_kind::reduce;
}

/// The first of some consecutive chunks of a buffer.
struct chunk_place {
  step_buffer buffer = step_buffer::input;
  int chunk = -1;  ///< -1: the step does not use it
  friend bool operator==(chunk_place const&, chunk_place const&) = default;
};

/// One step of a thread block.
struct program_step {
  step_kind kind = step_kind::nothing;
  chunk_place source;
  chunk_place destination;
  int count = 1;           ///< consecutive chunks
  int depends_block = -1;  ///< of the same rank; waits until that block's `depends_step` is done
  int depends_step = -1;
  bool is_awaited = false;  ///< some other step waits for this one, so it publishes its end
  friend bool operator==(program_step const&, program_step const&) = default;
};

/// Consecutive steps, with at most one rank to send to and one to receive from, on one channel.
struct program_block {
  int send_peer = -1;     ///< rank; -1: none
  int receive_peer = -1;  ///< rank; -1: none
  int channel = 0;
  std::vector<program_step> steps;
  friend bool operator==(program_block const&, program_block const&) = default;
};

/// The program of one rank. Its blocks run side by side.
struct rank_program {
  int input_chunks = 0;    ///< offsets into the buffer are smaller
  int output_chunks = 0;   ///< the same
  int scratch_chunks = 0;  ///< the same; the runtime allocates them
  std::vector<program_block> blocks;
  std::vector<std::pair<int, int>> copies = {};  ///< input to output chunk, before all steps
  friend bool operator==(rank_program const&, rank_program const&) = default;
};

/// A collective step by step.
///
/// The buffer is cut into `chunk_count` equal chunks. Each block repeats its steps for one slice of
/// the chunks after the other (iterations). A dependency refers to the same iteration. The k-th
/// send of a block arrives at the k-th receive of the peer's block on the same channel.
///
/// Chunks of the buffers, with C chunks and N ranks:
/// - all_reduce, broadcast, reduce: input C, output C;
/// - all_gather: input C/N, output C, those of rank r at r C/N;
/// - reduce_scatter: input C, output C/N;
/// - all_to_all: input C, output C, those for or from rank r at r C/N;
/// - gather, scatter: C for each rank, N C at the root.
///
/// In place, input and output are the same memory where they overlap in MPI's sense: the small
/// buffer is the rank's part of the large one.
struct step_program {
  std::string name;
  /// nothing: another one, whose meaning is not known
  std::optional<blink::collective> collective;
  std::string collective_name;      ///< the name in the file
  std::string protocol = "Simple";  ///< Simple, LL or LL128
  int channel_count = 0;
  int chunk_count = 0;
  bool runs_in_place = true;      ///< may be chosen for calls in place
  bool runs_out_of_place = true;  ///< may be chosen for calls with two buffers
  std::int64_t least_bytes = 0;   ///< of the messages that it may be chosen for
  std::int64_t most_bytes = 0;    ///< 0: no limit
  std::optional<int> root = {};   ///< rank; nothing: not named, or the collective has none
  std::vector<rank_program> ranks = {};
  friend bool operator==(step_program const&, step_program const&) = default;
};

/// The number of chunks of a rank's input and output, as the collective defines them.
struct chunk_counts {
  int input = 0;
  int output = 0;
};

/// The number of chunks of one rank's part of a buffer. `chunk_count` counts these for gather and
/// scatter, and the chunks of the whole buffer for all other collectives.
[[nodiscard]] constexpr int block_chunks(collective kind, int chunk_count, int rank_count) {
  return has_root(kind) ? chunk_count : chunk_count / rank_count;
}

namespace detail {

/// The number of chunks of the whole buffer, which a plan's rate counts.
///
/// Program: a step program or a program of messages
template <class Program>
[[nodiscard]] std::int64_t whole_chunks(Program const& program) {
  bool const counts_one_rank =
      program.collective && has_blocks(*program.collective) && has_root(*program.collective);
  return static_cast<std::int64_t>(program.chunk_count) *
         (counts_one_rank ? std::ssize(program.ranks) : 1);
}

}  // namespace detail

/// The number of chunks of a rank's buffers.
/// Pre: the number of ranks divides `chunk_count` where the collective cuts the buffer by ranks.
[[nodiscard]] constexpr chunk_counts chunks_of(collective kind, int chunk_count, int rank_count,
                                               bool is_root) {
  if (!has_blocks(kind)) return {chunk_count, chunk_count};
  int const whole = has_root(kind) ? chunk_count * rank_count : chunk_count;
  int const block = block_chunks(kind, chunk_count, rank_count);
  chunk_counts result{has_input_blocks(kind) ? whole : block,
                      has_output_blocks(kind) ? whole : block};
  if (is_from_root(kind) && !is_root) result.input = 0;
  if (is_to_root(kind) && !is_root) result.output = 0;
  return result;
}

}}  // namespace blink::BLINK_ABI
