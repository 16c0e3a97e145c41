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

// POSIX threads, because <thread> and <mutex> are slow to compile.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Yields the core to other threads.
inline void yield_core() {
  ::sched_yield();
}

/// The number of threads that can run at once; 1 if the system does not report it.
[[nodiscard]] inline unsigned core_count() {
  long const cores = ::sysconf(_SC_NPROCESSORS_ONLN);
  return cores < 1 ? 1 : static_cast<unsigned>(cores);
}

/// The core that runs this thread; -1 if it is not known.
[[nodiscard]] inline int present_core() {
#if defined(__linux__)
  return ::sched_getcpu();
#else
  return -1;
#endif
}

/// A mutex.
class host_mutex {
 public:
  host_mutex() = default;
  host_mutex(host_mutex const&) = delete;
  host_mutex& operator=(host_mutex const&) = delete;
  ~host_mutex() { ::pthread_mutex_destroy(&mutex_); }

  /// Holds the mutex for its own lifetime.
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

/// Threads that the destructor joins.
class joined_threads {
 public:
  /// most: the largest number of threads that it may start
  explicit joined_threads(std::size_t most) : threads_(new pthread_t[most]) {}
  joined_threads(joined_threads const&) = delete;
  joined_threads& operator=(joined_threads const&) = delete;
  ~joined_threads() {
    while (count_ > 0) ::pthread_join(threads_[--count_], nullptr);
    delete[] threads_;
  }

  /// Runs `work` in a new thread.
  ///
  /// Pre:    fewer than `most` threads have been started; `work` throws nothing, because an
  ///         exception would end the program. It may end its thread (`pthread_exit`).
  /// Throws: resource_error if the system cannot start a thread.
  template <class Work>
  void start(Work work) {
    auto* const own = new Work(std::move(work));
    int const refusal = ::pthread_create(threads_ + count_, nullptr, &run<Work>, own);
    if (refusal != 0) {
      delete own;
      throw resource_error(
          text_of({"joined_threads::start: ", std::strerror(refusal), ", expected a new thread"}));
    }
    ++count_;
  }

 private:
  template <class Work>
  static void* run(void* own) {
    struct owned {
      Work* work;
      ~owned() { delete work; }
    } const here{static_cast<Work*>(own)};
    (*here.work)();
    return nullptr;
  }

  pthread_t* threads_;
  std::size_t count_ = 0;
};

}}}  // namespace blink::BLINK_ABI::detail

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Sleeps until `wake` is called for `word`, but at most for `longest`. Returns at once if the word
/// no longer has the value `expected`. The word may lie in memory that processes share. The call
/// may also return without a reason.
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

/// Wakes up to `most` threads that sleep on `word`.
///
/// Pre: the word was changed before.
inline void wake([[maybe_unused]] std::atomic<std::uint32_t>& word, [[maybe_unused]] int most = 1) {
#if defined(__linux__)
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, most, nullptr, nullptr,
          0);
#endif
}

}}}  // namespace blink::BLINK_ABI::detail
