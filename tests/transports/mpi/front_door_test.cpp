// SPDX-License-Identifier: Apache-2.0
// Calls without a schedule among the ranks of an MPI communicator.

#include <blink/mpi.hpp>

#include "support/front_door_case.hpp"
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstddef>

namespace {

TEST(mpi_front_door, every_collective_runs_without_a_schedule) {
  blink::mpi_communicator comm(MPI_COMM_WORLD);
  for (std::size_t const count : {0U, 1U, 700U, 100'000U}) {
    EXPECT_EQ(blink_test::calls_without_a_schedule(comm, count), "") << count;
  }
  auto part = blink::split(comm, comm.rank() % 2, 0);
  EXPECT_EQ(blink_test::calls_without_a_schedule(*part, 700), "");
}

}  // namespace
