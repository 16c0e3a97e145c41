// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/interop/step_program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// The symbolic contents of the chunks of a step program: sums of the ranks' input chunks.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// One rank's input chunk.
struct chunk_origin {
  int rank = 0;
  int chunk = 0;  ///< of the input buffer
  int part = 0;   ///< of the chunk, where a checker cuts chunks
  int call = 0;   ///< of the program, where a checker runs it several times
  friend auto operator<=>(chunk_origin const&, chunk_origin const&) = default;
};

/// A sum of input chunks, each once, in order. Shared and immutable; null if nothing was written
/// yet.
using chunk_value = std::shared_ptr<std::vector<chunk_origin> const>;

[[nodiscard]] inline chunk_value value_of(std::vector<chunk_origin> origins) {
  return std::make_shared<std::vector<chunk_origin> const>(std::move(origins));
}

/// The sum of two sums, or the reason that they may not be added.
struct chunk_sum {
  chunk_value value;
  std::string fault;  ///< "adds …"; empty: none
};

/// Adds two sums. A rank's contribution counts once.
///
/// keeps_chunks: whether only equal chunks may be added, as in every collective
/// Time:         O(length of the sums).
[[nodiscard]] inline chunk_sum add(chunk_value const& one, chunk_value const& other,
                                   bool keeps_chunks) {
  std::vector<chunk_origin> sum;
  std::merge(one->begin(), one->end(), other->begin(), other->end(), std::back_inserter(sum));
  auto const twice = std::adjacent_find(sum.begin(), sum.end());
  if (twice != sum.end()) {
    return {{},
            "adds the contribution of rank " + std::to_string(twice->rank) + " to chunk " +
                std::to_string(twice->chunk) + " a second time"};
  }
  auto const mixed =
      std::adjacent_find(sum.begin(), sum.end(), [](chunk_origin const& a, chunk_origin const& b) {
        return a.chunk != b.chunk || a.part != b.part || a.call != b.call;
      });
  if (keeps_chunks && mixed != sum.end()) {
    auto const& next = *std::next(mixed);
    auto const what = mixed->call != next.call     ? "data of another call, chunk "
                      : mixed->chunk == next.chunk ? "another part of chunk "
                                                   : "another chunk, ";
    return {{},
            "adds chunk " + std::to_string(mixed->chunk) + " of rank " +
                std::to_string(mixed->rank) + " to " + what + std::to_string(next.chunk) +
                " of rank " + std::to_string(next.rank)};
  }
  return {value_of(std::move(sum)), {}};
}

/// The first difference between the contents of an output chunk and the collective's, in words.
[[nodiscard]] inline std::string difference(chunk_value const& found,
                                            std::vector<chunk_origin> const& wanted) {
  if (!found) return "nothing is written to the output";
  auto const name = [](chunk_origin const& origin) {
    return "chunk " + std::to_string(origin.chunk) + " of rank " + std::to_string(origin.rank);
  };
  for (auto const& origin : wanted) {
    if (!std::binary_search(found->begin(), found->end(), origin)) {
      return "the output misses " + name(origin);
    }
  }
  for (auto const& origin : *found) {
    if (!std::binary_search(wanted.begin(), wanted.end(), origin)) {
      return "the output holds " + name(origin) + ", expected only what the collective puts there";
    }
  }
  return "the output is wrong";
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

/// The positions of the first chunks of a rank's input and output in its memory.
struct buffer_starts {
  int input = 0;
  int output = 0;
};

/// Places the buffers one after the other; in place, the small one as the rank's part of the large
/// one.
[[nodiscard]] inline buffer_starts starts_of(std::optional<collective> kind, chunk_counts counts,
                                             int rank, int root, bool in_place) {
  if (!in_place || !kind) return {0, counts.input};
  if (has_blocks(*kind) && has_root(*kind) && rank != root) return {0, counts.input};  // one buffer
  bool const cuts_input = has_input_blocks(*kind);
  bool const cuts_output = has_output_blocks(*kind);
  return {cuts_output && !cuts_input ? rank * counts.input : 0,
          cuts_input && !cuts_output ? rank * counts.output : 0};
}

/// One rank's buffers. In place, input and output share cells.
class rank_memory {
 public:
  rank_memory(step_program const& program, int rank, bool in_place, int root) {
    auto const& here = program.ranks[static_cast<std::size_t>(rank)];
    int const ranks = static_cast<int>(program.ranks.size());
    counts_ = program.collective
                  ? chunks_of(*program.collective, program.chunk_count, ranks, rank == root)
                  : chunk_counts{here.input_chunks, here.output_chunks};
    starts_ = starts_of(program.collective, counts_, rank, root, in_place);
    scratch_start_ = std::max(starts_.input + counts_.input, starts_.output + counts_.output);
    cells_.resize(static_cast<std::size_t>(scratch_start_) +
                  static_cast<std::size_t>(here.scratch_chunks));
    for (int c = 0; c < counts_.input; ++c) {
      cell({step_buffer::input, c}).value = value_of({{rank, c}});
    }
  }

  [[nodiscard]] chunk_counts counts() const { return counts_; }
  [[nodiscard]] chunk_cell& cell(chunk_place const& place) { return cells_[index(place)]; }
  [[nodiscard]] std::size_t index(chunk_place const& place) const {
    int const start = place.buffer == step_buffer::input    ? starts_.input
                      : place.buffer == step_buffer::output ? starts_.output
                                                            : scratch_start_;
    return static_cast<std::size_t>(start + place.chunk);
  }

 private:
  chunk_counts counts_;
  buffer_starts starts_;
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
