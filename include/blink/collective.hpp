// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace blink::inline BLINK_ABI {

enum class collective : std::uint8_t { broadcast, reduce, all_reduce, all_gather, reduce_scatter };

inline constexpr std::array<std::string_view, 5> collective_names{
    "broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter"};

[[nodiscard]] constexpr std::string_view to_text(collective kind) {
  return collective_names[static_cast<std::size_t>(kind)];
}

/// Do the trees of this collective carry data towards their roots?
[[nodiscard]] constexpr bool has_reduce_phase(collective kind) {
  return kind == collective::reduce || kind == collective::all_reduce ||
         kind == collective::reduce_scatter;
}
/// Do the trees of this collective carry data away from their roots?
[[nodiscard]] constexpr bool has_broadcast_phase(collective kind) {
  return kind == collective::broadcast || kind == collective::all_reduce ||
         kind == collective::all_gather;
}
/// Does every rank root an equal share (instead of one rank or any mix)?
[[nodiscard]] constexpr bool has_equal_roots(collective kind) {
  return kind == collective::all_gather || kind == collective::reduce_scatter;
}

}  // namespace blink::inline BLINK_ABI
