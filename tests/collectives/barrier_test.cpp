// SPDX-License-Identifier: Apache-2.0
// Barriers, with and without a schedule.

#include <blink/collectives.hpp>
#include <blink/transports/host/slots.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <latch>
#include <string>
#include <thread>
#include <vector>

// A folder may be compiled as one source.
namespace barrier_test { namespace {

template <class Ranks>
class barrier : public testing::Test {};
using rank_owners =
    testing::Types<blink::thread_ranks, blink::basic_thread_ranks<blink::slot_transport>>;
TYPED_TEST_SUITE(barrier, rank_owners);

// Plain writes before a barrier are read after it: ThreadSanitizer reports a missing order.
TYPED_TEST(barrier, no_rank_passes_before_all_have_come) {
  for (int const ranks : {1, 2, 3, 5}) {
    TypeParam threads(ranks);
    std::vector<int> marks(static_cast<std::size_t>(ranks) * 32, 0);
    threads.run([&](auto& comm) {
      for (int round = 1; round <= 60; ++round) {
        marks[static_cast<std::size_t>(comm.rank()) * 32] = round;
        if (round % 4 == 3) {
          int const one = 1;
          int sum = 0;
          blink::all_reduce(comm, blink::star_schedule(ranks), &one, &sum, 1, blink::sum{});
        }
        if (round % 2 == 0) {
          blink::barrier(comm);
        } else {
          blink::barrier(comm, blink::binomial_schedule(ranks, round % ranks));
        }
        for (int rank = 0; rank < ranks; ++rank) {
          ASSERT_EQ(marks[static_cast<std::size_t>(rank) * 32], round);
        }
        blink::barrier(comm);
      }
    });
  }
}

TYPED_TEST(barrier, who_does_not_come_is_named) {
  for (bool const is_gone : {false, true}) {
    blink::communicator_options options;
    options.waits.deadline = std::chrono::milliseconds(is_gone ? 20'000 : 300);
    TypeParam threads(3, options);
    std::latch others(2);  // on a busy machine threads start one after the other
    std::atomic<int> reported = 0;
    std::atomic<int> left = 2;
    threads.run([&](auto& comm) {
      if (is_gone) blink::barrier(comm);
      if (comm.rank() == 1) {
        while (!is_gone && left > 0) std::this_thread::yield();
        return;
      }
      others.arrive_and_wait();
      try {
        blink::barrier(comm);
        ADD_FAILURE() << "passed";
      } catch (blink::collective_error const& error) {
        EXPECT_EQ(error.peer, 1) << error.what();
        EXPECT_NE(std::string(error.what()).find(is_gone ? "barrier 2" : "barrier 1"),
                  std::string::npos)
            << error.what();
        ++reported;
      }
      --left;
    });
    EXPECT_EQ(reported, 2);
  }
}

TYPED_TEST(barrier, after_a_failure_no_rank_passes) {
  blink::communicator_options options;
  options.waits.deadline = std::chrono::seconds(20);
  TypeParam threads(2, options);
  threads.run([&](auto& comm) {
    std::vector<int> data(8, 1);
    EXPECT_THROW(blink::all_reduce(comm, blink::star_schedule(2), data.data(), data.data(),
                                   comm.rank() == 0 ? 8 : 7, blink::sum{}),
                 blink::collective_error);
    EXPECT_THROW(blink::barrier(comm), blink::collective_error);
  });
}

}}  // namespace barrier_test
