// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Memory that a call reads or writes.
struct memory_range {
  std::uintptr_t begin = 0, end = 0;
  bool is_written = false;

  memory_range(void const* first, std::size_t bytes, bool writes)
      : begin(reinterpret_cast<std::uintptr_t>(first)), end(begin + bytes), is_written(writes) {}
};

/// True if a range that is written overlaps another one.
///
/// Time: O(n log n); O(n) if they are in order.
[[nodiscard]] inline bool overlap_where_written(std::vector<memory_range> ranges) {
  auto const by_begin = [](memory_range const& a, memory_range const& b) {
    return a.begin < b.begin;
  };
  if (!std::is_sorted(ranges.begin(), ranges.end(), by_begin)) {
    std::sort(ranges.begin(), ranges.end(), by_begin);
  }
  std::uintptr_t end = 0;          // of all so far
  std::uintptr_t written_end = 0;  // of those that are written
  for (auto const& one : ranges) {
    if (one.begin < (one.is_written ? end : written_end)) return true;
    end = std::max(end, one.end);
    if (one.is_written) written_end = std::max(written_end, one.end);
  }
  return false;
}

}}}  // namespace blink::BLINK_ABI::detail
