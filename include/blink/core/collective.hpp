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
  /// sends each rank's buffer to at most one rank; no two ranks send to the same one
  permute,
  barrier,  ///< holds every rank until all have entered; signals, no data
};

/// The properties of a collective. Other code reads them and seldom names a kind.
struct collective_traits {
  collective kind;
  std::string_view name;             ///< in files, commands and errors
  collective reversed;               ///< carried by the same trees with every edge reversed
  bool is_point_to_point = false;    ///< flows from one rank to one other, without copies or sums
  bool is_from_root = false;         ///< all data comes from the root
  bool is_to_root = false;           ///< all data goes to the root
  bool has_input_blocks = false;     ///< the input is one block for each rank, not one in total
  bool has_output_blocks = false;    ///< the output is one block of each rank, not one in total
  bool has_reduce_phase = false;     ///< trees carry data towards their roots
  bool has_broadcast_phase = false;  ///< trees carry data away from their roots
  bool has_equal_roots = false;      ///< every rank roots an equal share
  bool moves_data = true;            ///< false: signals alone
};

/// The table of all collectives, in the order of `collective`. The first place to touch for another
/// one.
inline constexpr std::array<collective_traits, 11> collective_table{{
    {.kind = collective::broadcast,
     .name = "broadcast",
     .reversed = collective::reduce,
     .is_from_root = true,
     .has_broadcast_phase = true},
    {.kind = collective::reduce,
     .name = "reduce",
     .reversed = collective::broadcast,
     .is_to_root = true,
     .has_reduce_phase = true},
    {.kind = collective::all_reduce,
     .name = "all_reduce",
     .reversed = collective::all_reduce,
     .has_reduce_phase = true,
     .has_broadcast_phase = true},
    {.kind = collective::all_gather,
     .name = "all_gather",
     .reversed = collective::reduce_scatter,
     .has_output_blocks = true,
     .has_broadcast_phase = true,
     .has_equal_roots = true},
    {.kind = collective::reduce_scatter,
     .name = "reduce_scatter",
     .reversed = collective::all_gather,
     .has_input_blocks = true,
     .has_reduce_phase = true,
     .has_equal_roots = true},
    {.kind = collective::gather,
     .name = "gather",
     .reversed = collective::scatter,
     .is_point_to_point = true,
     .is_to_root = true,
     .has_output_blocks = true,
     .has_broadcast_phase = true},
    {.kind = collective::scatter,
     .name = "scatter",
     .reversed = collective::gather,
     .is_point_to_point = true,
     .is_from_root = true,
     .has_input_blocks = true,
     .has_broadcast_phase = true},
    {.kind = collective::all_to_all,
     .name = "all_to_all",
     .reversed = collective::all_to_all,
     .is_point_to_point = true,
     .has_input_blocks = true,
     .has_output_blocks = true,
     .has_broadcast_phase = true},
    {.kind = collective::send_to_next,
     .name = "send_to_next",
     .reversed = collective::send_to_next,  // with the ranks in the opposite order
     .is_point_to_point = true,
     .has_broadcast_phase = true},
    {.kind = collective::permute,
     .name = "permute",
     .reversed = collective::permute,  // the inverse permutation
     .is_point_to_point = true,
     .has_broadcast_phase = true},
    {.kind = collective::barrier,
     .name = "barrier",
     .reversed = collective::barrier,
     .has_reduce_phase = true,
     .has_broadcast_phase = true,
     .moves_data = false},
}};

/// The row of a collective in the table.
[[nodiscard]] constexpr collective_traits const& traits_of(collective kind) {
  return collective_table[static_cast<std::size_t>(kind)];
}

namespace detail {

/// The collectives with a trait, as one bit each. Known at compile time, so that no program holds
/// the table.
[[nodiscard]] constexpr std::uint32_t kinds_with(bool collective_traits::* trait) {
  std::uint32_t bits = 0;
  for (auto const& row : collective_table) {
    if (row.*trait) bits |= std::uint32_t{1} << static_cast<unsigned>(row.kind);
  }
  return bits;
}

/// True if the collective is one of `kinds`.
[[nodiscard]] constexpr bool is_among(std::uint32_t kinds, collective kind) {
  return (kinds >> static_cast<unsigned>(kind) & 1U) != 0;
}

}  // namespace detail

/// The names of the collectives, in the order of `collective`.
inline constexpr auto collective_names = [] {
  std::array<std::string_view, collective_table.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = collective_table[i].name;
  return names;
}();

/// The name of a collective, such as "all_reduce".
[[nodiscard]] constexpr std::string_view to_text(collective kind) {
  return collective_names[static_cast<std::size_t>(kind)];
}

