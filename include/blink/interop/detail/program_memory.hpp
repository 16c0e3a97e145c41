// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/interop/detail/program_fault.hpp>
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

// The symbolic contents of a program's chunks: sums of the ranks' input chunks.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// One rank's input chunk.
struct chunk_origin {
  int rank = 0;
  int chunk = 0;  ///< of the input buffer
  int part = 0;   ///< of the chunk, where a checker cuts chunks
  int call = 0;   ///< of the program, where a checker runs it several times
  friend auto operator<=>(chunk_origin const&, chunk_origin const&) = default;
  friend bool operator==(chunk_origin const&, chunk_origin const&) = default;  // nvcc warns without
};

/// A sum of input chunks, each once, in order. Shared and immutable; null if nothing was written
/// yet.
using chunk_value = std::shared_ptr<std::vector<chunk_origin> const>;

[[nodiscard]] inline chunk_value value_of(std::vector<chunk_origin> origins) {
  return std::make_shared<std::vector<chunk_origin> const>(std::move(origins));
}

/// The sum of two sums. A rank's contribution counts once.
///
/// kind:   of the program, which must reduce, and only equal chunks; nothing: not known
/// at:     the step or operation that adds
/// Time:   O(length of the sums).
/// Throws: program_fault for a sum that no reduction has.
[[nodiscard]] inline chunk_value add(chunk_value const& one, chunk_value const& other,
                                     std::optional<collective> kind, program_place const& at) {
  if (kind && !has_reduce_phase(*kind)) {
    throw program_fault(at, "adds chunks up in " + std::string(to_text(*kind)));
  }
  std::vector<chunk_origin> sum;
  std::merge(one->begin(), one->end(), other->begin(), other->end(), std::back_inserter(sum));
  auto const twice = std::adjacent_find(sum.begin(), sum.end());
  if (twice != sum.end()) {
    throw program_fault(at, "adds the contribution of rank " + std::to_string(twice->rank) +
                                " to chunk " + std::to_string(twice->chunk) + " a second time");
  }
  auto const mixed =
      std::adjacent_find(sum.begin(), sum.end(), [](chunk_origin const& a, chunk_origin const& b) {
        return a.chunk != b.chunk || a.part != b.part || a.call != b.call;
      });
  if (kind && mixed != sum.end()) {
    auto const& next = *std::next(mixed);
    auto const what = mixed->call != next.call     ? "data of another call, chunk "
                      : mixed->chunk == next.chunk ? "another part of chunk "
                                                   : "another chunk, ";
    throw program_fault(at, "adds chunk " + std::to_string(mixed->chunk) + " of rank " +
                                std::to_string(mixed->rank) + " to " + what +
                                std::to_string(next.chunk) + " of rank " +
                                std::to_string(next.rank));
  }
  return value_of(std::move(sum));
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

/// The buffers of a rank in its memory, in chunks.
struct memory_layout {
  chunk_counts counts;
  int input = 0;    ///< the first chunk of the input
  int output = 0;   ///< of the output
  int scratch = 0;  ///< of scratch memory, after both

  /// The position of a chunk.
  [[nodiscard]] int chunk(chunk_place const& place) const {
    int const start = place.buffer == step_buffer::input    ? input
                      : place.buffer == step_buffer::output ? output
                                                            : scratch;
    return start + place.chunk;
  }
};

/// Places a rank's buffers one after the other; in place, the small one as the rank's part of the
/// large one.
///
/// Program:     a step program or an execution plan
/// chunk_count: of the whole buffer, if the collective is known
template <class Program>
[[nodiscard]] memory_layout layout_of(Program const& program, int chunk_count, int rank, int root,
                                      bool in_place) {
  auto const& here = program.ranks[static_cast<std::size_t>(rank)];
  auto const& kind = program.collective;
  memory_layout result{{here.input_chunks, here.output_chunks}};
  auto& counts = result.counts;
  if (kind) {
    int const ranks = static_cast<int>(program.ranks.size());
    counts = chunks_of(*kind, chunk_count, ranks, rank == root);
  }
  bool const has_one_buffer = kind && has_blocks(*kind) && has_root(*kind) && rank != root;
  if (!in_place || !kind || has_one_buffer) {
    result.output = counts.input;
  } else {
    bool const cuts_input = has_input_blocks(*kind);
    bool const cuts_output = has_output_blocks(*kind);
    if (cuts_output && !cuts_input) result.input = rank * counts.input;
    if (cuts_input && !cuts_output) result.output = rank * counts.output;
  }
  result.scratch = std::max(result.input + counts.input, result.output + counts.output);
  return result;
}

/// One rank's buffers. In place, input and output share cells.
class rank_memory {
 public:
  /// Program: a step program or a program of messages
  template <class Program>
  rank_memory(Program const& program, int rank, bool in_place, int root) {
    auto const& here = program.ranks[static_cast<std::size_t>(rank)];
    layout_ = layout_of(program, program.chunk_count, rank, root, in_place);
    cells_.resize(static_cast<std::size_t>(layout_.scratch) +
                  static_cast<std::size_t>(here.scratch_chunks));
    for (int c = 0; c < layout_.counts.input; ++c) {
      cell({step_buffer::input, c}).value = value_of({{rank, c}});
    }
  }

  [[nodiscard]] chunk_counts counts() const { return layout_.counts; }
  [[nodiscard]] chunk_cell& cell(chunk_place const& place) { return cells_[index(place)]; }
  [[nodiscard]] std::size_t index(chunk_place const& place) const {
    return static_cast<std::size_t>(layout_.chunk(place));
  }

 private:
  memory_layout layout_;
  std::vector<chunk_cell> cells_;
};

/// Notes that a step reads a chunk, in the place of its block's last read.
inline void add_read(chunk_cell& cell, chunk_access const& access) {
  for (auto& other : cell.read) {
    if (other.block == access.block) {
      other = access;
      return;
    }
  }
  cell.read.push_back(access);
}

/// A rank whose input has changed; nothing if there is none. Never a rank whose input and output
/// share memory.
[[nodiscard]] inline std::optional<int> rank_with_changed_input(std::vector<rank_memory>& memory) {
  for (std::size_t rank = 0; rank < memory.size(); ++rank) {
    for (int c = 0; c < memory[rank].counts().input; ++c) {
      auto const& cell = memory[rank].cell({step_buffer::input, c});
      if (cell.written.block >= 0) return static_cast<int>(rank);
    }
  }
  return std::nullopt;
}

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

/// Checks that every output chunk has the value that the collective defines, if that is known.
///
/// Program:  a step program or a program of messages
/// place_of: the place of the access that wrote an output chunk; called with rank, access and chunk
/// Throws:   program_fault for the first chunk with another value.
template <class Program, class PlaceOf>
void check_results(Program const& program, std::vector<rank_memory>& memory, int root,
                   PlaceOf const& place_of) {
  if (!program.collective) return;
  int const ranks = static_cast<int>(memory.size());
  for (int rank = 0; rank < ranks; ++rank) {
    auto& here = memory[static_cast<std::size_t>(rank)];
    for (int c = 0; c < here.counts().output; ++c) {
      auto const wanted =
          wanted_value(*program.collective, rank, c, ranks, program.chunk_count, root);
      auto const& cell = here.cell({step_buffer::output, c});
      if (wanted && (!cell.value || *cell.value != *wanted)) {
        throw program_fault(place_of(rank, cell.written, c), difference(cell.value, *wanted));
      }
    }
  }
}

}}}  // namespace blink::BLINK_ABI::detail
