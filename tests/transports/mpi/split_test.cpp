// SPDX-License-Identifier: Apache-2.0
// Parts of a session, by colour and key.

#include <blink/transports/host/split.hpp>
#include <blink/transports/mpi/mpi_session.hpp>

#include "support/split_case.hpp"
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

namespace {

using blink_test::sum_over;

static_assert(blink::splittable_session<blink::mpi_session>);

TEST(mpi_split, parts_are_numbered_by_key_and_run_side_by_side) {
  blink::mpi_session me(MPI_COMM_WORLD);
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    EXPECT_EQ(blink_test::split_at_random(me, seed), "");
  }
}

TEST(mpi_split, refuse_what_the_whole_has_prepared) {
  blink::mpi_session me(MPI_COMM_WORLD);
  EXPECT_EQ(blink_test::call_with_the_plan_of_the_whole(me), "");
}

TEST(mpi_split, parts_come_and_go) {
  blink::mpi_session me(MPI_COMM_WORLD);
  for (int round = 0; round < 40; ++round) {
    auto part = blink::split(me, me.rank() % 2, -me.rank());
    ASSERT_EQ(sum_over(*part, 1), part->rank_count());
  }
}

TEST(mpi_split, who_leaves_a_part_is_missed_there_alone) {
  auto const start = std::chrono::steady_clock::now();
  {
    blink::world_options options;
    options.waits.deadline = std::chrono::seconds(20);
    blink::mpi_session me(MPI_COMM_WORLD, options);
    auto part = blink::split(me, 0, -me.rank());
    if (me.rank() != 0) {  // rank 0 of the whole is the last of the part
      try {
        sum_over(*part, 1);
        ADD_FAILURE() << "noticed nothing";
      } catch (blink::collective_error const& failure) {
        EXPECT_EQ(failure.peer, part->rank_count() - 1) << failure.what();
      }
    }
    part.reset();
    EXPECT_EQ(sum_over(me, 1), me.rank_count());
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(mpi_split, a_session_can_be_moved) {
  blink::mpi_session first(MPI_COMM_WORLD);
  EXPECT_EQ(sum_over(first, 1), first.rank_count());
  blink::mpi_session second(std::move(first));
  EXPECT_EQ(sum_over(second, 2), 2 * second.rank_count());
}

}  // namespace
