// SPDX-License-Identifier: Apache-2.0
// Parts of a communicator, by colour and key.

#include <blink/transports/host/split_communicator.hpp>
#include <blink/transports/mpi/mpi_communicator.hpp>

#include "support/split_case.hpp"
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

namespace {

using blink_test::sum_over;

static_assert(blink::splittable_communicator<blink::mpi_communicator>);

TEST(mpi_split, parts_are_numbered_by_key_and_run_side_by_side) {
  blink::mpi_communicator comm(MPI_COMM_WORLD);
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    EXPECT_EQ(blink_test::split_at_random(comm, seed), "");
  }
}

TEST(mpi_split, refuse_what_the_whole_has_prepared) {
  blink::mpi_communicator comm(MPI_COMM_WORLD);
  EXPECT_EQ(blink_test::call_with_the_plan_of_the_whole(comm), "");
}

TEST(mpi_split, parts_come_and_go) {
  blink::mpi_communicator comm(MPI_COMM_WORLD);
  for (int round = 0; round < 40; ++round) {
    auto part = blink::split(comm, comm.rank() % 2, -comm.rank());
    ASSERT_EQ(sum_over(*part, 1), part->rank_count());
  }
}

TEST(mpi_split, who_leaves_a_part_is_missed_there_alone) {
  auto const start = std::chrono::steady_clock::now();
  {
    blink::communicator_options options;
    options.waits.deadline = std::chrono::seconds(20);
    blink::mpi_communicator comm(MPI_COMM_WORLD, options);
    auto part = blink::split(comm, 0, -comm.rank());
    if (comm.rank() != 0) {  // rank 0 of the whole is the last of the part
      try {
        sum_over(*part, 1);
        ADD_FAILURE() << "noticed nothing";
      } catch (blink::collective_error const& failure) {
        EXPECT_EQ(failure.peer, part->rank_count() - 1) << failure.what();
      }
    }
    part.reset();
    EXPECT_EQ(sum_over(comm, 1), comm.rank_count());
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(mpi_split, a_communicator_can_be_moved) {
  blink::mpi_communicator first(MPI_COMM_WORLD);
  EXPECT_EQ(sum_over(first, 1), first.rank_count());
  blink::mpi_communicator second(std::move(first));
  EXPECT_EQ(sum_over(second, 2), 2 * second.rank_count());
}

}  // namespace