/// True if the collective consists of flows from one rank to one other, without copies or sums. Its
/// trees are paths away from the sender.
[[nodiscard]] constexpr bool is_point_to_point(collective kind) {
  constexpr auto kinds = detail::kinds_with(&collective_traits::is_point_to_point);
  return detail::is_among(kinds, kind);
}
/// True if all data comes from the root. The input of other ranks is not read.
[[nodiscard]] constexpr bool is_from_root(collective kind) {
  constexpr auto kinds = detail::kinds_with(&collective_traits::is_from_root);
  return detail::is_among(kinds, kind);
}
/// True if all data goes to the root. The output of other ranks is not written.
[[nodiscard]] constexpr bool is_to_root(collective kind) {
  constexpr auto kinds = detail::kinds_with(&collective_traits::is_to_root);
  return detail::is_among(kinds, kind);
}
/// True if one rank is the source or the destination of all data.
[[nodiscard]] constexpr bool has_root(collective kind) {
  return is_from_root(kind) || is_to_root(kind);
}
/// True if all trees have the root of the call. The trees of a gather start at the senders.
[[nodiscard]] constexpr bool has_one_root(collective kind) {
  return has_root(kind) && !is_point_to_point(kind);
}
/// True if the input holds one block for each rank instead of one block in total.
[[nodiscard]] constexpr bool has_input_blocks(collective kind) {
  constexpr auto kinds = detail::kinds_with(&collective_traits::has_input_blocks);
  return detail::is_among(kinds, kind);
}
/// True if the output holds one block of each rank instead of one block in total.
[[nodiscard]] constexpr bool has_output_blocks(collective kind) {
  constexpr auto kinds = detail::kinds_with(&collective_traits::has_output_blocks);
  return detail::is_among(kinds, kind);
}
/// True if the input or the output holds one block for each rank.
[[nodiscard]] constexpr bool has_blocks(collective kind) {
  return has_input_blocks(kind) || has_output_blocks(kind);
}
/// True if the trees of this collective carry data towards their roots.
[[nodiscard]] constexpr bool has_reduce_phase(collective kind) {
  constexpr auto kinds = detail::kinds_with(&collective_traits::has_reduce_phase);
  return detail::is_among(kinds, kind);
}
/// True if the trees of this collective carry data away from their roots.
[[nodiscard]] constexpr bool has_broadcast_phase(collective kind) {
  constexpr auto kinds = detail::kinds_with(&collective_traits::has_broadcast_phase);
  return detail::is_among(kinds, kind);
}
/// True if the trees carry data towards their roots and away from them again.
[[nodiscard]] constexpr bool has_both_phases(collective kind) {
  return has_reduce_phase(kind) && has_broadcast_phase(kind);
}
/// True if every rank roots an equal share, instead of one rank or any mix of ranks.
[[nodiscard]] constexpr bool has_equal_roots(collective kind) {
  constexpr auto kinds = detail::kinds_with(&collective_traits::has_equal_roots);
  return detail::is_among(kinds, kind);
}
/// True if buffers take part. A barrier only signals.
[[nodiscard]] constexpr bool moves_data(collective kind) {
  constexpr auto kinds = detail::kinds_with(&collective_traits::moves_data);
  return detail::is_among(kinds, kind);
}
/// True if elements of several ranks are combined.
[[nodiscard]] constexpr bool combines_elements_of_ranks(collective kind) {
  return has_reduce_phase(kind) && moves_data(kind);
}
/// True if every tree spans all ranks and carries a part of the buffer.
[[nodiscard]] constexpr bool has_spanning_trees(collective kind) {
  return moves_data(kind) && !is_point_to_point(kind);
}
/// True if flows have no root in common: a rank may send from where it receives when the output is
/// in the input's place.
[[nodiscard]] constexpr bool sends_and_receives(collective kind) {
  return is_point_to_point(kind) && !has_root(kind);
}
/// True if each rank sends its whole buffer to at most one rank.
[[nodiscard]] constexpr bool is_permutation(collective kind) {
  return sends_and_receives(kind) && !has_blocks(kind);
}
/// True if a flow leads from one rank to the other, a rank itself included.
///
/// root: of a gather or scatter
/// Pre:  the collective is point-to-point, and no permute, where the caller names the flows.
[[nodiscard]] constexpr bool has_flow(collective kind, int from, int to, int root) {
  if (has_root(kind)) return (is_to_root(kind) ? to : from) == root;
  return kind != collective::send_to_next || from + 1 == to;
}
/// The collective that the same trees carry with every edge reversed.
[[nodiscard]] constexpr collective reversed(collective kind) {
  return traits_of(kind).reversed;
}
/// Bytes of the whole buffer. With blocks, that is all ranks' blocks together.
///
/// count: elements of the buffer, or of one block
[[nodiscard]] constexpr std::uint64_t buffer_bytes(collective kind, std::uint64_t count,
                                                   std::uint64_t element_bytes, int rank_count) {
  return count * element_bytes * (has_blocks(kind) ? static_cast<std::uint64_t>(rank_count) : 1);
}

}}  // namespace blink::BLINK_ABI
