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

/// One rank's block in a buffer whose blocks are not equal, in elements.
struct block {
  std::size_t begin = 0;
  std::size_t count = 0;
  friend bool operator==(block const&, block const&) = default;
};

/// Blocks of these counts one behind the other.
[[nodiscard]] inline std::vector<block> consecutive_blocks(std::vector<std::size_t> const& counts) {
  std::vector<block> result;
  std::size_t begin = 0;
  for (std::size_t const count : counts) {
    result.push_back({begin, count});
    begin += count;
  }
  return result;
}

/// Cuts `count` elements into blocks one behind the other, in proportion to the shares: those of
/// `schedule::shares`, so that each link carries what the plan promised, or any others.
///
/// Throws: precondition_error if the shares are all 0, or sum to 2^63 or more.
/// Post:   the blocks cover everything once; one of a rank with the share 0 is empty.
[[nodiscard]] inline std::vector<block> proportional_blocks(
    std::size_t count, std::vector<std::uint64_t> const& shares) {
  std::uint64_t all = 0;
  for (auto const share : shares) {
    expects(share < (std::uint64_t{1} << 63) - all,
            "proportional_blocks: shares that sum to less than 2^63");
    all += share;
  }
  expects(all > 0, "proportional_blocks: a share that is not 0");
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

/// Where the last block ends, in elements.
[[nodiscard]] inline std::size_t end_of(std::vector<block> const& blocks) {
  std::size_t result = 0;
  for (auto const& one : blocks) {
    if (one.count > 0) result = std::max(result, one.begin + one.count);
  }
  return result;
}

/// Checks that there is a block for each rank, and that an address can name where each ends.
///
/// are_written: blocks must not overlap then
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
                               " has more bytes than an address can name");
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

/// Throws: precondition_error if elements [0, count) at `a` and [0, other) at `b` overlap.
inline void expect_apart(std::string const& name, void const* a, std::size_t bytes, void const* b,
                         std::size_t other_bytes) {
  auto const first = reinterpret_cast<std::uintptr_t>(a);
  auto const second = reinterpret_cast<std::uintptr_t>(b);
  if (first < second + other_bytes && second < first + bytes) {
    throw precondition_error(name + ": the buffers overlap and are not in place");
  }
}

inline void expect_buffer(std::string const& name, char const* which, void const* buffer,
                          std::size_t count) {
  if (count > 0 && buffer == nullptr) {
    throw precondition_error(name + ": the " + which + " is null");
  }
}

}  // namespace detail

}}  // namespace blink::BLINK_ABI
