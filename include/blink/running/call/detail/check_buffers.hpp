// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Use of a rank's buffers in a collective.
struct buffer_use {
  bool reads = false;   ///< the input
  bool writes = false;  ///< the output
};

/// Position of a rank's two buffers relative to each other.
enum class buffer_overlap : std::uint8_t {
  none,
  in_place,  ///< this rank's segment in the input is this rank's segment in the output
};

/// Throws: precondition_error if a buffer of a rank is not aligned for its elements.
///
/// part: its name in the call, such as "input"
inline void expect_aligned(collective kind, int rank, char const* part, void const* at,
                           std::size_t alignment) {
  std::size_t const off = reinterpret_cast<std::uintptr_t>(at) % alignment;
  if (off == 0) return;
  throw precondition_error(
      text_of({to_text(kind), " on rank ", rank, ": the ", part, " lies ", off,
               " bytes behind a multiple of ", alignment, ", the alignment of its elements"}));
}

/// Checks the buffers of one rank before it enters a call. It finds only mistakes of this rank; the
/// ranks compare everything else in the call.
///
/// count:     elements of the whole buffer, or of one segment if the collective has segments
/// alignment: of an element
/// Throws:    precondition_error if a buffer that the rank needs is null, is not aligned for its
///            elements or has more bytes than an address can name; precondition_error if the
///            buffers overlap and are not in place.
template <class = when_used>
[[nodiscard]] buffer_overlap check_buffers(collective kind, buffer_use use, int rank,
                                           int rank_count, void const* input, void* output,
                                           std::size_t count, std::size_t element_bytes,
                                           std::size_t alignment) {
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
  if (use.reads) expect_aligned(kind, rank, "input", input, alignment);
  if (use.writes) expect_aligned(kind, rank, "output", output, alignment);
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
