// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/session.hpp>
#include <blink/config.hpp>

#include <cstddef>
#include <vector>

namespace blink::inline BLINK_ABI::detail {

/// An array that calls of a session may take: from the session where peers reach only what it
/// allocates, else from the heap. Elements are zeros.
template <class T, session Me>
[[nodiscard]] auto session_buffer(Me& me, std::size_t count) {
  if constexpr (allocating_session<Me>) {
    return me.template allocate<T>(count);
  } else {
    return std::vector<T>(count);
  }
}

}  // namespace blink::inline BLINK_ABI::detail
