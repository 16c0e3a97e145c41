// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace blink { inline namespace BLINK_ABI {

/// What ranks do together with their buffers.
enum class collective : std::uint8_t {
  broadcast,
  reduce,
  all_reduce,
  all_gather,
  reduce_scatter,
  gather,        ///< every rank's block to the root, which ends with all of them
  scatter,       ///< the root's blocks, one to each rank
  all_to_all,    ///< every rank has a block for every other
  send_to_next,  ///< each rank's buffer to the rank behind it; the last sends nothing
  permute,       ///< each rank's buffer to one other rank of its own, or nowhere
  barrier,       ///< nobody goes on before all have come: signals, no data
};

inline constexpr std::array<std::string_view, 11> collective_names{
    "broadcast", "reduce",     "all_reduce",   "all_gather", "reduce_scatter", "gather",
    "scatter",   "all_to_all", "send_to_next", "permute",    "barrier"};

[[nodiscard]] constexpr std::string_view to_text(collective kind) {
  return collective_names[static_cast<std::size_t>(kind)];
}

/// Is this collective many flows at once, each from one rank to one other, without copies or sums?
/// Its trees are paths away from the sender.
[[nodiscard]] constexpr bool is_point_to_point(collective kind) {
  return kind == collective::gather || kind == collective::scatter ||
         kind == collective::all_to_all || kind == collective::send_to_next ||
         kind == collective::permute;
}
/// Does all data come from the root, so that the input of other ranks is not read?
[[nodiscard]] constexpr bool is_from_root(collective kind) {
  return kind == collective::broadcast || kind == collective::scatter;
}
/// Does all data go to the root, so that the output of other ranks is not written?
[[nodiscard]] constexpr bool is_to_root(collective kind) {
  return kind == collective::reduce || kind == collective::gather;
}
/// Is there one rank that all data comes from or goes to?
[[nodiscard]] constexpr bool has_root(collective kind) {
  return is_from_root(kind) || is_to_root(kind);
}
/// Does the input hold a block for each rank (instead of one block)?
[[nodiscard]] constexpr bool has_input_blocks(collective kind) {
  return kind == collective::reduce_scatter || kind == collective::scatter ||
         kind == collective::all_to_all;
}
/// Does the output hold a block of each rank (instead of one block)?
[[nodiscard]] constexpr bool has_output_blocks(collective kind) {
  return kind == collective::all_gather || kind == collective::gather ||
         kind == collective::all_to_all;
}
/// Do the trees of this collective carry data towards their roots?
[[nodiscard]] constexpr bool has_reduce_phase(collective kind) {
  return kind == collective::reduce || kind == collective::all_reduce ||
         kind == collective::reduce_scatter || kind == collective::barrier;
}
/// Do the trees of this collective carry data away from their roots?
[[nodiscard]] constexpr bool has_broadcast_phase(collective kind) {
  return kind == collective::broadcast || kind == collective::all_reduce ||
         kind == collective::all_gather || kind == collective::barrier || is_point_to_point(kind);
}
/// Does every rank root an equal share (instead of one rank or any mix)?
[[nodiscard]] constexpr bool has_equal_roots(collective kind) {
  return kind == collective::all_gather || kind == collective::reduce_scatter;
}
/// Bytes of the whole buffer, all ranks' blocks together where there are blocks.
///
/// count: elements of the buffer, or of one block
[[nodiscard]] constexpr std::uint64_t buffer_bytes(collective kind, std::uint64_t count,
                                                   std::uint64_t element_bytes, int rank_count) {
  bool const is_cut = has_input_blocks(kind) || has_output_blocks(kind);
  return count * element_bytes * (is_cut ? static_cast<std::uint64_t>(rank_count) : 1);
}

}}  // namespace blink::BLINK_ABI
