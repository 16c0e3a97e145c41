// SPDX-License-Identifier: Apache-2.0
// Threads, locks and shared owners for the ranks of a process.

#include <blink/core/detail/counted.hpp>
#include <blink/core/detail/host_threads.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <thread>
#include <utility>
#include <vector>

namespace host_threads_test { namespace {

using blink::detail::counted;
using blink::detail::host_mutex;
using blink::detail::joined_threads;

/// Counts its living instances.
struct counted_life {
  explicit counted_life(std::atomic<int>& lives) : lives_(lives) { ++lives_; }
  counted_life(counted_life const&) = delete;
  counted_life& operator=(counted_life const&) = delete;
  ~counted_life() { --lives_; }

  int value = 0;

 private:
  std::atomic<int>& lives_;
};

TEST(joined_threads, have_ended_where_they_end) {
  std::vector<int> done(64, 0);
  {
    joined_threads threads(done.size());
    for (std::size_t k = 0; k < done.size(); ++k) {
      threads.start([&done, k] {
        std::this_thread::yield();
        done[k] = static_cast<int>(k) + 1;  // visible afterwards because the threads are joined
      });
    }
  }
  for (std::size_t k = 0; k < done.size(); ++k) EXPECT_EQ(done[k], static_cast<int>(k) + 1);
}

TEST(joined_threads, give_back_what_their_work_holds) {
  std::atomic<int> lives = 0;
  {
    auto const shared = counted<counted_life>::make(lives);
    joined_threads threads(3);
    for (int k = 0; k < 2; ++k) threads.start([shared] { EXPECT_EQ(shared->value, 0); });
  }
  EXPECT_EQ(lives, 0);
}

TEST(host_mutex, lets_one_in_at_a_time) {
  host_mutex mutex;
  int sum = 0;
  {
    joined_threads threads(4);
    for (int k = 0; k < 4; ++k) {
      threads.start([&] {
        for (int round = 0; round < 2000; ++round) {
          host_mutex::hold const held(mutex);
          ++sum;
        }
      });
    }
  }
  EXPECT_EQ(sum, 8000);
}

TEST(counted, goes_with_the_last_copy) {
  std::atomic<int> lives = 0;
  counted<counted_life> last;
  {
    auto const first = counted<counted_life>::make(lives);
    first->value = 7;
    auto copy = first;
    last = copy;
    copy = counted<counted_life>::make(lives);
    EXPECT_EQ(lives, 2);
    copy = std::move(last);
    EXPECT_EQ(lives, 1);
    last = std::as_const(copy);
    auto const& same = last;
    last = same;
  }
  EXPECT_EQ(lives, 1);
  EXPECT_EQ((*last).value, 7);
  last = {};
  EXPECT_EQ(lives, 0);
}

TEST(counted, is_let_go_by_many_threads_at_once) {
  std::atomic<int> lives = 0;
  for (int round = 0; round < 50; ++round) {
    auto shared = counted<counted_life>::make(lives);
    joined_threads threads(4);
    for (int k = 0; k < 4; ++k) threads.start([shared] { (void)counted<counted_life>(shared); });
    shared = {};
  }
  EXPECT_EQ(lives, 0);
}

TEST(core_count, is_that_of_the_standard_library) {
  EXPECT_EQ(blink::detail::core_count(), std::thread::hardware_concurrency());
}

}}  // namespace host_threads_test
