// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Bytes that go past the caches together.
inline constexpr std::size_t streamed_line = 64;

/// One line, which begins where lines do.
inline void stream_line(std::byte* to, std::byte const* from) {
#if BLINK_HAS_STREAMING_STORES
  using word [[gnu::vector_size(16)]] = long long;
  for (std::size_t part = 0; part < streamed_line; part += sizeof(word)) {
    word one;
    std::memcpy(&one, from + part, sizeof one);
    BLINK_STREAMING_STORE(reinterpret_cast<word*>(to + part), one);
  }
#else
  std::memcpy(to, from, streamed_line);
#endif
}

/// Copies past the caches, for data that nobody reads soon: saves reading the lines that are
/// overwritten. `finish_streaming` must follow before anybody is told.
inline void stream_copy(std::byte* to, std::byte const* from, std::size_t bytes) {
#if BLINK_HAS_STREAMING_STORES
  std::size_t const misfit = reinterpret_cast<std::uintptr_t>(to) % streamed_line;
  std::size_t const head = misfit == 0 ? 0 : streamed_line - misfit;
  if (head >= bytes) {
    std::memcpy(to, from, bytes);
    return;
  }
  std::memcpy(to, from, head);
  std::size_t at = head;
  for (; at + streamed_line <= bytes; at += streamed_line) stream_line(to + at, from + at);
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

}}}  // namespace blink::BLINK_ABI::detail
