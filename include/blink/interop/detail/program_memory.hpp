// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/interop/step_program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

// The symbolic contents of the chunks of a step program: sums of the ranks' input chunks.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// One rank's input chunk.
struct chunk_origin {
  int rank = 0;
  int chunk = 0;  ///< of the input buffer
  friend auto operator<=>(chunk_origin const&, chunk_origin const&) = default;
};

/// A sum of input chunks, each once, in order. Shared and immutable; null if nothing was written
/// yet.
using chunk_value = std::shared_ptr<std::vector<chunk_origin> const>;

[[nodiscard]] inline chunk_value value_of(std::vector<chunk_origin> origins) {
  return std::make_shared<std::vector<chunk_origin> const>(std::move(origins));
}

/// A step's access to a chunk, while the block handles its `position`-th chunk.
struct chunk_access {
  int block = -1;  ///< of all blocks of all ranks; -1: before the program
  std::uint32_t position = 0;
  int step = -1;
};

/// One chunk of memory.
struct chunk_cell {
  chunk_value value;
  chunk_access written;
  std::vector<chunk_access> read;  ///< after that write; the last read of each block
};

/// One rank's buffers. In place, input and output share cells.
class rank_memory {
 public:
  rank_memory(step_program const& program, int rank, bool in_place, int root) {
    auto const& here = program.ranks[static_cast<std::size_t>(rank)];
    int const ranks = static_cast<int>(program.ranks.size());
    counts_ = program.collective
                  ? chunks_of(*program.collective, program.chunk_count, ranks, rank == root)
                  : chunk_counts{here.input_chunks, here.output_chunks};
    output_start_ = counts_.input;
    if (in_place && program.collective) overlap(*program.collective, rank, root);
    scratch_start_ = std::max(input_start_ + counts_.input, output_start_ + counts_.output);
    cells_.resize(static_cast<std::size_t>(scratch_start_) +
                  static_cast<std::size_t>(here.scratch_chunks));
    for (int c = 0; c < counts_.input; ++c) {
      cell({step_buffer::input, c}).value = value_of({{rank, c}});
    }
  }

  [[nodiscard]] chunk_counts counts() const { return counts_; }
  [[nodiscard]] chunk_cell& cell(chunk_place const& place) { return cells_[index(place)]; }
  [[nodiscard]] std::size_t index(chunk_place const& place) const {
    int const start = place.buffer == step_buffer::input    ? input_start_
                      : place.buffer == step_buffer::output ? output_start_
                                                            : scratch_start_;
    return static_cast<std::size_t>(start + place.chunk);
  }

 private:
  /// Makes the small buffer the rank's part of the large one.
  void overlap(collective kind, int rank, int root) {
    if (has_blocks(kind) && has_root(kind) && rank != root) return;  // this rank has one buffer
    bool const cuts_input = has_input_blocks(kind);
    bool const cuts_output = has_output_blocks(kind);
    output_start_ = cuts_input && !cuts_output ? rank * counts_.output : 0;
    input_start_ = cuts_output && !cuts_input ? rank * counts_.input : 0;
  }

  chunk_counts counts_;
  int input_start_ = 0;
  int output_start_ = 0;
  int scratch_start_ = 0;
  std::vector<chunk_cell> cells_;
};

/// The final value of an output chunk; nothing where the collective does not define it.
[[nodiscard]] inline std::optional<std::vector<chunk_origin>> wanted_value(
    collective kind, int rank, int chunk, int rank_count, int chunk_count, int root) {
  auto const sum = [&](int of_chunk) {
    std::vector<chunk_origin> result;
    for (int from = 0; from < rank_count; ++from) result.push_back({from, of_chunk});
    return result;
  };
  if (!moves_data(kind) || is_permutation(kind)) return std::nullopt;  // no step program has them
  if (is_to_root(kind) && rank != root) return std::nullopt;
  int const block = block_chunks(kind, chunk_count, rank_count);
  int const in_block = has_output_blocks(kind) ? chunk % block : chunk;
  int const of_input = has_input_blocks(kind) ? rank * block + in_block : in_block;
  if (has_reduce_phase(kind)) return sum(of_input);
  return std::vector<chunk_origin>{{has_output_blocks(kind) ? chunk / block : root, of_input}};
}

}}}  // namespace blink::BLINK_ABI::detail
