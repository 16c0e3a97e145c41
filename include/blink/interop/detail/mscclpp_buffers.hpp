// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/interop/detail/mscclpp_moves.hpp>
#include <blink/interop/detail/mscclpp_order.hpp>
#include <blink/interop/detail/mscclpp_scale.hpp>
#include <blink/interop/detail/mscclpp_structure.hpp>
#include <blink/interop/detail/program_clocks.hpp>
#include <blink/interop/detail/program_fault.hpp>
#include <blink/interop/detail/program_memory.hpp>
#include <blink/interop/mscclpp_program.hpp>
#include <blink/interop/step_program.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The part of an operation's places that one iteration of one block moves, in cells.
struct cell_extent {
  int slice = 0;  ///< begin of the block's part
  int from = 0;   ///< begin of the iteration, in that part
  int count = 0;
};

/// The part of a move that an operation does in one iteration of its loop.
/// Throws: program_fault for a loop beyond the operation's chunks.
[[nodiscard]] inline cell_extent extent_of(mscclpp_program const& program,
                                           mscclpp_scale const& scale, placed_operation const& each,
                                           int iteration, mscclpp_move const& move,
                                           program_place const& at) {
  auto const& op = *each.op;
  auto const begin_of = [&](int slice) {
    int const cells = move.count * scale.cells;
    return slice * (cells / op.slices) + std::min(slice, cells % op.slices);
  };
  cell_extent result{begin_of(op.slice), 0, begin_of(op.slice + 1) - begin_of(op.slice)};
  bool const has_packets = lanes_of(op.kind) == thread_lanes::packets;  // whole in each iteration
  if (each.loop == nullptr || has_packets) return result;
  int const unit = unit_cells(program, scale, *each.loop);
  if (unit == 0) return result;
  result.from = iteration * unit;
  if (result.from > result.count) {
    throw program_fault(at, "is in a loop over " + std::to_string(each.loop->loop_chunks) +
                                " chunks, more than it moves");
  }
  result.count = std::min(unit, result.count - result.from);
  return result;
}

/// One rank's buffers. In place, input and output share cells.
class mscclpp_memory {
 public:
  mscclpp_memory(mscclpp_program const& program, int rank, int root, mscclpp_scale const& scale)
      : scale_(scale), calls_share_(!program.doubles_scratch) {
    auto const& here = program.ranks[static_cast<std::size_t>(rank)];
    int const chunks = program.collective ? chunk_count_of(program) : 0;
    layout_ = layout_of(program, chunks, rank, root, program.in_place);
    scratch_start_ = layout_.scratch * scale.cells;
    half_ = here.scratch_chunks * scale.scratch_cells * (program.has_packets ? 2 : 1);
    cells_.resize(static_cast<std::size_t>(scratch_start_) +
                  static_cast<std::size_t>(half_) * (calls_share_ ? 1 : 2));
  }

  [[nodiscard]] chunk_counts counts() const { return layout_.counts; }
  /// The cells of input and output.
  [[nodiscard]] int user_cells() const { return scratch_start_; }
  [[nodiscard]] mscclpp_cell& cell(int index) { return cells_[static_cast<std::size_t>(index)]; }

  /// The cell of plain data, or the first of the two cells of a packet.
  ///
  /// from:    cells from the first chunk of the place to the present unit
  /// element: cell within the unit
  /// Returns: nothing beyond the buffer's end, as chunks that share scratch memory may be.
  [[nodiscard]] std::optional<int> index(chunk_place const& place, bool has_packets, int call,
                                         int slice, int from, int element) const {
    if (place.buffer != step_buffer::scratch) {
      return layout_.chunk(place) * scale_.cells + slice + from + element;
    }
    bool const wraps = scale_.scratch_cells < scale_.cells;
    int const within = place.chunk * scale_.scratch_cells + slice +
                       (wraps ? from % scale_.scratch_cells : from) + element;
    int const at = has_packets ? 2 * within : within;
    if (at + (has_packets ? 1 : 0) >= half_) return std::nullopt;
    return scratch_start_ + (calls_share_ ? 0 : call % 2 * half_) + at;
  }

 private:
  mscclpp_scale scale_;
  bool calls_share_;
  memory_layout layout_;
  int scratch_start_ = 0;  // in cells
  int half_ = 0;           // cells of scratch memory of one call
  std::vector<mscclpp_cell> cells_;
};

