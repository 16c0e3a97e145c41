// SPDX-License-Identifier: Apache-2.0
// MPI communicators that continue after one of their ranks hung, left or made another call.

#include <blink/collectives.hpp>
#include <blink/transports/host/split_communicator.hpp>
#include <blink/transports/mpi/mpi_communicator.hpp>

#include "support/expect_error.hpp"
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace mpi_shrink_test { namespace {

using std::chrono::milliseconds;

blink::communicator_options patient_for(milliseconds deadline) {
  blink::communicator_options result;
  result.waits.deadline = deadline;
  result.slot_bytes = 512;
  return result;
}

/// The sum over all ranks of `count` ones, for each element.
template <class Comm>
int sum_of_ranks(Comm& comm, blink::schedule const& trees, std::size_t count) {
  std::vector<int> data(count, comm.rank() + 1);
  blink::all_reduce(comm, trees, data.data(), data.data(), count, blink::sum{});
  for (int const value : data) EXPECT_EQ(value, data[0]);
  return data[0];
}
int sum_up_to(int ranks) {
  return ranks * (ranks + 1) / 2;
}

/// The operations of survivors: calls of several forms, splitting and another schedule.
void expect_goes_on(blink::mpi_communicator& comm, int ranks) {
  ASSERT_EQ(comm.rank_count(), ranks);
  for (std::size_t const count : {std::size_t{1}, std::size_t{3000}}) {
    EXPECT_EQ(sum_of_ranks(comm, blink::star_schedule(ranks), count), sum_up_to(ranks));
    EXPECT_EQ(sum_of_ranks(comm, blink::chain_schedule(ranks, 0), count), sum_up_to(ranks));
  }
  auto half = blink::split(comm, comm.rank() % 2, 0);
  ASSERT_TRUE(half);
  EXPECT_EQ(sum_of_ranks(*half, blink::star_schedule(half->rank_count()), 100),
            sum_up_to(half->rank_count()));
}

/// A sum that sleeps once.
struct sleeping_sum {
  milliseconds* pause;
  int operator()(int a, int b) const {
    std::this_thread::sleep_for(std::exchange(*pause, milliseconds(0)));
    return a + b;
  }
};

TEST(mpi_shrink, to_those_that_do_not_hang) {
  auto const deadline = milliseconds(500);
  blink::mpi_communicator comm(MPI_COMM_WORLD, patient_for(deadline), 0);
  int const ranks = comm.rank_count();
  int const culprit = ranks - 1;
  auto& prepared = comm.prepare(blink::star_schedule(ranks));
  std::vector<int> data(5000, 1);
  milliseconds pause(comm.rank() == culprit ? 10 * deadline.count() : 0);
  std::string reported;
  try {
    blink::all_reduce(comm, prepared, data.data(), data.data(), data.size(), sleeping_sum{&pause});
  } catch (blink::collective_error const& failure) {
    reported = failure.what();
  }
  EXPECT_SAYS(reported, "rank " + std::to_string(culprit));
  if (comm.rank() == culprit) {  // it wakes up when the peers have continued
    EXPECT_ERROR((void)comm.shrink(), "the other ranks continued without this rank");
    EXPECT_ERROR((void)comm.shrink(), "a second shrink(), expected one");
  } else {
    auto smaller = comm.shrink();
    EXPECT_ERROR((void)comm.shrink(), "a second shrink(), expected one");
    EXPECT_EQ(smaller.rank(), comm.rank());
    expect_goes_on(smaller, ranks - 1);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(mpi_shrink, to_those_that_did_not_leave_without_waiting) {
  auto const began = std::chrono::steady_clock::now();
  {
    std::optional<blink::mpi_communicator> comm(std::in_place, MPI_COMM_WORLD,
                                                patient_for(std::chrono::seconds(20)));
    int const ranks = comm->rank_count();
    EXPECT_EQ(sum_of_ranks(*comm, blink::star_schedule(ranks), 100), sum_up_to(ranks));
    if (comm->rank() == 0) {
      comm.reset();
    } else {
      EXPECT_THROW(sum_of_ranks(*comm, blink::star_schedule(ranks), 100), blink::collective_error);
      auto smaller = comm->shrink();
      EXPECT_EQ(smaller.rank(), comm->rank() - 1);
      expect_goes_on(smaller, ranks - 1);
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
}

TEST(mpi_shrink, who_shrinks_while_others_call_is_the_cause) {
  blink::mpi_communicator comm(MPI_COMM_WORLD, patient_for(std::chrono::seconds(20)));
  int const ranks = comm.rank_count();
  if (comm.rank() != 1) {
    try {
      (void)sum_of_ranks(comm, blink::star_schedule(ranks), 100);
      ADD_FAILURE() << "rank " << comm.rank() << " noticed nothing";
    } catch (blink::collective_error const& failure) {
      EXPECT_EQ(failure.rank, comm.rank()) << failure.what();
      EXPECT_EQ(failure.peer, 1) << failure.what();
      EXPECT_SAYS(failure.what(), "rank 1");
      EXPECT_SAYS(failure.what(), "shrinks the communicator");
    }
  }
  auto again = comm.shrink();
  expect_goes_on(again, ranks);
}

TEST(mpi_shrink, to_all_after_a_mismatch_again_and_again) {
  blink::mpi_communicator comm(MPI_COMM_WORLD, patient_for(std::chrono::seconds(20)));
  int const ranks = comm.rank_count();
  auto const differ = [&](blink::mpi_communicator& here, int round) {
    std::size_t const count = here.rank() == round % ranks ? 7 : 8;
    EXPECT_THROW(sum_of_ranks(here, blink::star_schedule(ranks), count), blink::collective_error);
  };
  differ(comm, 0);
  auto first = comm.shrink();
  expect_goes_on(first, ranks);
  differ(first, 1);
  auto second = first.shrink();
  expect_goes_on(second, ranks);
}

}}  // namespace mpi_shrink_test
