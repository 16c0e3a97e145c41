// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__has_include) && __has_include(<sanitizer/lsan_interface.h>)
#include <sanitizer/lsan_interface.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define BLINK_TEST_HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BLINK_TEST_HAS_ASAN 1
#endif
#endif

namespace blink_test {

/// While one lives, memory that is allocated is no leak: for libraries that unload plugins without
/// releasing what these hold.
class leaks_of_others {
 public:
#if defined(BLINK_TEST_HAS_ASAN)
  leaks_of_others() { __lsan_disable(); }
  ~leaks_of_others() { __lsan_enable(); }
#else
  leaks_of_others() {}
  ~leaks_of_others() {}
#endif
  leaks_of_others(leaks_of_others const&) = delete;
  leaks_of_others& operator=(leaks_of_others const&) = delete;
};

/// True if AddressSanitizer watches the program, which then takes several times the memory.
#if defined(BLINK_TEST_HAS_ASAN)
inline constexpr bool has_address_sanitizer = true;
#else
inline constexpr bool has_address_sanitizer = false;
#endif

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
