// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// Type of products of counts and weights. On a device a 128-bit division is a function call that
/// needs a stack.
#if BLINK_DEVICE_PASS
using count_times_weight = std::uint64_t;
#else
__extension__ typedef unsigned __int128 count_times_weight;
#endif

}  // namespace detail

/// Alignment of the parts in bytes, so that no two ranks write to one cache line of an aligned
/// buffer.
inline constexpr std::size_t part_alignment_bytes = 64;

/// The begin of a tree's part in a buffer of `count` elements that is split in proportion to
/// weights. All ranks and all collectives use this rule.
///
/// `before` is the sum of the weights of all earlier trees, and `total` the sum of all weights.
/// Part i reaches from its begin to the begin of part i+1; the last ends at `count`.
///
/// The begin is floor(count * before / total), rounded down to a multiple of the elements that fit
/// into a line of 64 bytes (at least one). So parts are contiguous, in the order of the trees, and
/// cover everything once. Short buffers go to the last trees alone.
///
/// For all-gather and reduce-scatter, the buffer is one rank's block. Its trees are those rooted at
/// that rank, in the order listed.
///
/// Pre:    before <= total, 0 < total < 2^63; in kernels count * total < 2^64.
/// Post:   the result is 0 if before == 0, `count` if before == total, and grows with `before`.
[[nodiscard]] BLINK_HOST_DEVICE constexpr std::size_t part_begin(std::size_t count,
                                                                 std::size_t element_bytes,
                                                                 std::uint64_t before,
                                                                 std::uint64_t total) {
  if (before == total) return count;
  auto const exact = static_cast<std::size_t>(detail::count_times_weight{count} * before / total);
  std::size_t const line =
      element_bytes < part_alignment_bytes ? part_alignment_bytes / element_bytes : 1;
  return exact - exact % line;
}

/// A period of elements, each of which is split over the trees like a buffer of that length. So the
/// tree of element i depends on i alone, for any count.
struct buffer_period {
  std::size_t elements = 1;    ///< in a period
  std::size_t line_bytes = 1;  ///< size of an element for `part_begin`
};

/// The largest period in which no tree's part exceeds `most` elements.
///
/// heaviest: the largest weight among the trees
/// Pre:    most >= 1, 0 < heaviest <= total < 2^63; in kernels most * total < 2^64.
/// Post:   equal parts of every period begin at multiples of a line if `most` has room for it.
[[nodiscard]] BLINK_HOST_DEVICE constexpr buffer_period period_of(std::size_t most,
                                                                  std::size_t element_bytes,
                                                                  std::uint64_t heaviest,
                                                                  std::uint64_t total) {
  std::size_t line =
      element_bytes < part_alignment_bytes ? part_alignment_bytes / element_bytes : 1;
  if (most < 2 * line) line = 1;
  // Rounding begins down to lines makes a part up to line - 1 elements larger.
  detail::count_times_weight const exact =
      detail::count_times_weight{most - (line - 1)} * total / heaviest;
  constexpr std::size_t limit = std::size_t{1} << 62;
  std::size_t const elements = exact < limit ? static_cast<std::size_t>(exact) : limit;
  return {elements < line ? elements : elements - elements % line,
          line == 1 ? part_alignment_bytes : element_bytes};
}

/// A tree's part of a buffer that is split in periods.
struct periodic_part {
  /// of its share in the first period, and relative to the begin of each later one
  std::size_t begin = 0;
  std::size_t share = 0;  ///< elements of one period in its share
  std::size_t count = 0;  ///< elements of the whole buffer in its share
};

/// A tree's part of a buffer of `count` elements that is split in periods.
///
/// Post:   the parts of all trees cover everything once; `share` is at most the `most` of the
///         period.
[[nodiscard]] BLINK_HOST_DEVICE constexpr periodic_part part_of_periods(std::size_t count,
                                                                        buffer_period const& period,
                                                                        std::uint64_t before,
                                                                        std::uint64_t weight,
                                                                        std::uint64_t total) {
  periodic_part result;
  result.begin = part_begin(period.elements, period.line_bytes, before, total);
  result.share =
      part_begin(period.elements, period.line_bytes, before + weight, total) - result.begin;
  std::size_t const rest = count % period.elements;
  std::size_t const of_rest = rest < result.begin ? 0 : rest - result.begin;
  result.count =
      count / period.elements * result.share + (of_rest < result.share ? of_rest : result.share);
  return result;
}

}}  // namespace blink::BLINK_ABI
