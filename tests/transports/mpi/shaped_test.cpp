// SPDX-License-Identifier: Apache-2.0
// MPI ranks over links with the rates of a schedule. Times have lower bounds only, because the
// machine may be busy.

#include <blink/collectives/all_reduce.hpp>
#include <blink/collectives/broadcast.hpp>
#include <blink/collectives/reduce.hpp>
#include <blink/reducers.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/transports/host/split_communicator.hpp>
#include <blink/transports/mpi/shaped.hpp>

#include "support/split_case.hpp"
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace {

static_assert(blink::splittable_communicator<blink::shaped_mpi_communicator>);

/// Seconds from the first rank's start to this rank's end.
template <class Call>
double seconds_of(Call const& call) {
  auto const now = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  MPI_Barrier(MPI_COMM_WORLD);
  double const own = now();
  call();
  double const end = now();
  double first = 0;
  MPI_Allreduce(&own, &first, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
  return end - first;
}

TEST(mpi_shaped, links_carry_one_sender_after_the_other) {
  blink::shaped_mpi_communicator comm(MPI_COMM_WORLD);
  auto const senders = static_cast<std::size_t>(comm.rank_count() - 1);
  constexpr std::size_t bytes = 100'000;
  std::vector<std::uint8_t> data(bytes, 1);
  auto source = blink::flat_schedule(comm.rank_count(), 0);
  source.link_bytes_per_second = {1e7};
  source.trees[0].reduce_route.assign(senders + 1, {0});
  source.trees[0].reduce_route.set(0, {});  // the root
  double const seconds = seconds_of(
      [&] { blink::reduce(comm, source, data.data(), data.data(), bytes, blink::sum{}); });
  if (comm.rank() != 0) return;
  EXPECT_GE(seconds, static_cast<double>(senders * bytes) / 1e7);
  EXPECT_EQ(data, std::vector<std::uint8_t>(bytes, static_cast<std::uint8_t>(senders + 1)));
}

TEST(mpi_shaped, latency_is_of_each_message) {
  blink::communicator_options options;
  options.costs.latency_seconds = 0.01;
  blink::shaped_mpi_communicator comm(MPI_COMM_WORLD, options);
  int const hops = comm.rank_count() - 1;
  int data = comm.rank() == 0 ? 7 : 0;
  double const seconds = seconds_of(
      [&] { blink::broadcast(comm, blink::chain_schedule(hops + 1, 0), &data, &data, 1); });
  EXPECT_EQ(data, 7);
  if (comm.rank() == hops) {
    EXPECT_GE(seconds, 0.01 * hops);
  }
}

TEST(mpi_shaped, refused_schedules_and_other_orders_are_reported) {
  blink::communicator_options options;
  options.waits.deadline = std::chrono::seconds(20);
  blink::shaped_mpi_communicator comm(MPI_COMM_WORLD, options, 0);
  int const ranks = comm.rank_count();
  auto const star = blink::star_schedule(ranks);
  auto const chain = blink::chain_schedule(ranks, 0);
  auto wrong = star;
  wrong.trees[0].reduce_parent.set(1, 1'000'000'000);
  EXPECT_THROW((void)comm.prepare(wrong), blink::precondition_error);
  wrong = star;
  wrong.link_bytes_per_second = {-1.0};
  EXPECT_THROW((void)comm.prepare(wrong), blink::precondition_error);
  (void)comm.prepare(comm.rank() == 0 ? star : chain);
  (void)comm.prepare(comm.rank() == 0 ? chain : star);
  std::vector<int> data(100, 1);
  try {
    blink::all_reduce(comm, star, data.data(), data.data(), data.size(), blink::sum{});
    ADD_FAILURE() << "different orders are not reported";
  } catch (blink::collective_error const& error) {
    EXPECT_NE(std::string(error.what()).find("in different orders"), std::string::npos)
        << error.what();
  }
}

TEST(mpi_shaped, parts_have_times_of_their_own) {
  blink::shaped_mpi_communicator comm(MPI_COMM_WORLD);
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    EXPECT_EQ(blink_test::split_at_random(comm, seed), "");
  }
}

}  // namespace
