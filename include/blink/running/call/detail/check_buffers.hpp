// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Memory that a call reads or writes.
struct memory_range {
  std::uintptr_t begin = 0, end = 0;
  bool is_written = false;

  memory_range(void const* first, std::size_t bytes, bool writes)
      : begin(reinterpret_cast<std::uintptr_t>(first)), end(begin + bytes), is_written(writes) {}
};

/// Does one that is written overlap another one?
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

/// What a rank does with its buffers in a collective.
struct buffer_use {
  bool reads = false;   ///< the input
  bool writes = false;  ///< the output
};

/// How the two buffers of a rank lie to each other.
enum class buffer_overlap : std::uint8_t {
  none,
  in_place,  ///< this rank's block in the input is this rank's block in the output
};

/// Checks the buffers of one rank before it enters a call; ranks are equal in what is common, so
/// only this rank's mistake is found here.
///
/// count:  elements of the whole buffer, or of one block where the collective has blocks
/// Throws: precondition_error if a buffer that the rank needs is null, has more bytes than an address can
///         name, or overlaps the other one in another way than in place.
template <class = when_used>
[[nodiscard]] buffer_overlap check_buffers(collective kind, buffer_use use, int rank,
                                           int rank_count, void const* input, void* output,
                                           std::size_t count, std::size_t element_bytes) {
  auto const refuse = [&](std::initializer_list<text_piece> what) {
    throw precondition_error(text_of({to_text(kind), " on rank ", rank, ": ", text_of(what)}));
  };
  auto const ranks = static_cast<std::size_t>(rank_count);
  if (count > std::numeric_limits<std::size_t>::max() / 2 / element_bytes / ranks) {
    refuse({"count ", count, " times ", element_bytes, " bytes times ", ranks,
            " ranks is more than an address can name"});
  }
  if (count == 0) return buffer_overlap::none;
  if (use.reads && input == nullptr) refuse({"the input is null"});
  if (use.writes && output == nullptr) refuse({"the output is null"});
  if (!use.reads || !use.writes) return buffer_overlap::none;
  std::size_t const block = count * element_bytes;
  auto const own = block * static_cast<std::size_t>(rank);
  auto const in = reinterpret_cast<std::uintptr_t>(input);
  auto const out = reinterpret_cast<std::uintptr_t>(output);
  if (in + (has_input_blocks(kind) ? own : 0) == out + (has_output_blocks(kind) ? own : 0)) {
    return buffer_overlap::in_place;
  }
  auto const in_bytes = has_input_blocks(kind) ? block * ranks : block;
  auto const out_bytes = has_output_blocks(kind) ? block * ranks : block;
  if (in < out + out_bytes && out < in + in_bytes) {
    refuse({"the buffers overlap and are not in place: the ",
            in < out ? "output begins " : "input begins ", in < out ? out - in : in - out,
            in < out ? " bytes behind the input" : " bytes behind the output"});
  }
  return buffer_overlap::none;
}

}}}  // namespace blink::BLINK_ABI::detail
