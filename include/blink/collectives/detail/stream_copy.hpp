// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

// Stores past the caches: x86-64 has them in its base; ThreadSanitizer does not see them.
#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__) && !BLINK_DEVICE_PASS
#if defined(__has_feature)
#if !__has_feature(thread_sanitizer)
#define BLINK_HAS_STREAMING_STORES 1
#endif
#else
#define BLINK_HAS_STREAMING_STORES 1
#endif
#endif
#if defined(BLINK_HAS_STREAMING_STORES)
#include <emmintrin.h>
#endif

namespace blink::inline BLINK_ABI::detail {

/// Copies past the caches, for data that nobody reads soon: saves reading the lines that are
/// overwritten. `finish_streaming` must follow before anybody is told.
inline void stream_copy(std::byte* to, std::byte const* from, std::size_t bytes) {
#if defined(BLINK_HAS_STREAMING_STORES)
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
    for (std::size_t part = 0; part < line; part += 16) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + at + part),
                       _mm_loadu_si128(reinterpret_cast<__m128i const*>(from + at + part)));
    }
  }
  std::memcpy(to + at, from + at, bytes - at);
#else
  std::memcpy(to, from, bytes);
#endif
}

/// Orders streamed stores before the stores that follow.
inline void finish_streaming() {
#if defined(BLINK_HAS_STREAMING_STORES)
  _mm_sfence();
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
