// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace blink_test {

/// True if ThreadSanitizer watches the program, which then takes many times as long.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool has_thread_sanitizer = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool has_thread_sanitizer = true;
#else
inline constexpr bool has_thread_sanitizer = false;
#endif
#else
inline constexpr bool has_thread_sanitizer = false;
#endif

}  // namespace blink_test
