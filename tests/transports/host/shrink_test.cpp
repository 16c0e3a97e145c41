// SPDX-License-Identifier: Apache-2.0
// Thread ranks that continue after one of them has left.

#include <blink/collectives.hpp>
#include <blink/collectives/call_queue.hpp>
#include <blink/planning/plan/make_schedule.hpp>
#include <blink/planning/planners/plan_direct.hpp>
#include <blink/topology/machines.hpp>
#include <blink/topology/subset.hpp>
#include <blink/transports/host/slots.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

// A folder may be compiled as one source.
namespace shrink_test { namespace {

template <class Transport>
class shrink : public testing::Test {
 protected:
  static blink::communicator_options options(std::chrono::milliseconds deadline) {
    blink::communicator_options result;
    result.waits.deadline = deadline;
    result.slot_bytes = 256;
    return result;
  }
  template <class Comm>
  static int sum_of_ranks(Comm& comm, blink::schedule const& source) {
    std::vector<int> data(300, comm.rank() + 1);
    blink::all_reduce(comm, source, data.data(), data.data(), data.size(), blink::sum{});
    for (int const value : data) EXPECT_EQ(value, data[0]);
    return data[0];
  }
};
using links = testing::Types<blink::threads_link, blink::slot_transport>;
TYPED_TEST_SUITE(shrink, links);

TYPED_TEST(shrink, to_those_that_did_not_leave) {
  blink::basic_thread_ranks<TypeParam> threads(5, this->options(std::chrono::seconds(20)));
  std::vector<int> sums(5, 0);
  threads.run([&](auto& comm) {
    int const old_rank = comm.rank();
    this->sum_of_ranks(comm, blink::star_schedule(5));
    if (old_rank == 1 || old_rank == 4) return;  // no rank waits for the deadline because of them
    try {
      this->sum_of_ranks(comm, blink::chain_schedule(5, 2));
      ADD_FAILURE() << "rank " << old_rank << " noticed nothing";
    } catch (blink::collective_error const& failure) {
      EXPECT_TRUE(failure.peer == 1 || failure.peer == 4) << failure.what();
      auto smaller = comm.shrink();
      ASSERT_EQ(smaller.rank_count(), 3);
      EXPECT_EQ(smaller.rank(), old_rank == 0 ? 0 : old_rank - 1);
      sums[static_cast<std::size_t>(old_rank)] =
          this->sum_of_ranks(smaller, blink::binomial_schedule(3, 1));
    }
  });
  EXPECT_EQ(sums, (std::vector<int>{6, 0, 6, 6, 0}));
}

TYPED_TEST(shrink, again_and_again) {
  blink::basic_thread_ranks<TypeParam> threads(4, this->options(std::chrono::seconds(20)));
  threads.run([&](auto& comm) {
    auto mine = comm;
    for (int ranks = 4; ranks > 1; --ranks) {
      ASSERT_EQ(mine.rank_count(), ranks);
      EXPECT_EQ(this->sum_of_ranks(mine, blink::star_schedule(ranks)), ranks * (ranks + 1) / 2);
      if (mine.rank() == 0) return;
      EXPECT_THROW(this->sum_of_ranks(mine, blink::star_schedule(ranks)), blink::collective_error);
      mine = mine.shrink();
    }
    EXPECT_EQ(this->sum_of_ranks(mine, blink::star_schedule(1)), 1);
  });
}

// The trees of six GPUs of a DGX-1, then those of the five that remain.
TYPED_TEST(shrink, and_plans_again_for_what_is_left_of_the_machine) {
  auto const schedule_for = [](std::vector<int> const& gpus) {
    auto const machine = blink::subset(blink::machines::dgx1v(), gpus);
    return blink::make_schedule(machine, blink::plan_direct(machine, {}));
  };
  std::vector<int> const gpus{0, 1, 2, 3, 4, 5};
  std::vector<int> const left{0, 1, 2, 4, 5};
  blink::basic_thread_ranks<TypeParam> threads(6, this->options(std::chrono::seconds(20)));
  threads.run([&](auto& comm) {
    int const own_gpu = gpus[static_cast<std::size_t>(comm.rank())];
    auto const before = schedule_for(gpus);
    EXPECT_EQ(this->sum_of_ranks(comm, before), 21);
    if (own_gpu == 3) return;
    EXPECT_THROW(this->sum_of_ranks(comm, before), blink::collective_error);
    auto smaller = comm.shrink();
    // The survivors send each other their old ranks.
    std::vector<int> members(static_cast<std::size_t>(smaller.rank_count()));
    blink::all_gather(smaller, blink::star_schedule(smaller.rank_count()), &own_gpu, members.data(),
                      1);
    EXPECT_EQ(members, left);
    EXPECT_EQ(this->sum_of_ranks(smaller, schedule_for(members)), 15);
  });
}

// As after an exception of its own.
TYPED_TEST(shrink, who_shrinks_while_others_call_is_the_cause) {
  for (bool const is_barrier : {false, true}) {
    blink::basic_thread_ranks<TypeParam> threads(3, this->options(std::chrono::seconds(20)));
    threads.run([&](auto& comm) {
      if (comm.rank() != 1) {
        try {
          if (is_barrier) blink::barrier(comm);
          this->sum_of_ranks(comm, blink::star_schedule(3));
          ADD_FAILURE() << "rank " << comm.rank() << " noticed nothing";
        } catch (blink::collective_error const& failure) {
          EXPECT_EQ(failure.rank, comm.rank()) << failure.what();
          EXPECT_EQ(failure.peer, 1) << failure.what();
          EXPECT_NE(std::string(failure.what()).find("rank 1 shrinks the communicator"),
                    std::string::npos)
              << failure.what();
        }
      }
      auto again = comm.shrink();
      EXPECT_EQ(this->sum_of_ranks(again, blink::star_schedule(3)), 6);
    });
  }
}

// Rank 2 sends to rank 0, which waits for rank 1. Rank 2 has done its part of that call when it
// ends all later calls.
TYPED_TEST(shrink, calls_before_end_well) {
  auto options = this->options(std::chrono::seconds(20));
  options.eager_payload = 0;
  blink::basic_thread_ranks<TypeParam> threads(3, options);
  std::size_t const count =
      3 * options.slot_bytes / sizeof(int);  // slots of rank 0 hold two thirds
  threads.run([&](auto& comm) {
    auto const source = blink::chain_schedule(3, 2);
    std::vector<int> data(count, comm.rank());
    blink::call_queue queue(comm);
    auto call =
        queue.start(blink::collective::broadcast, source, data.data(), data.data(), data.size());
    if (comm.rank() == 1) {
      while (!threads.state().is_aborted(2)) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));  // so that rank 0 also sees it
    }
    call.wait();
    EXPECT_EQ(data, std::vector<int>(count, 2));
    auto again = comm.shrink();
    EXPECT_EQ(this->sum_of_ranks(again, source), 6);
  });
}

