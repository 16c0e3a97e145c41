// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// The square root of a size, rounded down, at most 2^32. It avoids `<cmath>`, which is slow to
/// compile.
[[nodiscard]] inline std::size_t square_root(double square) {
  constexpr double most = 0x1p62;
  auto const target = static_cast<std::uint64_t>(square < 0 ? 0 : square > most ? most : square);
  std::uint64_t root = 0;
  for (std::uint64_t bit = std::uint64_t{1} << (std::bit_width(target) / 2); bit > 0; bit /= 2) {
    if ((root + bit) * (root + bit) <= target) root += bit;
  }
  return static_cast<std::size_t>(root);
}

}  // namespace detail

/// The chunk size, in bytes, that finishes a pipeline of `steps` steps first.
///
/// With a start-up time a for each chunk and a rate b, a part of S bytes takes
/// (ceil(S/c) + steps - 1)(a + c/b). That is least at c = sqrt(a b S / (steps - 1)). The number of
/// chunks is one of the two integers next to S/c, whichever takes less time. All chunks have one
/// size, because a last chunk of a few bytes would cost as much as a full one. With one step the
/// chunk is the whole part.
[[nodiscard]] inline std::size_t pipeline_chunk_bytes(std::size_t part_bytes, int steps,
                                                      double chunk_seconds,
                                                      double bytes_per_second) {
  if (steps <= 1) return part_bytes;
  double const square = chunk_seconds * bytes_per_second * static_cast<double>(part_bytes) /
                        static_cast<double>(steps - 1);
  std::size_t const root = detail::square_root(square);
  std::size_t const best = root == 0 ? 1 : root;
  auto const chunk_of = [&](std::size_t chunks) {
    constexpr std::size_t unit = 16;  // whole elements
    std::size_t const bytes = ((part_bytes + chunks - 1) / chunks + unit - 1) / unit * unit;
    return bytes < part_bytes ? bytes : part_bytes;
  };
  auto const seconds = [&](std::size_t chunks) {
    return (static_cast<double>(chunks) + steps - 1) *
           (chunk_seconds + static_cast<double>(chunk_of(chunks)) / bytes_per_second);
  };
  std::size_t const few = part_bytes < best ? 1 : part_bytes / best;
  return chunk_of(seconds(few + 1) < seconds(few) ? few + 1 : few);
}

/// The cost of chunks, used to choose their size and for shaped links.
struct pipeline_costs {
  double chunk_seconds = 1e-6;  ///< of each chunk in each step, beside its bytes
  /// over one edge; links with rates in the schedule count instead
  double bytes_per_second = 1e10;
  double latency_seconds = 0;  ///< shaped links: from the end of sending to the arrival
  friend bool operator==(pipeline_costs const&, pipeline_costs const&) = default;
};

}}  // namespace blink::BLINK_ABI
