// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>

#include <cstddef>
#include <cstdint>

namespace blink::inline BLINK_ABI {

/// Parts begin at multiples of this many bytes, so that no two ranks write into one cache line of
/// an aligned buffer.
inline constexpr std::size_t part_alignment_bytes = 64;

/// Where the part of a tree begins in a buffer of `count` elements that is split in proportion to
/// weights: the one rule, used by all ranks and all collectives.
///
/// `before` is the sum of the weights of all trees listed before this one and `total` the sum of
/// all. Part i reaches from its begin to the begin of part i+1; the last ends at `count`. The begin
/// is floor(count * before / total), rounded down to a multiple of as many elements as fit into a
/// 64-byte line (at least one). So parts are contiguous, in the order of the trees, cover
/// everything once, and short buffers go to the last trees alone.
///
/// With all-gather and reduce-scatter the buffer is one rank's block and the trees are those rooted
/// at that rank, in the order listed.
///
/// Pre:  before <= total, 0 < total < 2^63.
/// Post: the result is 0 if before == 0, `count` if before == total, and grows with `before`.
[[nodiscard]] constexpr std::size_t part_begin(std::size_t count, std::size_t element_bytes,
                                               std::uint64_t before, std::uint64_t total) {
  if (before == total) return count;
  __extension__ using wide = unsigned __int128;
  auto const exact = static_cast<std::size_t>(wide{count} * before / total);
  std::size_t const line =
      element_bytes < part_alignment_bytes ? part_alignment_bytes / element_bytes : 1;
  return exact - exact % line;
}

}  // namespace blink::inline BLINK_ABI