/// The buffers of all ranks, as their users fill them and check them after each call.
class mscclpp_buffers {
 public:
  /// blocks: (rank, index) of every block of all ranks
  mscclpp_buffers(mscclpp_program const& program, int root, mscclpp_scale const& scale,
                  std::vector<program_place> blocks)
      : program_(&program), root_(root), scale_(scale), order_(std::move(blocks)) {
    for (std::size_t r = 0; r < program.ranks.size(); ++r) {
      memory_.emplace_back(program, static_cast<int>(r), root, scale);
    }
  }

  [[nodiscard]] mscclpp_order const& order() const { return order_; }

  /// Fills a rank's input as its user does.
  void fill(int rank, int call, process_event const& user) {
    auto& memory = memory_of(rank);
    for (int i = 0; i < memory.user_cells(); ++i) {
      auto& cell = memory.cell(i);
      cell = {};
      cell.written.event = user;
    }
    for (int c = 0; c < memory.counts().input * scale_.cells; ++c) {
      user_cell(rank, step_buffer::input, c).value =
          value_of({{rank, c / scale_.cells, c % scale_.cells, call}});
    }
  }

  /// Checks that no other rank accesses a rank's buffers after its call.
  ///
  /// known:  by the rank
  /// Throws: program_fault
  void check_over(int rank, process_knowledge const& known) {
    auto const counts = memory_of(rank).counts();
    for (auto const& [buffer, count] : {std::pair(step_buffer::input, counts.input),
                                        std::pair(step_buffer::output, counts.output)}) {
      for (int c = 0; c < count * scale_.cells; ++c) {
        order_.check_over({&user_cell(rank, buffer, c), buffer, rank, c / scale_.cells}, known);
      }
    }
  }

  /// Checks a rank's output after a call, if the collective is known.
  /// Throws: program_fault
  void check_results(int rank, int call) {
    if (!program_->collective) return;
    int const ranks = static_cast<int>(memory_.size());
    int const chunks = chunk_count_of(*program_);
    for (int c = 0; c < memory_of(rank).counts().output * scale_.cells; ++c) {
      int const chunk = c / scale_.cells;
      auto wanted = wanted_value(*program_->collective, rank, chunk, ranks, chunks, root_);
      if (!wanted) continue;
      for (auto& origin : *wanted) {
        origin.part = c % scale_.cells;
        origin.call = call;
      }
      auto const& cell = user_cell(rank, step_buffer::output, c);
      if (cell.value && *cell.value == *wanted) continue;
      auto place = cell.written.block < 0 ? program_place{rank} : order_.place_of(cell.written);
      place.chunk = chunk;
      auto const whose =
          place.rank == rank ? std::string() : "of rank " + std::to_string(rank) + ": ";
      throw program_fault(place, whose + difference(cell.value, *wanted));
    }
  }

  /// True if a call has written to its rank's input.
  [[nodiscard]] bool has_changed_input(int rank) {
    for (int c = 0; c < memory_of(rank).counts().input * scale_.cells; ++c) {
      if (user_cell(rank, step_buffer::input, c).written.block >= 0) return true;
    }
    return false;
  }

  /// The cells of one element of a place, one for each of its ranks.
  ///
  /// second: of the two cells of a packet
  /// at:     the operation
  /// Throws: program_fault beyond the end of scratch memory.
  [[nodiscard]] std::vector<named_cell> cells_of(mscclpp_end const& end, int call,
                                                 cell_extent const& part, int element, bool second,
                                                 program_place at) {
    auto const& place = end.place;
    auto const [ranks, buffer] = owners_of(*program_, at.rank, place);
    std::vector<named_cell> result;
    at.chunk = place.chunk + (part.slice + part.from + element) / scale_.cells;
    for (int const rank : ranks) {
      auto& memory = memory_of(rank);
      auto const found =
          memory.index({buffer, place.chunk}, end.is_packets, call, part.slice, part.from, element);
      if (!found) throw program_fault(at, "uses scratch beyond its end");
      result.push_back({&memory.cell(*found + (second ? 1 : 0)), buffer, rank, at.chunk});
    }
    return result;
  }

 private:
  [[nodiscard]] mscclpp_memory& memory_of(int rank) {
    return memory_[static_cast<std::size_t>(rank)];
  }
  /// Pre: the cell is in the input or the output.
  [[nodiscard]] mscclpp_cell& user_cell(int rank, step_buffer buffer, int number) {
    auto& memory = memory_of(rank);
    return memory.cell(*memory.index({buffer, 0}, false, 0, 0, 0, number));
  }

  mscclpp_program const* program_;
  int root_;
  mscclpp_scale scale_;
  mscclpp_order order_;
  std::vector<mscclpp_memory> memory_;
};

}}}  // namespace blink::BLINK_ABI::detail
