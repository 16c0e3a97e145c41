// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/duration.hpp>

#include <atomic>
#include <cstdint>
#include <ctime>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Sleeps until `wake` is called for `word`, for at most `longest`; not at all if it is no longer
/// `expected`. The word may lie in memory of several processes. May also wake up for no reason.
inline void sleep_on(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                     nanoseconds longest) {
  constexpr long long second = 1'000'000'000;
  timespec const time{static_cast<time_t>(longest.count() / second),
                      static_cast<long>(longest.count() % second)};
#if defined(__linux__)
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, expected, &time, nullptr,
          0);
#else
  if (word.load() == expected) nanosleep(&time, nullptr);
#endif
}

/// Wakes the thread that sleeps on `word`. Pre: the word was changed before.
inline void wake([[maybe_unused]] std::atomic<std::uint32_t>& word) {
#if defined(__linux__)
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, 1, nullptr, nullptr, 0);
#endif
}

}}}  // namespace blink::BLINK_ABI::detail
