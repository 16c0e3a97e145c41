// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/schedule/block.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Segments that lie anywhere in memory, as blocks from the lowest address on. So collectives with
/// blocks take a pointer for each segment, and need no buffer that holds all of them.
template <class T>
struct segment_list {
  T* base = nullptr;          ///< the lowest address
  std::vector<block> blocks;  ///< one for each segment, in the order of the list
};

namespace detail {

template <class T>
[[nodiscard]] segment_list<T> segments_of_list(std::vector<T*> const& starts,
                                               std::vector<std::size_t> const& counts,
                                               std::size_t element_bytes) {
  expects(starts.size() == counts.size(),
          "segments_at: another number of counts than of segments, expected one for each");
  auto const address = [](T* start) { return reinterpret_cast<std::uintptr_t>(start); };
  segment_list<T> result;
  for (std::size_t k = 0; k < starts.size(); ++k) {
    if (counts[k] == 0) continue;
    if (starts[k] == nullptr) {
      throw precondition_error("segments_at: segment " + std::to_string(k) +
                               " is null, expected elements");
    }
    if (result.base == nullptr || address(starts[k]) < address(result.base)) {
      result.base = starts[k];
    }
  }
  for (std::size_t k = 0; k < starts.size(); ++k) {
    if (counts[k] == 0) {
      result.blocks.push_back({});
      continue;
    }
    auto const distance = address(starts[k]) - address(result.base);
    if (distance % element_bytes != 0) {
      throw precondition_error(
          "segments_at: segment " + std::to_string(k) + " lies " + std::to_string(distance) +
          " bytes behind the lowest, expected a multiple of " + std::to_string(element_bytes));
    }
    result.blocks.push_back({distance / element_bytes, counts[k]});
  }
  return result;
}

}  // namespace detail

/// Makes blocks of the segments of a list.
///
///     auto const all = blink::segments_at(pointers, counts);
///     blink::all_gather_v(comm, own, all.base, all.blocks);
///
/// starts: the first element of each segment; may be null where the count is 0
/// counts: the elements of each segment
/// Time:   O(n) for n segments.
/// Throws: precondition_error if the lists differ in length, a segment is null, or segments do not
///         lie a whole number of elements apart.
template <class T>
  requires(!std::is_void_v<T>)
[[nodiscard]] segment_list<T> segments_at(std::vector<T*> const& starts,
                                          std::vector<std::size_t> const& counts) {
  return detail::segments_of_list(starts, counts, sizeof(T));
}

/// The same for segments of one size.
template <class T>
  requires(!std::is_void_v<T>)
[[nodiscard]] segment_list<T> segments_at(std::vector<T*> const& starts, std::size_t count) {
  return segments_at(starts, std::vector<std::size_t>(starts.size(), count));
}

/// The same for elements of `element_bytes` bytes each, as an `array_operation` reduces them.
///
/// Pre: element_bytes > 0
[[nodiscard]] inline segment_list<void> segments_at(std::vector<void*> const& starts,
                                                    std::size_t count, std::size_t element_bytes) {
  return detail::segments_of_list(starts, std::vector<std::size_t>(starts.size(), count),
                                  element_bytes);
}

}}  // namespace blink::BLINK_ABI
