// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace blink { inline namespace BLINK_ABI {

/// The operations that ranks perform together on their buffers.
enum class collective : std::uint8_t {
  broadcast,
  reduce,
  all_reduce,
  all_gather,
  reduce_scatter,
  gather,        ///< sends every rank's block to the root
  scatter,       ///< sends one of the root's blocks to each rank
  all_to_all,    ///< sends a block from each rank to each other rank
  send_to_next,  ///< sends each rank's buffer to the next rank; the last rank sends nothing
  permute,       ///< sends each rank's buffer to at most one rank; no two ranks send to the same
                 ///< one
  barrier,       ///< holds every rank until all have entered; signals, no data
};

/// The names of the collectives, in the order of `collective`.
inline constexpr std::array<std::string_view, 11> collective_names{
    "broadcast", "reduce",     "all_reduce",   "all_gather", "reduce_scatter", "gather",
    "scatter",   "all_to_all", "send_to_next", "permute",    "barrier"};

/// The name of a collective, such as "all_reduce".
[[nodiscard]] constexpr std::string_view to_text(collective kind) {
  return collective_names[static_cast<std::size_t>(kind)];
}

/// True if the collective consists of flows from one rank to one other, without copies or sums. Its
/// trees are paths away from the sender.
[[nodiscard]] constexpr bool is_point_to_point(collective kind) {
  return kind == collective::gather || kind == collective::scatter ||
         kind == collective::all_to_all || kind == collective::send_to_next ||
         kind == collective::permute;
}
/// True if all data comes from the root. The input of other ranks is not read.
[[nodiscard]] constexpr bool is_from_root(collective kind) {
  return kind == collective::broadcast || kind == collective::scatter;
}
/// True if all data goes to the root. The output of other ranks is not written.
[[nodiscard]] constexpr bool is_to_root(collective kind) {
  return kind == collective::reduce || kind == collective::gather;
}
/// True if one rank is the source or the destination of all data.
[[nodiscard]] constexpr bool has_root(collective kind) {
  return is_from_root(kind) || is_to_root(kind);
}
/// True if the input holds one block for each rank instead of one block in total.
[[nodiscard]] constexpr bool has_input_blocks(collective kind) {
  return kind == collective::reduce_scatter || kind == collective::scatter ||
         kind == collective::all_to_all;
}
/// True if the output holds one block of each rank instead of one block in total.
[[nodiscard]] constexpr bool has_output_blocks(collective kind) {
  return kind == collective::all_gather || kind == collective::gather ||
         kind == collective::all_to_all;
}
/// True if the trees of this collective carry data towards their roots.
[[nodiscard]] constexpr bool has_reduce_phase(collective kind) {
  return kind == collective::reduce || kind == collective::all_reduce ||
         kind == collective::reduce_scatter || kind == collective::barrier;
}
/// True if the trees of this collective carry data away from their roots.
[[nodiscard]] constexpr bool has_broadcast_phase(collective kind) {
  return kind == collective::broadcast || kind == collective::all_reduce ||
         kind == collective::all_gather || kind == collective::barrier || is_point_to_point(kind);
}
/// True if every rank roots an equal share, instead of one rank or any mix of ranks.
[[nodiscard]] constexpr bool has_equal_roots(collective kind) {
  return kind == collective::all_gather || kind == collective::reduce_scatter;
}
/// Bytes of the whole buffer. With blocks, that is all ranks' blocks together.
///
/// count: elements of the buffer, or of one block
[[nodiscard]] constexpr std::uint64_t buffer_bytes(collective kind, std::uint64_t count,
                                                   std::uint64_t element_bytes, int rank_count) {
  bool const is_cut = has_input_blocks(kind) || has_output_blocks(kind);
  return count * element_bytes * (is_cut ? static_cast<std::uint64_t>(rank_count) : 1);
}

}}  // namespace blink::BLINK_ABI
