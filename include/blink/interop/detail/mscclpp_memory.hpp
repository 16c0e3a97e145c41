// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/interop/detail/mscclpp_knowledge.hpp>
#include <blink/interop/detail/mscclpp_moves.hpp>
#include <blink/interop/detail/mscclpp_structure.hpp>
#include <blink/interop/detail/program_memory.hpp>
#include <blink/interop/mscclpp_program.hpp>
#include <blink/interop/step_program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

// The memory of an execution plan's ranks, as cells. A chunk has one or more cells, so that loops
// over units and blocks that share an operation touch cells of their own.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The sizes of a run.
struct mscclpp_scale {
  int cells = 1;                ///< of a chunk
  int scratch_cells = 1;        ///< of a chunk of scratch; fewer where large chunks share it
  std::int64_t cell_bytes = 0;  ///< 0: chunks are small, every loop runs once
};

/// The cells of one iteration of a loop; 0: all in one.
[[nodiscard]] inline int unit_cells(mscclpp_program const& program, mscclpp_scale const& scale,
                                    mscclpp_segment const& loop) {
  if (scale.cell_bytes == 0) return 0;
  int const unit = loop.unit_bytes > 0 ? loop.unit_bytes : program.unit_bytes;
  return static_cast<int>(unit / scale.cell_bytes);
}
[[nodiscard]] inline std::int64_t iterations(mscclpp_program const& program,
                                             mscclpp_scale const& scale,
                                             mscclpp_segment const& loop) {
  auto const unit = unit_cells(program, scale, loop);
  if (unit == 0) return 1;
  auto const cells = std::int64_t{loop.loop_chunks} * scale.cells;
  return (cells + unit - 1) / unit;
}

/// The assignment of elements to the threads of a block. Two operations of sums, or two of packets,
/// give equal elements of their places to the same thread, which sees its own stores.
enum class thread_lanes : std::uint8_t { sums, packets, other };
[[nodiscard]] constexpr thread_lanes lanes_of(mscclpp_kind kind) {
  bool const has_packets =
      (kind >= mscclpp_kind::put_packets && kind <= mscclpp_kind::reduce_packets_pack_put) ||
      kind == mscclpp_kind::group_store_packets;
  if (has_packets) return thread_lanes::packets;
  bool const is_sum = adds_up(kind) && kind != mscclpp_kind::group_reduce;
  return is_sum ? thread_lanes::sums : thread_lanes::other;
}

/// An operation's access to a cell.
struct mscclpp_access {
  process_event event = {-1, 0};  ///< process -1: before the first call
  int block = -1;                 ///< of all blocks of all ranks; -1: the rank's user
  placed_operation const* op = nullptr;
  std::uint32_t phase = 0;  ///< of the block: grows when its threads wait for each other
  thread_lanes lanes = thread_lanes::other;
  int element = -1;  ///< cell within the operation's places
};

struct mscclpp_cell {
  chunk_value value;
  mscclpp_access written;
  std::vector<mscclpp_access> read;                  ///< after that write
  int packet_call = -1;                              ///< number in the packets here; -1: plain data
  std::shared_ptr<process_knowledge const> carried;  ///< by the packets
};

/// One rank's buffers. In place, input and output share cells.
class mscclpp_memory {
 public:
  mscclpp_memory(mscclpp_program const& program, int rank, int root, mscclpp_scale const& scale)
      : scale_(scale), calls_share_(!program.doubles_scratch) {
    auto const& here = program.ranks[static_cast<std::size_t>(rank)];
    int const ranks = static_cast<int>(program.ranks.size());
    counts_ = {here.input_chunks, here.output_chunks};
    if (program.collective) {
      counts_ = chunks_of(*program.collective, chunk_count_of(program), ranks, rank == root);
    }
    starts_ = starts_of(program.collective, counts_, rank, root, program.in_place);
    scratch_start_ =
        std::max(starts_.input + counts_.input, starts_.output + counts_.output) * scale.cells;
    half_ = here.scratch_chunks * scale.scratch_cells * (program.has_packets ? 2 : 1);
    cells_.resize(static_cast<std::size_t>(scratch_start_) +
                  static_cast<std::size_t>(half_) * (calls_share_ ? 1 : 2));
  }

  [[nodiscard]] chunk_counts counts() const { return counts_; }
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
    int const offset = slice + from + element;
    if (place.buffer == step_buffer::input) {
      return (starts_.input + place.chunk) * scale_.cells + offset;
    }
    if (place.buffer == step_buffer::output) {
      return (starts_.output + place.chunk) * scale_.cells + offset;
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
  chunk_counts counts_;
  buffer_starts starts_;
  int scratch_start_ = 0;
  int half_ = 0;  // cells of scratch memory of one call
  std::vector<mscclpp_cell> cells_;
};

}}}  // namespace blink::BLINK_ABI::detail
