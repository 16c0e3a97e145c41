// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/detail/hash.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/detail/call_types.hpp>
#include <blink/running/call/detail/check_buffers.hpp>
#include <blink/running/connections/tree_parts.hpp>
#include <blink/schedule/block.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A segment of any size for each rank, for an all-gather or a reduce-scatter.
class unequal_blocks {
 public:
  /// Takes the segments of all ranks.
  ///
  /// name:   of the call, for messages
  /// unit:   elements that move for each element of the caller; more than one if elements move as
  ///         bytes
  /// compares_places: true if the segments lie at the same places in the buffers of all ranks,
  ///                  because peers reach them
  /// Throws: precondition_error unless each rank has a segment, none overlaps another, and an
  ///         address can hold the size of all in elements of `element_bytes` each.
  unequal_blocks(std::string const& name, collective kind, std::vector<block> const& blocks,
                 int rank_count, std::size_t element_bytes, std::size_t unit = 1,
                 bool compares_places = true)
      : gathers_(has_output_blocks(kind)), element_bytes_(element_bytes), unit_(unit) {
    check_blocks(name, blocks, rank_count, element_bytes, true);
    all_bytes_ = end_of(blocks) * element_bytes;
    hash all;
    for (auto const& one : blocks) {
      auto const begin = one.begin * unit;
      ranges_.push_back({gathers_ ? 0 : begin, gathers_ ? begin : 0, one.count * unit});
      if (compares_places) all.add(std::uint64_t{one.begin});
      all.add(std::uint64_t{one.count});
      size_.count += one.count * unit;
    }
    size_.hash = all.value();
  }

  [[nodiscard]] std::size_t count_of(int rank) const { return own(rank).count / unit_; }
  /// Of all segments together.
  [[nodiscard]] std::size_t bytes() const { return bytes_of(size_.count); }

  /// Bytes of a rank's buffers, from their addresses on; 0 if the buffer is not used.
  [[nodiscard]] std::size_t input_bytes(int rank) const {
    return gathers_ ? bytes_of(own(rank).count) : all_bytes_;
  }
  [[nodiscard]] std::size_t output_bytes(int rank) const {
    return gathers_ ? all_bytes_ : bytes_of(own(rank).count);
  }

  /// Checks the buffers of a rank.
  ///
  /// Throws: precondition_error if a buffer that the rank needs is null, or if they overlap and the
  ///         rank's segment is not at its place.
  void check_buffers(std::string const& name, int rank, void const* input, void* output) const {
    expect_buffer(name, "input", input, input_bytes(rank));
    expect_buffer(name, "output", output, output_bytes(rank));
    if (own(rank).count == 0) return;
    auto const in = reinterpret_cast<std::uintptr_t>(input);
    auto const out = reinterpret_cast<std::uintptr_t>(output);
    if (in + bytes_of(own(rank).input_begin) == out + bytes_of(own(rank).output_begin)) return;
    // Other memory of the rank may lie between segments, also its other buffer.
    for (auto const& one : ranges_) {
      if (one.count == 0) continue;
      auto const begin = bytes_of(gathers_ ? one.output_begin : one.input_begin);
      auto const* const segment = static_cast<std::byte const*>(gathers_ ? output : input) + begin;
      expect_apart(name, gathers_ ? input : output, bytes_of(own(rank).count), segment,
                   bytes_of(one.count));
    }
  }

  /// Returns the size of a call. Pre: this object does not move until the call has ended.
  [[nodiscard]] call_size size(std::size_t chunk_bytes) const {
    auto result = size_;
    result.chunk_bytes = chunk_bytes;
    result.blocks = ranges_.data();
    return result;
  }

 private:
  [[nodiscard]] block_range const& own(int rank) const {
    return ranges_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] std::size_t bytes_of(std::size_t moved) const {
    return moved / unit_ * element_bytes_;
  }

  bool gathers_;
  std::size_t element_bytes_;
  std::size_t unit_;
  std::size_t all_bytes_ = 0;        // from the first address on
  std::vector<block_range> ranges_;  // by rank
  call_size size_;
};

}}}  // namespace blink::BLINK_ABI::detail