// Rank 0 has sent everything and starts to shrink. The remaining messages take longer than the
// deadline.
TEST(shrink_shaped, waits_for_those_who_are_ending_an_earlier_call) {
  blink::communicator_options options;
  options.waits.deadline = std::chrono::milliseconds(1000);
  options.eager_payload = 0;
  options.slot_bytes = 1024;
  blink::shaped_thread_ranks threads(4, options);
  auto source = blink::chain_schedule(4, 0);
  source.link_bytes_per_second = {1e4, 1e4,
                                  1e4 / 3};  // a chunk takes 0.1 s, over the last link 0.3 s
  source.trees[0].broadcast_route = {{}, {0}, {1}, {2}};
  source.trees[0].chunk_bytes = 1000;
  threads.run([&](auto& comm) {
    std::vector<char> data(14'000, static_cast<char>(comm.rank()));
    blink::broadcast(comm, source, data.data(), data.data(), data.size());
    EXPECT_EQ(data, std::vector<char>(data.size(), 0));
    EXPECT_EQ(comm.shrink().rank_count(), 4);
  });
}

TYPED_TEST(shrink, leaves_out_who_comes_too_late) {
  blink::basic_thread_ranks<TypeParam> threads(3, this->options(std::chrono::milliseconds(1500)));
  std::latch others(2), others_went_on(2);
  auto const count_down = [](std::latch* latch) { latch->count_down(); };
  threads.run([&](auto& comm) {
    std::unique_ptr<std::latch, decltype(count_down)> counted(
        comm.rank() == 2 ? nullptr : &others_went_on, count_down);  // also after an exception
    if (comm.rank() == 2) {
      others_went_on.wait();
    } else {
      others.arrive_and_wait();
    }
    EXPECT_THROW(this->sum_of_ranks(comm, blink::star_schedule(3)), blink::collective_error);
    if (comm.rank() == 2) {
      EXPECT_THROW((void)comm.shrink(), blink::collective_error);
      return;
    }
    auto smaller = comm.shrink();
    counted.reset();
    EXPECT_EQ(this->sum_of_ranks(smaller, blink::star_schedule(2)), 3);
  });
}

}}  // namespace shrink_test
