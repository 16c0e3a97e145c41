// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/walk/stall.hpp>

#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// For whom a rank waits, as one word, so that others read it whole: never 0. Peer and tree are kept to 15
/// bits, the chunk to 32.
[[nodiscard]] inline std::uint64_t pack_stall(stall const& where) {
  auto const bits = [](long long number, int count) {  // -1 as 0
    return static_cast<std::uint64_t>(number + 1) & ((std::uint64_t{1} << count) - 1);
  };
  return std::uint64_t{1} << 63 | (where.sends ? std::uint64_t{1} << 62 : 0) |
         bits(where.peer, 15) << 47 | bits(where.tree, 15) << 32 | bits(where.chunk, 32);
}
/// Nothing is told by 0. Of the kind and the number of chunks nothing is kept.
[[nodiscard]] inline told_stall unpack_stall(std::uint64_t word) {
  if (word == 0) return {};
  auto const number = [&](int shift, int count) {
    return static_cast<long long>(word >> shift & ((std::uint64_t{1} << count) - 1)) - 1;
  };
  stall where;
  where.sends = (word >> 62 & 1) != 0;
  where.peer = static_cast<int>(number(47, 15));
  where.tree = static_cast<int>(number(32, 15));
  where.chunk = number(0, 32);
  return {true, where};
}

}}  // namespace blink::BLINK_ABI
