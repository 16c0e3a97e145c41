// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// One rank's block in a buffer of unequal blocks, in elements.
struct block {
  std::size_t begin = 0;
  std::size_t count = 0;
  friend bool operator==(block const&, block const&) = default;
};

/// Consecutive blocks of the given counts.
[[nodiscard]] inline std::vector<block> consecutive_blocks(std::vector<std::size_t> const& counts) {
  std::vector<block> result;
  std::size_t begin = 0;
  for (std::size_t const count : counts) {
    result.push_back({begin, count});
    begin += count;
  }
  return result;
}

/// Cuts `count` elements into consecutive blocks, in proportion to the shares. With
/// `schedule::shares`, each link carries the load of the plan. Any other shares may be given.
///
/// Throws: precondition_error if the shares are all 0, or sum to 2^63 or more.
/// Post:   the blocks cover every element once; the block of a rank with share 0 is empty.
[[nodiscard]] inline std::vector<block> proportional_blocks(
    std::size_t count, std::vector<std::uint64_t> const& shares) {
  std::uint64_t all = 0;
  for (auto const share : shares) {
    expects(share < (std::uint64_t{1} << 63) - all,
            "proportional_blocks: the shares sum to 2^63 or more, expected less");
    all += share;
  }
  expects(all > 0, "proportional_blocks: all shares are 0, expected a positive one");
  std::vector<block> result;
  std::uint64_t before = 0;
  __extension__ typedef unsigned __int128 wide;
  auto const begin_of = [&](std::uint64_t shares_before) {
    return static_cast<std::size_t>(wide{count} * shares_before / all);
  };
  for (auto const share : shares) {
    result.push_back({begin_of(before), begin_of(before + share) - begin_of(before)});
    before += share;
  }
  return result;
}

namespace detail {

/// The end of the last block, in elements.
[[nodiscard]] inline std::size_t end_of(std::vector<block> const& blocks) {
  std::size_t result = 0;
  for (auto const& one : blocks) {
    if (one.count > 0) result = std::max(result, one.begin + one.count);
  }
  return result;
}

/// Checks that there is a block for each rank, and that its end fits into the address space.
///
/// are_written: true if blocks must not overlap
/// Throws: precondition_error that begins with `name` and names the rank.
inline void check_blocks(std::string const& name, std::vector<block> const& blocks, int rank_count,
                         std::size_t element_bytes, bool are_written) {
  if (blocks.size() != static_cast<std::size_t>(rank_count)) {
    throw precondition_error(name + ": " + std::to_string(blocks.size()) +
                             " blocks, expected one for each of " + std::to_string(rank_count) +
                             " ranks");
  }
  std::size_t const most = std::numeric_limits<std::size_t>::max() / 2 / element_bytes;
  std::vector<std::size_t> order;
  for (std::size_t rank = 0; rank < blocks.size(); ++rank) {
    auto const& one = blocks[rank];
    if (one.begin > most || one.count > most - one.begin) {
      throw precondition_error(name + ": the block of rank " + std::to_string(rank) +
                               " has more bytes than the address space");
    }
    if (one.count > 0) order.push_back(rank);
  }
  if (!are_written) return;
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return blocks[a].begin < blocks[b].begin; });
  for (std::size_t k = 1; k < order.size(); ++k) {
    auto const& before = blocks[order[k - 1]];
    if (before.begin + before.count > blocks[order[k]].begin) {
      throw precondition_error(name + ": the blocks of ranks " + std::to_string(order[k - 1]) +
                               " and " + std::to_string(order[k]) + " overlap");
    }
  }
}

/// Throws: precondition_error if `bytes` bytes at `a` and `other_bytes` bytes at `b` overlap.
inline void expect_apart(std::string const& name, void const* a, std::size_t bytes, void const* b,
                         std::size_t other_bytes) {
  auto const first = reinterpret_cast<std::uintptr_t>(a);
  auto const second = reinterpret_cast<std::uintptr_t>(b);
  if (first < second + other_bytes && second < first + bytes) {
    throw precondition_error(name + ": the buffers overlap and are not in place");
  }
}

/// Throws: precondition_error if a buffer of `count` > 0 elements is null.
inline void expect_buffer(std::string const& name, char const* which, void const* buffer,
                          std::size_t count) {
  if (count > 0 && buffer == nullptr) {
    throw precondition_error(name + ": the " + which + " is null");
  }
}

}  // namespace detail

}}  // namespace blink::BLINK_ABI
