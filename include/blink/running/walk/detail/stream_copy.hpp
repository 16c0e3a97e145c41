// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Bytes that bypass the caches together.
inline constexpr std::size_t streamed_line = 64;

/// Writes one line, aligned to lines.
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

/// Copies past the caches, for data that is not read soon. That saves reading the lines that are
/// overwritten. `finish_streaming` must follow before the data is announced.
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

/// Shorter copies use the C library.
///
/// For longer ones the library uses the one copy instruction of x86-64. It is slow if no core's own
/// cache has the overwritten lines, as in slots that are used in turn. It is fast in outputs of
/// peers, so those copies keep it.
inline constexpr std::size_t copied_by_library = 1024;

inline constexpr std::size_t copied_line = 64;

/// Copies into slots of memory that cores share, and out of them.
inline void copy_by_slots(std::byte* to, std::byte const* from, std::size_t bytes) {
#if BLINK_HAS_STREAMING_STORES
  using word [[gnu::vector_size(16)]] = long long;
  auto const word_at = [&](std::size_t at) {
    word one;
    std::memcpy(&one, from + at, sizeof one);
    return one;
  };
  auto const copy_line = [&](std::size_t at) {
    word a = word_at(at), b = word_at(at + 16), c = word_at(at + 32), d = word_at(at + 48);
    __asm__("" : "+x"(a), "+x"(b), "+x"(c), "+x"(d));  // otherwise it becomes the library's copy
    std::memcpy(to + at, &a, sizeof a);
    std::memcpy(to + at + 16, &b, sizeof b);
    std::memcpy(to + at + 32, &c, sizeof c);
    std::memcpy(to + at + 48, &d, sizeof d);
  };
  if (bytes > copied_by_library) {
    for (std::size_t at = 0; at + copied_line <= bytes; at += copied_line) copy_line(at);
    copy_line(bytes - copied_line);
    return;
  }
  // otherwise g++ sees that it is short, and uses that instruction itself
  __asm__("" : "+r"(bytes));
#endif
  std::memcpy(to, from, bytes);
}

}}}  // namespace blink::BLINK_ABI::detail
