// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/duration.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <utility>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

// Threads by POSIX: what is needed here of <thread> and <mutex>, which cost each unit 0.1 s (g++ 12).

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Lets others have the core.
inline void yield_core() {
  ::sched_yield();
}

/// How many threads run at once; 1 if the system does not say.
[[nodiscard]] inline unsigned core_count() {
  long const cores = ::sysconf(_SC_NPROCESSORS_ONLN);
  return cores < 1 ? 1 : static_cast<unsigned>(cores);
}

/// One thread at a time holds it.
class host_mutex {
 public:
  host_mutex() = default;
  host_mutex(host_mutex const&) = delete;
  host_mutex& operator=(host_mutex const&) = delete;
  ~host_mutex() { ::pthread_mutex_destroy(&mutex_); }

  /// Held as long as this lives.
  class [[nodiscard]] hold {
   public:
    explicit hold(host_mutex& mutex) : mutex_(mutex.mutex_) { ::pthread_mutex_lock(&mutex_); }
    hold(hold const&) = delete;
    hold& operator=(hold const&) = delete;
    ~hold() { ::pthread_mutex_unlock(&mutex_); }

   private:
    pthread_mutex_t& mutex_;
  };

 private:
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

/// Threads that are waited for where this ends.
class joined_threads {
 public:
  explicit joined_threads(std::size_t most) : threads_(new pthread_t[most]) {}
  joined_threads(joined_threads const&) = delete;
  joined_threads& operator=(joined_threads const&) = delete;
  ~joined_threads() {
    while (count_ > 0) ::pthread_join(threads_[--count_], nullptr);
    delete[] threads_;
  }

  /// Throws: resource_error if the system has no thread to give.
  /// Pre:    fewer than `most` have been started; `work` throws nothing: what it throws ends the program.
  template <class Work>
  void start(Work work) {
    auto* const own = new Work(std::move(work));
    int const refusal = ::pthread_create(threads_ + count_, nullptr, &run<Work>, own);
    if (refusal != 0) {
      delete own;
      throw resource_error(text_of({"a thread cannot be started: ", std::strerror(refusal)}));
    }
    ++count_;
  }

 private:
  template <class Work>
  static void* run(void* own) noexcept {
    auto* const work = static_cast<Work*>(own);
    (*work)();
    delete work;
    return nullptr;
  }

  pthread_t* threads_;
  std::size_t count_ = 0;
};

}}}  // namespace blink::BLINK_ABI::detail

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
