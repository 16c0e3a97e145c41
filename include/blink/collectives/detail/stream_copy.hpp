// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace blink::inline BLINK_ABI::detail {

#if BLINK_HAS_STREAMING_STORES
using streamed_word [[gnu::vector_size(16)]] = long long;
#endif

/// Copies past the caches, for data that nobody reads soon: saves reading the lines that are
/// overwritten. `finish_streaming` must follow before anybody is told.
inline void stream_copy(std::byte* to, std::byte const* from, std::size_t bytes) {
#if BLINK_HAS_STREAMING_STORES
  constexpr std::size_t line = 64;
  std::size_t const misfit = reinterpret_cast<std::uintptr_t>(to) % line;
  std::size_t const head = misfit == 0 ? 0 : line - misfit;
  if (head >= bytes) {
    std::memcpy(to, from, bytes);
    return;
  }
  std::memcpy(to, from, head);
  std::size_t at = head;
  for (; at + line <= bytes; at += line) {
    for (std::size_t part = 0; part < line; part += sizeof(streamed_word)) {
      streamed_word word;
      std::memcpy(&word, from + at + part, sizeof word);
      BLINK_STREAMING_STORE(reinterpret_cast<streamed_word*>(to + at + part), word);
    }
  }
  std::memcpy(to + at, from + at, bytes - at);
#else
  std::memcpy(to, from, bytes);
#endif
}

/// Orders streamed stores before the stores that follow.
inline void finish_streaming() {
#if BLINK_HAS_STREAMING_STORES
  __builtin_ia32_sfence();
#endif
}

inline void copy_bytes(std::byte* to, std::byte const* from, std::size_t bytes, bool streams) {
  if (streams) {
    stream_copy(to, from, bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
}

}  // namespace blink::inline BLINK_ABI::detail
